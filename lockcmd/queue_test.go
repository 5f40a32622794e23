package lockcmd

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

func (b *bed) queue() *queue {
	b.t.Helper()
	q, err := readQueue(within(b.t), b.Session, b.root)
	if err != nil {
		b.t.Fatal(err)
	}
	return q
}

// brief is a queue in few words: mode, state and the end of the node's name.
func brief(q *queue) string {
	var rows []string
	for _, c := range q.Contenders {
		end := c.Nodes[0]
		if i := strings.LastIndexAny(end, "-_#"); i >= 0 {
			end = end[i+1:]
		}
		end = strings.TrimLeft(end, "0")
		rows = append(rows, c.word()+" "+c.State+" "+end)
	}
	return strings.Join(rows, ", ")
}

var families = map[string]struct {
	nodes []string
	want  string
}{
	"mutex":           {[]string{uuid + "-lock-0000000002", uuid + "-lock-0000000001"}, "lock holds 1, lock waits 2"},
	"go-zookeeper":    {[]string{guid + "-lock-0000000002", guid + "-lock-0000000001"}, "lock holds 1, lock waits 2"},
	"readers first":   {[]string{uuid + "-__READ__0000000001", uuid + "-__READ__0000000002", uuid + "-__WRIT__0000000003", uuid + "-__READ__0000000004"}, "read holds 1, read holds 2, write waits 3, read waits 4"},
	"writer first":    {[]string{uuid + "-__WRIT__0000000001", uuid + "-__READ__0000000002"}, "write holds 1, read waits 2"},
	"downgraded read": {[]string{uuid + "-__WRIT__0000000004", uuid + "-__READ__0000000003"}, "read holds 3, write waits 4"},
	"kazoo":           {[]string{hex32 + "__lock__0000000001", hex32 + "__rlock__0000000002", hex32 + "__lock__0000000003"}, "lock holds 1, read waits 2, lock waits 3"},
	"kazoo readers":   {[]string{hex32 + "__rlock__0000000001", hex32 + "__rlock__0000000002"}, "read holds 1, read holds 2"},
	"latch":           {[]string{uuid + "-latch-0000000001", uuid + "-latch-0000000002"}, "latch holds 1, latch waits 2"},
	"recipe":          {[]string{"x-72057594-0000000001", "x-0123456789abcdef-0000000002"}, "lock holds 1, lock waits 2"},
	"HBase":           {[]string{"read-0000000001", "write-0000000002"}, "read holds 1, write waits 2"},
	"Accumulo":        {[]string{"zlock#8a9b#0000000001", "zlock-0000000002"}, "lock holds 1, lock waits 2"},
	"liberal":         {[]string{hex32 + "__rlock__0000000001", uuid + "-__READ__0000000002", uuid + "-lock-0000000003", uuid + "-__READ__0000000004"}, "read holds 1, read holds 2, lock waits 3, read waits 4"},
	"overflow":        {[]string{uuid + "-lock-2147483646", uuid + "-lock-2147483647", guid + "-lock-2147483647", uuid + "-lock--2147483648"}, "lock holds 2147483646, lock waits 2147483647, lock waits 2147483647, lock waits 2147483648"},
	"overflow, czxid": {[]string{uuid + "-lock--2147483648", uuid + "-lock-2147483647", uuid + "-lock-0000000007"}, "lock holds 2147483648, lock waits 2147483647, lock waits 7"},
}

func TestFamilies(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		for name, c := range families {
			b := newBed(t, addr)
			b.add(c.nodes...)
			if got := brief(b.queue()); got != c.want {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		}
	})
}

func TestCuratorSemaphore(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newBed(t, addr)
		other := open(t, addr, patience)
		b.persistent("/leases", "")
		b.persistent("/locks", "")
		if q := b.queue(); q.State != "free" || len(q.Ignored) > 0 {
			t.Errorf("an empty one: %+v", q)
		}
		b.add("leases/"+uuid+"-lease-0000000001", "leases/"+uuid+"-lease-0000000002")
		if got := brief(b.queue()); got != "semaphore holds 1, semaphore holds 2" {
			t.Error(got)
		}
		b.create(other, "/locks/"+uuid+"-lock-0000000007", "", zkconn.OpenACL(), true)
		b.add("locks/" + uuid + "-lock-0000000008")
		if got := brief(b.queue()); got != "semaphore holds 1, semaphore holds 2, semaphore waits 7, semaphore waits 8" {
			t.Error(got)
		}
		b.create(other, "/leases/"+uuid+"-lease-0000000003", "", zkconn.OpenACL(), true) // and no room for it yet
		q := b.queue()
		if got := brief(q); got != "semaphore holds 1, semaphore holds 2, semaphore waits 3, semaphore waits 8" || len(q.Warnings) > 0 {
			t.Error(got, q.Warnings)
		}
	})
}

