package zklock

import (
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// plainAhead is a mutex ahead of ours, which has number 9.
const plainAhead = "_c_" + testGUID + "-lock-0000000007"

// queueUp waits for the lock behind what is ahead, and returns where the lease
// will come.
func (s *stageServer) queueUp(l *Lock, mode Mode) <-chan *Lease {
	s.with(func() { s.alone = true }) // so that no lease takes requests
	got := make(chan *Lease, 1)
	go func() { // ends with the lock, which each test takes
		lease, err := l.acquire(s.Context(), mode, true)
		if err != nil {
			s.Error(err)
		}
		got <- lease
	}()
	time.Sleep(life / 100)
	s.requests()
	return got
}

// leaves takes a child away and tells.
func (s *stageServer) leaves(name string, what zk.EventType) {
	s.with(func() {
		s.ahead = slices.DeleteFunc(slices.Clone(s.ahead), func(n string) bool { return n == name })
	})
	s.event("/lock/"+name, what)
}

// TestHandOffAlone: the only waiter behind a plain mutex holds without another list
// once that is deleted.
func TestHandOffAlone(t *testing.T) {
	for _, name := range []string{
		plainAhead, "_c_0123456789abcdef0123456789abcdef-lock-0000000007", "0123456789abcdef0123456789abcdef__lock__0000000007",
	} {
		for _, mode := range []Mode{Exclusive, Shared} {
			t.Run(string(mode)+" behind "+name, func(t *testing.T) {
				play(t, func(s *stageServer, l *Lock) {
					s.ahead = []string{"config", name}
					got := s.queueUp(l, mode)
					s.leaves(name, zk.EventNodeDeleted)
					lease := <-got
					s.sent()
					s.give(lease)
				})
			})
		}
	}
}

// TestHandOffLists: in every other case it lists before it holds.
func TestHandOffLists(t *testing.T) {
	ours := func(name string) string { return name + "0000000007" }
	deleted := func(s *stageServer) { s.leaves(s.ahead[0], zk.EventNodeDeleted) }
	for name, c := range map[string]struct {
		ahead  []string
		number int64
		secret bool
		then   func(*stageServer)
	}{
		"a write lock, which may become a read lock": {ahead: []string{ours("_c_" + testGUID + "-__WRIT__")}, then: deleted},
		"a read lock":                   {ahead: []string{ours("_c_" + testGUID + "-__READ__")}, then: deleted},
		"a shared mutex":                {ahead: []string{ours("_c_" + testGUID + "-read-lock-")}, then: deleted},
		"a write lock of the tutorials": {ahead: []string{ours("write-1-lock-")}, then: deleted},
		"the Java recipe's":             {ahead: []string{ours("x-1234-")}, then: deleted},
		"several ahead": {ahead: []string{plainAhead, "_c_b-lock-0000000008"}, then: func(s *stageServer) {
			s.with(func() { s.ahead = nil })
			s.event("/lock/_c_b-lock-0000000008", zk.EventNodeDeleted)
		}},
		"a number that is given again and again": {ahead: []string{plainAhead}, number: sticks, then: deleted},
		"another event":                          {ahead: []string{plainAhead}, then: func(s *stageServer) { s.leaves(plainAhead, zk.EventNodeDataChanged) }},
		"another connection": {ahead: []string{plainAhead}, then: func(s *stageServer) {
			s.disconnect()
			s.connect()
			deleted(s)
		}},
		"no connection": {ahead: []string{plainAhead}, then: func(s *stageServer) {
			s.disconnect()
			deleted(s)
			time.Sleep(time.Second)
			s.connect()
		}},
		"the own znode may not be read": {ahead: []string{plainAhead}, secret: true, then: deleted},
		"the own znode has changed": {ahead: []string{plainAhead}, then: func(s *stageServer) {
			s.event(s.own, zk.EventNodeDataChanged)
			deleted(s)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *stageServer, l *Lock) {
				s.ahead, s.number, s.secret = c.ahead, c.number, c.secret
				got := s.queueUp(l, Exclusive)
				c.then(s)
				lease := <-got
				if sent := s.requests(); !slices.Contains(sent, "list") {
					t.Errorf("sent %v, want a list among it", sent)
				}
				s.give(lease)
			})
		})
	}
}

// chances is how often a test repeats what one of two ready channels decides.
const chances = 20

// TestHandOffToNobody: the own znode was removed before the one ahead. Whichever is
// seen first, nothing is held by it.
func TestHandOffToNobody(t *testing.T) {
	for range chances {
		play(t, func(s *stageServer, l *Lock) {
			s.ahead = []string{plainAhead}
			s.looked = func(path string) {
				if path == "/lock/"+plainAhead {
					s.with(func() { s.gone = true })
					s.event(s.own, zk.EventNodeDeleted)
					s.leaves(plainAhead, zk.EventNodeDeleted)
				}
			}
			lease := <-s.queueUp(l, Exclusive)
			if st := lease.State(); s.gone || st.State != Held {
				t.Errorf("held without a znode: %v", st)
			}
			s.give(lease)
		})
	}
}

// TestHandOffOfAnother: what was told of one znode ahead says nothing of the next,
// though it may come as that one is waited for.
func TestHandOffOfAnother(t *testing.T) {
	for range chances {
		play(t, func(s *stageServer, l *Lock) {
			const between = "_c_b-lock-0000000008"
			s.ahead = []string{plainAhead, between}
			s.looked = func(path string) {
				if path == "/lock/"+between {
					s.event(s.own, zk.EventNodeDataChanged)
					s.leaves(between, zk.EventNodeDeleted)
				}
			}
			got := s.queueUp(l, Exclusive)
			select {
			case <-got:
				t.Error("held behind", s.ahead)
			default:
				s.leaves(plainAhead, zk.EventNodeDeleted)
				s.give(<-got)
			}
		})
	}
}
