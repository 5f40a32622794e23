package lockcmd

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/queue"
)

// queue reads the queue at the root, with the clients' addresses.
func (b *fixture) queue() *queue.Queue {
	b.t.Helper()
	q, err := queue.Look(zktest.Within(b.t), ensemble{b.Session}, b.root)
	zktest.Must(b.t, err)
	return q
}

// brief returns the mode, the state and the last part of the znode's name of each contender.
func brief(q *queue.Queue) string {
	var rows []string
	for i, row := range q.Table().Rows {
		end := q.Contenders[i].Node
		end = strings.TrimLeft(end[strings.LastIndexAny(end, "-_#")+1:], "0")
		rows = append(rows, row[1]+" "+row[2]+" "+end)
	}
	return strings.Join(rows, ", ")
}

func TestCuratorSemaphore(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newFixture(t, addr)
		other := open(t, addr, usualTimeout)
		b.persistent("/leases", "")
		b.persistent("/locks", "")
		if q := b.queue(); q.State != "free" || len(q.Ignored) > 0 {
			t.Errorf("an empty one: %+v", q)
		}
		b.addContenders("leases/"+uuid+"-lease-0000000001", "leases/"+uuid+"-lease-0000000002")
		if got := brief(b.queue()); got != "semaphore holds 1, semaphore holds 2" {
			t.Error(got)
		}
		b.create(other, "/locks/"+uuid+"-lock-0000000007", "", zkconn.OpenACL(), true)
		b.addContenders("locks/" + uuid + "-lock-0000000008")
		if got := brief(b.queue()); got != "semaphore holds 1, semaphore holds 2, semaphore waits 7, semaphore waits 8" {
			t.Error(got)
		}
		b.create(other, "/leases/"+uuid+"-lease-0000000003", "", zkconn.OpenACL(), true) // the semaphore has no free lease for it yet
		q := b.queue()
		if got := brief(q); got != "semaphore holds 1, semaphore holds 2, semaphore waits 3, semaphore waits 8" || len(q.Warnings) > 0 {
			t.Error(got, q.Warnings)
		}
	})
}

func TestFreeAndForeign(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newFixture(t, addr)
		foreign := []string{"_c_x", "config", "leases", "lock-", "lock-99999999999"}
		for _, n := range foreign {
			b.persistent("/"+n, "")
		}
		q := b.queue()
		if q.State != "free" || !q.Free() || cmp.Diff(foreign, q.Ignored) != "" {
			t.Errorf("%+v", q)
		}
		missing, err := queue.Read(zktest.Within(t), ensemble{b.Session}, b.root+"/none")
		if err != nil || missing.State != "free" || !missing.Free() {
			t.Errorf("%+v, %v", missing, err)
		}
		b.addContenders("lock-0000000001")
		if got := brief(b.queue()); got != "lock holds 1" {
			t.Error(got)
		}
		if _, err := queue.Read(zktest.Within(t), ensemble{b.Session}, "no/path"); err == nil {
			t.Error("no error for a malformed path")
		}
	})
}

func TestUnreadableData(t *testing.T) {
	for _, waiters := range []int{1, 2 * readBatch} { // read one by one, and with multiRead
		t.Run(strconv.Itoa(waiters), func(t *testing.T) {
			onBoth(t, func(t *testing.T, addr string) { oneHolderHidden(t, newFixture(t, addr), waiters) })
		})
	}
}

func oneHolderHidden(t *testing.T, b *fixture, waiters int) {
	other := open(t, b.addr, usualTimeout)
	zktest.Must(t, other.AddAuth(zktest.Within(t), "digest", []byte("a:b")))
	private := []zk.ACL{{Perms: zk.PermAll, Scheme: "auth"}}
	b.create(other, "/"+uuid+"-lock-0000000001", "secret", private, true)
	want := "lock holds 1"
	for i := range waiters {
		b.create(b.Session, fmt.Sprintf("/%s-lock-%010d", uuid, i+2), fmt.Sprint("waiter ", i+2), zkconn.OpenACL(), true)
		want += fmt.Sprintf(", lock waits %d", i+2)
	}
	q := b.queue()
	if got := brief(q); got != want {
		t.Error(got)
	}
	c := q.Contenders[0]
	if c.Who != "unreadable" || c.Data != nil || c.Session != render.Hex(other.Info().ID) || c.Since == "" {
		t.Errorf("%+v", c)
	}
	for i, c := range q.Contenders[1:] {
		if got := string(c.Data); got != fmt.Sprint("waiter ", i+2) {
			t.Errorf("%d: %q", i+2, got)
		}
	}
}

func BenchmarkQueue1000(b *testing.B) {
	fix := newFixture(b, zktest.Shared(b).Addr())
	pipe, err := fix.Pipe(zktest.Within(b), fix.root)
	zktest.Must(b, err)
	var made []*zkconn.Pending[zkconn.Written]
	for i := range 1000 {
		made = append(made, zkconn.Add(pipe, zkconn.Create(fmt.Sprintf("%s/%s-lock-%010d", fix.root, uuid, i), []byte(`{"host":"web1","pid":1}`), zkconn.OpenACL(), zkconn.CreateMode{})))
	}
	for _, m := range made {
		if _, err := m.Wait(zktest.Within(b)); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		q := fix.queue()
		if len(q.Contenders) != 1000 {
			b.Fatal(len(q.Contenders))
		}
		zktest.Must(b, q.Text(io.Discard))
	}
}