func TestKazooSemaphore(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newBed(t, addr)
		if _, err := b.Set(within(t), b.root, []byte("2"), -1); err != nil {
			t.Fatal(err)
		}
		second := "f" + hex32[1:]
		b.add(second, hex32) // in this order, which is not that of the names
		b.persistent("-__lock__", "")
		b.create(open(t, addr, patience), "-__lock__/"+hex32+"__lock__0000000005", "", zkconn.OpenACL(), true)
		q := b.queue()
		if q.MaxLeases != 2 || len(q.Contenders) != 3 || q.Contenders[0].Nodes[0] != second || len(q.Warnings) > 0 {
			t.Errorf("%+v", q)
		}
		if got := brief(q); !strings.HasPrefix(got, "semaphore holds ") || !strings.HasSuffix(got, "semaphore waits 5") {
			t.Error(got)
		}
	})
}

// The nodes that one transaction makes for several families are one contender.
func TestAllFamiliesAreOne(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newBed(t, addr)
		p, err := b.Pin(within(t))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			var reqs []any
			for _, name := range []string{uuid + "-lock-", uuid + "-__WRIT__", hex32 + "__lock__"} {
				reqs = append(reqs, &zk.CreateRequest{Path: b.root + "/" + name, Acl: zkconn.OpenACL(), Flags: zk.FlagEphemeral | zk.FlagSequence})
			}
			if err := p.Multi(within(t), reqs...); err != nil {
				t.Fatal(err)
			}
		}
		b.add(hex32+"__lock__0000000009", guid+"-lock-0000000010")
		q := b.queue()
		if got := brief(q); got != "lock holds , lock waits 3, lock waits 9, lock waits 10" {
			t.Error(got)
		}
		if len(q.Contenders[0].Nodes) != 3 || q.Contenders[1].Place != 2 {
			t.Errorf("%+v", q.Contenders[0])
		}
		want := []string{"kazoo locks do not wait for go-zookeeper locks: both …__lock__… and _c_…-lock-… may hold at once"}
		if diff := cmp.Diff(want, q.Warnings); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFreeAndForeign(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newBed(t, addr)
		foreign := []string{"_c_x", "config", "leases", "lock-", "lock-99999999999"}
		for _, n := range foreign {
			b.persistent("/"+n, "")
		}
		q := b.queue()
		if q.State != "free" || q.status() != nil || cmp.Diff(foreign, q.Ignored) != "" {
			t.Errorf("%+v", q)
		}
		missing, err := readQueue(within(t), b.Session, b.root+"/none")
		if err != nil || missing.State != "free" || missing.status() != nil {
			t.Errorf("%+v, %v", missing, err)
		}
		b.add("lock-0000000001")
		if got := brief(b.queue()); got != "lock holds 1" {
			t.Error(got)
		}
		if _, err := readQueue(within(t), b.Session, "no/path"); err == nil {
			t.Error("no error for a malformed path")
		}
	})
}

func TestDataThatIsNotForUs(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newBed(t, addr)
		other := open(t, addr, patience)
		if err := other.AddAuth(within(t), "digest", []byte("a:b")); err != nil {
			t.Fatal(err)
		}
		private := []zk.ACL{{Perms: zk.PermAll, Scheme: "auth"}}
		b.create(other, "/"+uuid+"-lock-0000000001", "secret", private, true)
		b.add(uuid + "-lock-0000000002")
		q := b.queue()
		if got := brief(q); got != "lock holds 1, lock waits 2" {
			t.Error(got)
		}
		c := q.Contenders[0]
		if c.Who != "not readable" || c.Data != nil || c.Session != sessionText(other.Info().ID) || c.Since == "" {
			t.Errorf("%+v", c)
		}
	})
}

func BenchmarkQueue1000(b *testing.B) {
	bed := newBed(b, zktest.Shared(b).Addr())
	pipe, err := bed.Pipe(within(b), bed.root)
	if err != nil {
		b.Fatal(err)
	}
	var made []*zkconn.Pending[struct{}]
	for i := range 1000 {
		made = append(made, pipe.Create(fmt.Sprintf("%s/%s-lock-%010d", bed.root, uuid, i), []byte(`{"host":"web1","pid":1}`), zkconn.OpenACL()))
	}
	for _, m := range made {
		if _, err := m.Wait(within(b)); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		q, err := fullQueue(within(b), bed.Session, bed.root)
		if err != nil || len(q.Contenders) != 1000 {
			b.Fatal(err)
		}
		q.lines()
	}
}
