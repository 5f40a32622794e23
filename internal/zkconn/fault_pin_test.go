package zkconn_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

func (f *faultySession) pin() *zkconn.Pinned {
	f.t.Helper()
	p, err := f.Ensemble().Pin(zktest.Within(f.t))
	f.must(err)
	return p
}

// Pin, called while a session expires unnoticed, returns the next session.
func TestPinWaitsThroughAnExpiry(t *testing.T) {
	t.Parallel()
	f := openFaulty(t, 6*time.Second)
	old := f.pin()
	f.expire()
	got := make(chan *zkconn.Pinned)
	go func() { // ends when Pin returns
		p, err := f.Ensemble().Pin(zktest.Within(t))
		zktest.Check(t, err)
		got <- p
	}()
	select {
	case <-got:
		t.Fatal("there was a session without a connection")
	case <-time.After(100 * time.Millisecond):
	}
	f.proxy.Refuse(false)
	p := <-got
	if p == nil {
		t.FailNow()
	}
	if p.ID() == old.ID() || p.ID() == 0 || p.ID() != f.Info().ID {
		t.Errorf("session %#x; it was %#x, and is %#x", p.ID(), old.ID(), f.Info().ID)
	}
	select {
	case <-old.Ended():
	default:
		t.Error("the old session has not ended")
	}
	if err := zkconn.Exec(zktest.Within(t), old, zkconn.Delete(f.root, -1)); !errors.Is(err, zkconn.SessionExpired) {
		t.Errorf("a request in the old session: %v", err)
	}
	f.must(p.Sync(zktest.Within(t), f.root))
}

// CreateAndList creates a znode and returns the children after that.
func TestPinnedCreatesAndLists(t *testing.T) {
	t.Parallel()
	f := openFaulty(t, zktest.Patience)
	p := f.pin()
	for n := 1; n <= 3; n++ {
		req := &zk.CreateRequest{Path: f.root + "/n-", Data: []byte("x"), Acl: zkconn.OpenACL(),
			Flags: zk.FlagEphemeral | zk.FlagSequence}
		node, czxid, children, err := p.CreateAndList(zktest.Within(t), req, f.root)
		f.must(err)
		st, err := zkconn.Do(zktest.Within(t), f.observer, zkconn.Exists(node))
		f.must(err)
		if st.Czxid != czxid || len(children) != n || !slices.Contains(children, node[len(f.root)+1:]) {
			t.Errorf("%s has czxid %#x, want %#x; listed %q", node, st.Czxid, czxid, children)
		}
	}
	req := &zk.CreateRequest{Path: f.root + "/no/a", Acl: zkconn.OpenACL()}
	if _, _, _, err := p.CreateAndList(zktest.Within(t), req, f.root); !errors.Is(err, zkconn.NoNode) {
		t.Errorf("below a znode that is not there: %v", err)
	}
}

// A wake channel receives changes, also those made while disconnected. The user sees no event
// unless they set a watch too.
func TestWakesAreQuiet(t *testing.T) {
	t.Parallel()
	f := openFaulty(t, zktest.Patience)
	p := f.pin()
	f.must(f.create(f.observer, "/a", zkconn.CreateMode{}))
	wake, none := make(chan zk.EventType, 1), make(chan zk.EventType, 1)
	change := func() {
		err := zkconn.Exec(zktest.Within(t), f.observer, zkconn.SetData(f.root+"/a", []byte("x"), -1))
		f.must(err)
	}
	watch := func(c chan zk.EventType) {
		_, _, err := p.Get(zktest.Within(t), f.root+"/a", c)
		f.must(err)
	}
	woken := func() {
		t.Helper()
		select {
		case <-wake:
		case <-time.After(zktest.Patience):
			t.Fatal("nobody was woken")
		}
	}
	watch(wake)
	watch(none)
	p.Unwatch(f.root+"/a", none)
	change()
	woken()
	watch(wake)
	f.cut(change)
	woken()
	f.noNodeEvents()
	watch(wake)
	err := zkconn.Exec(zktest.Within(t), f, zkconn.GetData(f.root+"/a").Watch(true))
	f.must(err)
	change()
	woken()
	f.event("NodeDataChanged /a")
	if len(none) > 0 {
		t.Error("one that was taken back was woken")
	}
}

// An ephemeral znode is forgotten even if the answer to its delete was lost.
func TestEphemeralRemovedWithoutAnswer(t *testing.T) {
	t.Parallel()
	f := openFaulty(t, 6*time.Second)
	f.must(f.create(f.Session, "/gone", zkconn.CreateMode{Ephemeral: true}))
	f.proxy.CutAfterRequest(jute.OpDelete)
	if err := zkconn.Exec(zktest.Within(t), f, zkconn.Delete(f.root+"/gone", -1)); !errors.As(err, new(*zkconn.LostError)) {
		t.Fatalf("a delete without an answer: %v", err)
	}
	f.must(f.WaitReady(zktest.Within(t)))
	if err := zkconn.Exec(zktest.Within(t), f, zkconn.Delete(f.root+"/gone", -1)); !errors.Is(err, zkconn.NoNode) {
		t.Fatalf("a second delete: %v", err)
	}
	f.event("Disconnected")
	f.expire()
	f.proxy.Refuse(false)
	if e := f.event("Expired"); !slices.Equal(e.Gone, []string{f.root + "/canary"}) {
		t.Errorf("gone: %q", e.Gone)
	}
}
