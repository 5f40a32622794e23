package zklock

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
)

// statusLog collects the statuses that a lock reports.
type statusLog struct {
	mu  sync.Mutex
	all []Status
}

func (n *statusLog) note(s Status) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, s)
}

func (n *statusLog) states() (states []State) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.all {
		states = append(states, s.State)
	}
	return states
}

func (n *statusLog) last() Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all[len(n.all)-1]
}

// playHeld is play with a lock that has been held for a while. tied is true for an ensemble
// that ends sessions with their connections, and alone for a standalone server.
func playHeld(t *testing.T, tied, alone bool, test func(s *fakeServer, lease *Lease, n *statusLog)) {
	t.Helper()
	play(t, func(s *fakeServer, _ *Lock) {
		n := &statusLog{}
		s.endsWithConnection, s.standalone = tied, alone
		lease := s.mustLock(New(s, "/lock", Options{Notify: n.note}))
		s.pings(sessionTimeout)
		test(s, lease, n)
	})
}

// If sessions end with their connections, the lock is presumed lost exactly at the
// disconnect.
func TestDisconnectEndsTheLease(t *testing.T) {
	for _, alone := range []bool{false, true} {
		playHeld(t, true, alone, func(s *fakeServer, lease *Lease, n *statusLog) {
			if lease.Left() < sessionTimeout/4 {
				t.Fatalf("before, the lease has %v left", lease.Left())
			}
			s.disconnect()
			if left := lease.Left(); left != 0 {
				t.Errorf("right after the disconnect the lease has %v left", left)
			}
			synctest.Wait()
			st := n.last()
			if st.State != PresumedLost || !errors.Is(st.Err, errDisconnected) || !isClosed(lease.Lost()) || st.Left != 0 {
				t.Errorf("at the disconnect: %+v, lost %t", st, isClosed(lease.Lost()))
			}
			time.Sleep(10 * time.Second)
			close(s.over) // the reconnect results in another session
			synctest.Wait()
			if st := n.last(); st.State != Lost || !errors.Is(st.Err, zk.ErrSessionExpired) || lease.Left() != 0 {
				t.Errorf("at the reconnect: %+v", st)
			}
			if want := []State{Held, PresumedLost, Lost}; !slices.Equal(n.states(), want) {
				t.Errorf("reported %v, want %v", n.states(), want)
			}
			s.over = make(chan struct{}) // play closes this channel
		})
	}
}

// If such a session survives a disconnect nevertheless, the lock is held again only once
// its znode was checked on the new connection.
func TestSessionThatWasKeptAfterAll(t *testing.T) {
	playHeld(t, true, false, func(s *fakeServer, lease *Lease, n *statusLog) {
		s.disconnect()
		synctest.Wait()
		time.Sleep(time.Second)
		s.requests()
		s.connect()
		if left := lease.Left(); left != 0 {
			t.Errorf("nothing is proven yet, and the lease has %v left", left)
		}
		time.Sleep(recheckInterval + 20*roundTrip)
		synctest.Wait()
		st := n.last()
		if st.State != Held || !st.Again || st.Err != nil || !slices.Contains(s.requests(), "check") {
			t.Errorf("on the next connection: %+v", st)
		}
		if left := lease.Left(); left <= 0 || left > sessionTimeout {
			t.Errorf("the lease has %v left", left)
		}
	})
}

// If sessions outlive their connections, a disconnect leaves the lease as it is.
func TestDisconnectKeepsTheLease(t *testing.T) {
	playHeld(t, false, false, func(s *fakeServer, lease *Lease, n *statusLog) {
		before := lease.Left()
		s.disconnect()
		synctest.Wait()
		if st := n.last(); st.State != Suspended || lease.Left() != before || isClosed(lease.Lost()) {
			t.Errorf("at the disconnect: %+v, %v left of %v", st, lease.Left(), before)
		}
	})
}

// The first reconnect that results in another session shows that the ensemble ends sessions
// with their connections. The lock is then lost, and nothing is left of its lease.
func TestAnotherSessionLeavesNothingOfTheLease(t *testing.T) {
	playHeld(t, false, false, func(s *fakeServer, lease *Lease, n *statusLog) {
		s.disconnect()
		synctest.Wait()
		s.locked(func() { s.endsWithConnection = true; close(s.over); s.notify() })
		if left := lease.Left(); left != 0 {
			t.Errorf("the lease has %v left", left)
		}
		synctest.Wait()
		if want := []State{Held, Suspended, Lost}; !slices.Equal(n.states(), want) || !isClosed(lease.Lost()) {
			t.Errorf("reported %v, want %v", n.states(), want)
		}
		s.over = make(chan struct{}) // play closes this channel
	})
}

// A session that is known to have ended is reported as lost, not as suspended, even if its
// connection ended at the same moment.
func TestLostAtOnce(t *testing.T) {
	playHeld(t, false, false, func(s *fakeServer, lease *Lease, n *statusLog) {
		s.locked(func() { s.begun = time.Time{}; s.notify(); close(s.over) })
		synctest.Wait()
		if want := []State{Held, Lost}; !slices.Equal(n.states(), want) {
			t.Errorf("reported %v, want %v", n.states(), want)
		}
		s.over = make(chan struct{}) // play closes this channel
	})
}
