package lockcmd

import (
	"context"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

// An invalid line of ZK_LOCK_FENCE prevents all writes, here and in the programs that this
// program starts.
func TestFenceWithInvalidLine(t *testing.T) {
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	node := "/l/" + uuid + "-lock-0000000000"
	for _, line := range []string{
		b.addr, b.addr + "/", node, "host:99999" + node, ":1" + node, " ", b.addr + "/l//x", b.addr + node + "\r",
		b.addr + node + "@", b.addr + node + "@1.2", b.addr + node + "@1.2,3.4,5.6", b.addr + node + "@1.2,3", b.addr + node + "@1.2,x.4",
		b.addr + node + "@1.2;3.4", b.addr + node + "@1.2,3.4,@prod",
	} {
		s := openBelow(t, b.addr, line)
		const refusal = "nothing was written: ZK_LOCK_FENCE contains an invalid line: "
		write(t, s, b.root, refusal)
		write(t, s, b.root, "to write without the check, use --no-fence")
		if err := zkconn.Exec(zktest.Within(t), s, zkconn.GetData(b.root)); err != nil {
			t.Errorf("%q: read: %v", line, err)
		}
		other, err := s.Elsewhere(t.Context(), b.addr)
		zktest.Must(t, err)
		write(t, other, b.root, refusal)
		zktest.Check(t, other.Close(zktest.Within(t)))
		f := newFence(New(), s, false, parseFence(line))
		if lines, err := f.envValue(zktest.Within(t)); lines != line || err != nil {
			t.Errorf("a program below finds %q, %v", lines, err)
		}
	}
	if st, err := zkconn.Do(zktest.Within(t), b, zkconn.Exists(b.root)); err != nil || st.Version != 0 {
		t.Errorf("written all the same: %+v, %v", st, err)
	}
}

// A fencedLock that was parsed formats as the same line.
func TestFencedLockString(t *testing.T) {
	for _, line := range []string{
		"zk1:2181,[::1]:2182/a b/user@host/" + uuid + "-lock-0000000001",
		"zk1:2181/l/" + uuid + "-lock-0000000001@100000002.19a8b7c6d5e,0.0",
		"zk1:2181/a@b/" + uuid + "-lock-0000000001@1.2,7fffffffffffffff.4@prod",
	} {
		p, err := parseFencedLock(line)
		if err != nil || p.String() != line {
			t.Errorf("%q is read as %q, %v", line, p, err)
		}
	}
	p, err := parseFencedLock("zk1/l/" + uuid + "-lock-0000000001@100000002.a,0.0@prod")
	want := []mark{{0x100000002, 10}, {}}
	if err != nil || !slices.Equal(p.marks, want) || p.cluster != "@prod" || !slices.Equal(p.hosts, []string{"zk1:2181"}) || path.Dir(p.node) != "/l" {
		t.Errorf("%+v, %v", p, err)
	}
	if lines := parseFence("\n\n"); lines != nil {
		t.Errorf("%q", lines)
	}
}

// zksh looks for a lock of a configured cluster with the servers, credentials and TLS of the
// configuration. It uses the server names in the line only if there is no cluster.
func TestFenceOfACluster(t *testing.T) {
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	other := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	var asked []string
	resolve := func(_ context.Context, spec string) (zkconn.Config, error) {
		asked = append(asked, spec)
		if spec == "@prod" {
			return zkconn.Config{Servers: b.addr, Timeout: usualTimeout, Cluster: spec}, nil
		}
		return zkconn.Config{Servers: spec, Timeout: usualTimeout}, nil
	}
	holder := New()
	s := zksession.Open(t, zkconn.Config{Servers: b.addr, Timeout: usualTimeout, Cluster: "@prod", Resolve: resolve})
	holder.Fence(s, false)
	p := &user{testEnv: newTestEnv(s, render.Text), t: t, table: holder, fix: b}
	p.lock(exclusive, "/l")
	lines := p.fenceVariable()
	if !strings.HasSuffix(lines, "@prod") {
		t.Fatalf("a command finds %q", lines)
	}
	refused := zktest.Refused(t)
	for name, want := range map[string][]string{"@prod": {"@prod"}, "": {b.addr}} {
		line := strings.TrimSuffix(lines, "@prod") + name
		if name != "" {
			line = strings.ReplaceAll(line, b.addr, refused)
		}
		asked = nil
		t.Setenv(fenceName, line)
		below := zksession.Open(t, zkconn.Config{Servers: other.addr, Timeout: usualTimeout, Resolve: resolve})
		New().Fence(below, false)
		write(t, below, other.root, "")
		if !slices.Equal(asked, want) {
			t.Errorf("asked %q, want %q", asked, want)
		}
	}
	if _, err := p.table.Release(zktest.Within(t)); err != nil {
		t.Error(err)
	}
}

// FuzzPosts parses lines of ZK_LOCK_FENCE. Each line becomes a fencedLock with a path and
// servers or with an error; a line that was left out would not fence anything.
func FuzzPosts(f *testing.F) {
	f.Add("127.0.0.1:2181/l/_c_x-lock-0000000000@1f.18c")
	f.Add("a,b/c@1.2,3.4@prod\n[::1]:1/x\n\n/x@")
	f.Fuzz(func(t *testing.T, lines string) {
		for _, p := range parseFence(lines) {
			if p.parseErr == nil && (p.node == "" || len(p.hosts) == 0) {
				t.Errorf("%q: %+v", lines, p)
			}
		}
	})
}
