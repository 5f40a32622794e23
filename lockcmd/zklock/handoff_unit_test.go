package zklock

import (
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// mutexAhead is the name of a plain mutex's znode. Its number 7 puts it ahead of our own znode,
// which has number 9.
const mutexAhead = "_c_" + testGUID + "-lock-0000000007"

// queueUp waits for the lock behind s.ahead. The lease is sent on the channel.
func (s *fakeServer) queueUp(l *Lock, mode Mode) <-chan *Lease {
	s.locked(func() { s.standalone = true }) // so that the lease needs no requests
	got := make(chan *Lease, 1)
	go func() { // ends with the lock, which each test acquires
		lease, err := l.acquire(s.Context(), mode, true)
		if err != nil {
			s.Error(err)
		}
		got <- lease
	}()
	time.Sleep(sessionTimeout / 100)
	s.requests()
	return got
}

// removeAhead removes a child and sends the event what.
func (s *fakeServer) removeAhead(name string, what zk.EventType) {
	s.locked(func() {
		s.ahead = slices.DeleteFunc(slices.Clone(s.ahead), func(n string) bool { return n == name })
	})
	s.fire("/lock/"+name, what)
}

// The only waiter behind a plain mutex holds the lock without another list once the mutex
// is deleted.
func TestHandOffAlone(t *testing.T) {
	for _, name := range []string{
		mutexAhead, "_c_0123456789abcdef0123456789abcdef-lock-0000000007", "0123456789abcdef0123456789abcdef__lock__0000000007",
	} {
		for _, mode := range []Mode{Exclusive, Shared} {
			t.Run(string(mode)+" behind "+name, func(t *testing.T) {
				play(t, func(s *fakeServer, l *Lock) {
					s.ahead = []string{"config", name}
					got := s.queueUp(l, mode)
					s.removeAhead(name, zk.EventNodeDeleted)
					lease := <-got
					s.expectRequests()
					s.release(lease)
				})
			})
		}
	}
}

// In every other case a waiter lists the contenders again before it holds the lock.
func TestHandOffLists(t *testing.T) {
	ours := func(name string) string { return name + "0000000007" }
	deleted := func(s *fakeServer) { s.removeAhead(s.ahead[0], zk.EventNodeDeleted) }
	for name, c := range map[string]struct {
		ahead  []string
		number int64
		secret bool
		then   func(*fakeServer)
	}{
		"a write lock, which may become a read lock": {ahead: []string{ours("_c_" + testGUID + "-__WRIT__")}, then: deleted},
		"a read lock":                   {ahead: []string{ours("_c_" + testGUID + "-__READ__")}, then: deleted},
		"a shared mutex":                {ahead: []string{ours("_c_" + testGUID + "-read-lock-")}, then: deleted},
		"a write lock of the tutorials": {ahead: []string{ours("write-1-lock-")}, then: deleted},
		"the Java recipe's":             {ahead: []string{ours("x-1234-")}, then: deleted},
		"several ahead": {ahead: []string{mutexAhead, "_c_b-lock-0000000008"}, then: func(s *fakeServer) {
			s.locked(func() { s.ahead = nil })
			s.fire("/lock/_c_b-lock-0000000008", zk.EventNodeDeleted)
		}},
		"a number that is given again and again": {ahead: []string{mutexAhead}, number: firstUntrusted, then: deleted},
		"another event":                          {ahead: []string{mutexAhead}, then: func(s *fakeServer) { s.removeAhead(mutexAhead, zk.EventNodeDataChanged) }},
		"another connection": {ahead: []string{mutexAhead}, then: func(s *fakeServer) {
			s.disconnect()
			s.connect()
			deleted(s)
		}},
		"no connection": {ahead: []string{mutexAhead}, then: func(s *fakeServer) {
			s.disconnect()
			deleted(s)
			time.Sleep(time.Second)
			s.connect()
		}},
		"our own znode may not be read": {ahead: []string{mutexAhead}, secret: true, then: deleted},
		"our own znode has changed": {ahead: []string{mutexAhead}, then: func(s *fakeServer) {
			s.fire(s.ownPath, zk.EventNodeDataChanged)
			deleted(s)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *fakeServer, l *Lock) {
				s.ahead, s.ownNumber, s.unreadable = c.ahead, c.number, c.secret
				got := s.queueUp(l, Exclusive)
				c.then(s)
				lease := <-got
				if sent := s.requests(); !slices.Contains(sent, "list") {
					t.Errorf("sent %v, want a list among it", sent)
				}
				s.release(lease)
			})
		})
	}
}

// repeats is how often a test runs if two ready channels decide its course.
const repeats = 20

// A waiter whose own znode was deleted before the znode ahead does not hold the lock,
// whichever event it sees first.
func TestHandOffToNobody(t *testing.T) {
	for range repeats {
		play(t, func(s *fakeServer, l *Lock) {
			s.ahead = []string{mutexAhead}
			s.afterGet = func(path string) {
				if path == "/lock/"+mutexAhead {
					s.locked(func() { s.deleted = true })
					s.fire(s.ownPath, zk.EventNodeDeleted)
					s.removeAhead(mutexAhead, zk.EventNodeDeleted)
				}
			}
			lease := <-s.queueUp(l, Exclusive)
			if st := lease.State(); s.deleted || st.State != Held {
				t.Errorf("held without a znode: %v", st)
			}
			s.release(lease)
		})
	}
}

// An event of one znode ahead does not count for the next one, even if it arrives while the
// waiter already waits for that one.
func TestHandOffOfAnother(t *testing.T) {
	for range repeats {
		play(t, func(s *fakeServer, l *Lock) {
			const between = "_c_b-lock-0000000008"
			s.ahead = []string{mutexAhead, between}
			s.afterGet = func(path string) {
				if path == "/lock/"+between {
					s.fire(s.ownPath, zk.EventNodeDataChanged)
					s.removeAhead(between, zk.EventNodeDeleted)
				}
			}
			got := s.queueUp(l, Exclusive)
			select {
			case <-got:
				t.Error("held behind", s.ahead)
			default:
				s.removeAhead(mutexAhead, zk.EventNodeDeleted)
				s.release(<-got)
			}
		})
	}
}
