package lockcmd

import (
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

// A line that names no lock keeps from writing, here and in what runs below.
func TestFenceThatCannotBeRead(t *testing.T) {
	b := newBed(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	node := "/l/" + uuid + "-lock-0000000000"
	for _, line := range []string{
		b.addr, b.addr + "/", node, "host:99999" + node, ":1" + node, " ", b.addr + "/l//x", b.addr + node + "\r",
		b.addr + node + "@", b.addr + node + "@1.2", b.addr + node + "@1.2,3.4,5.6", b.addr + node + "@1.2,3", b.addr + node + "@1.2,x.4",
		b.addr + node + "@1.2;3.4", b.addr + node + "@1.2,3.4,@prod",
	} {
		s := below(t, b.addr, line)
		const refusal = "nothing was written: ZK_LOCK_FENCE contains an invalid line: "
		write(t, s, b.root, refusal)
		write(t, s, b.root, "to write without the check, use --no-fence")
		if err := zkconn.Exec(zktest.Within(t), s, zkconn.GetData(b.root)); err != nil {
			t.Errorf("%q: read: %v", line, err)
		}
		other, err := s.Elsewhere(b.addr)
		if err != nil {
			t.Fatal(err)
		}
		write(t, other, b.root, refusal)
		if err := other.Close(zktest.Within(t)); err != nil {
			t.Error(err)
		}
		f := newFence(New(), s, false, postsOf(line))
		if lines, err := f.lines(zktest.Within(t)); lines != line || err != nil {
			t.Errorf("a program below finds %q, %v", lines, err)
		}
	}
	if st, err := zkconn.Do(zktest.Within(t), b, zkconn.Exists(b.root)); err != nil || st.Version != 0 {
		t.Errorf("written all the same: %+v, %v", st, err)
	}
}

// What is written is what is read.
func TestPosts(t *testing.T) {
	for _, line := range []string{
		"zk1:2181,[::1]:2182/a b/user@host/" + uuid + "-lock-0000000001",
		"zk1:2181/l/" + uuid + "-lock-0000000001@100000002.19a8b7c6d5e,0.0",
		"zk1:2181/a@b/" + uuid + "-lock-0000000001@1.2,7fffffffffffffff.4@prod",
	} {
		p, err := parsePost(line)
		if err != nil || p.String() != line {
			t.Errorf("%q is read as %q, %v", line, p, err)
		}
	}
	p, err := parsePost("zk1/l/" + uuid + "-lock-0000000001@100000002.a,0.0@prod")
	want := []mark{{0x100000002, 10}, {}}
	if err != nil || !slices.Equal(p.marks, want) || p.cluster != "@prod" || !slices.Equal(p.hosts, []string{"zk1:2181"}) || path.Dir(p.node) != "/l" {
		t.Errorf("%+v, %v", p, err)
	}
	if lines := postsOf("\n\n"); lines != nil {
		t.Errorf("%q", lines)
	}
}

// The servers of a cluster are asked as the configuration has them, with its credentials and
// its TLS, and then by the names that the line has.
func TestFenceOfACluster(t *testing.T) {
	b := newBed(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	other := newBed(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	var asked []string
	resolve := func(spec string) (zkconn.Config, error) {
		asked = append(asked, spec)
		if spec == "@prod" {
			return zkconn.Config{Servers: b.addr, Timeout: usual, Cluster: spec}, nil
		}
		return zkconn.Config{Servers: spec, Timeout: usual}, nil
	}
	holder := New()
	s := zksession.Open(t, zkconn.Config{Servers: b.addr, Timeout: usual, Cluster: "@prod", Resolve: resolve})
	holder.Fence(s, false)
	p := &person{stage: newStage(s, render.Text), t: t, table: holder, bed: b}
	p.lock(exclusive, "/l")
	lines := p.lines()
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
		below := zksession.Open(t, zkconn.Config{Servers: other.addr, Timeout: usual, Resolve: resolve})
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

// FuzzPosts reads lines of ZK_LOCK_FENCE. Each stands for a post or a fault: none is left
// out, or its lock would fence nothing.
func FuzzPosts(f *testing.F) {
	f.Add("127.0.0.1:2181/l/_c_x-lock-0000000000@1f.18c")
	f.Add("a,b/c@1.2,3.4@prod\n[::1]:1/x\n\n/x@")
	f.Fuzz(func(t *testing.T, lines string) {
		for _, p := range postsOf(lines) {
			if p.fault == nil && (p.node == "" || len(p.hosts) == 0) {
				t.Errorf("%q: %+v", lines, p)
			}
		}
	})
}
