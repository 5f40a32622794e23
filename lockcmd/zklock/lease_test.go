package zklock

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zktest"
)

// Rounds alone keep a lock for as long as the holder wants, and the lease never becomes so short
// that a command would be terminated. doc.go states the cost.
func TestRoundsExtendTheLease(t *testing.T) {
	play(t, func(s *fakeServer, l *Lock) {
		lease := s.mustLock(l)
		s.expectRequests("create")
		least := sessionTimeout
		const hours = 2 * time.Hour
		for range hours / (sessionTimeout / 100) {
			time.Sleep(sessionTimeout / 100)
			least = min(least, lease.Left())
		}
		n := len(s.requests())
		rate := float64(n) / hours.Seconds()
		s.Logf("%.3f requests a second, the lease never below %s", rate, least)
		if rate > 0.33 || rate < 0.3 {
			s.Errorf("%d requests in %s", n, hours)
		}
		if isClosed(lease.Lost()) || lease.State().State != Held || s.guards == 0 {
			s.Errorf("the lock is %s, its session is guarded by %d", lease.State().State, s.guards)
		}
		if least < sessionTimeout*29/100 {
			s.Errorf("only %s was left of the lease", least)
		}
		s.release(lease)
		time.Sleep(sessionTimeout)
		if last := s.requests(); !slices.Equal(last, []string{"delete"}) {
			s.Errorf("%v were sent when nothing was held any more", last)
		}
		if s.guards > 0 {
			s.Error("the session stays guarded")
		}
	})
}

// A server that is cut off from its leader still answers pings and reads. The lock is
// presumed lost when the lease ends, and held again once a check is answered.
func TestCutOffFromTheLeader(t *testing.T) {
	play(t, func(s *fakeServer, l *Lock) {
		lease := s.mustLock(l)
		s.pings(3 * sessionTimeout)
		cut := time.Now()
		s.locked(func() { s.cutOff = true })
		s.pings(sessionTimeout)
		select {
		case <-lease.Lost():
		default:
			s.Fatal("the lease outlasts the session")
		}
		if st := lease.State().State; st != PresumedLost {
			s.Errorf("the lock is %s", st)
		}
		s.locked(func() { s.cutOff = false })
		s.disconnect()
		s.connect()
		s.pings(sessionTimeout)
		if st := lease.State(); st.State != Held || st.Left < sessionTimeout/4 {
			s.Errorf("%s after the ensemble was there again: %s, %s left", time.Since(cut), st.State, st.Left)
		}
		s.release(lease)
	})
}

// The lock is lost exactly when the lease ends that was proven before the cut.
func TestLostInTime(t *testing.T) {
	play(t, func(s *fakeServer, l *Lock) {
		lease := s.mustLock(l)
		s.pings(2 * sessionTimeout)
		s.locked(func() { s.cutOff = true })
		end := time.Now().Add(lease.Left())
		if left := time.Until(end); left > sessionTimeout {
			s.Fatalf("%s left", left)
		}
		go s.pings(sessionTimeout) // ends before the lock is lost
		<-lease.Lost()
		if late := time.Since(end); late != 0 {
			s.Errorf("lost %s after the end of the lease", late)
		}
		time.Sleep(sessionTimeout)
	})
}

// A round is void if its connection is lost. On the next connection one check, without a sync
// before it, extends the lease from the connect request.
func TestReconnectInARound(t *testing.T) {
	for at := time.Duration(0); at < sessionTimeout/2; at += sessionTimeout / 64 {
		play(t, func(s *fakeServer, l *Lock) {
			lease := s.mustLock(l)
			time.Sleep(sessionTimeout + at)
			s.requests()
			s.disconnect()
			left := lease.Left()
			time.Sleep(time.Second)
			if now := lease.Left(); now != left-time.Second {
				s.Errorf("without a connection the lease went from %s to %s", left, now)
			}
			begun := time.Now()
			s.connect()
			time.Sleep(roundTrip + roundTrip/2) // long enough for one request, the check
			sent := s.requests()
			if i := slices.Index(sent, "check"); i < 0 || slices.Contains(sent[:i], "sync") {
				s.Errorf("after %s: sent %v, want a check and no sync before", at, sent)
			}
			if got, want := lease.Left(), time.Until(begun.Add(sessionTimeout-sessionTimeout/100)); got != want {
				s.Errorf("after %s: %s left, want %s", at, got, want)
			}
			s.release(lease)
		})
	}
}

// The lock is lost if a check finds that its znode is gone, even if no watch event comes.
func TestCheckFindsTheZnodeGone(t *testing.T) {
	play(t, func(s *fakeServer, l *Lock) {
		lease := s.mustLock(l)
		time.Sleep(sessionTimeout)
		s.locked(func() { s.checkError = zk.ErrNoNode })
		time.Sleep(sessionTimeout / 2)
		if st := lease.State(); st.State != Lost || !errors.Is(st.Err, errRemoved) {
			s.Errorf("the lock is %s: %v", st.State, st.Err)
		}
	})
}

// A check that fails with ErrNoAuth extends the lease, because it was evaluated. Any other
// rejection proves nothing.
func TestRefusedChecks(t *testing.T) {
	for refusal, want := range map[error]State{zk.ErrNoAuth: Held, zk.ErrSessionExpired: PresumedLost, zk.ErrSessionMoved: PresumedLost} {
		play(t, func(s *fakeServer, l *Lock) {
			lease := s.mustLock(l)
			time.Sleep(sessionTimeout)
			s.locked(func() { s.checkError = refusal })
			time.Sleep(2 * sessionTimeout)
			if st := lease.State().State; st != want {
				s.Errorf("%v: the lock is %s", refusal, st)
			}
			s.release(lease)
		})
	}
}

// A standalone server gets no probes, because every answer of it extends the lease.
func TestStandaloneNeedsNoErrands(t *testing.T) {
	play(t, func(s *fakeServer, l *Lock) {
		s.standalone = true
		lease := s.mustLock(l)
		time.Sleep(time.Second)
		s.requests()
		s.pings(10 * sessionTimeout)
		s.expectRequests()
		if left := lease.Left(); left < sessionTimeout/2 {
			s.Errorf("%s left", left)
		}
		s.disconnect() // the next server may be a member of an ensemble
		s.locked(func() { s.standalone = false })
		s.connect()
		time.Sleep(sessionTimeout)
		if sent := s.requests(); !slices.Contains(sent, "sync") || !slices.Contains(sent, "check") {
			s.Errorf("sent %v to an ensemble", sent)
		}
		s.release(lease)
	})
}

// A lock on an old connection needs one check, or a sync and a check if its znode is old. The
// lease then lasts until rounds extend it, with enough time left to end a command, whenever
// the last ping was.
func TestLockOnAnOldConnection(t *testing.T) {
	for _, waited := range []bool{false, true} {
		for age := 2 * sessionTimeout; age < 2*sessionTimeout+sessionTimeout/3; age += sessionTimeout / 100 {
			play(t, func(s *fakeServer, l *Lock) {
				s.pings(age)
				e := newEntry(l, s, Exclusive)
				if _, err := e.createZnode(s.Context()); err != nil {
					s.Fatal(err)
				}
				s.requests()
				if waited {
					e.createSent = time.Time{}
				}
				if e.clock.left() > 0 {
					s.Error("a lease without a proof")
				}
				zktest.Must(s, e.clock.secure(s.Context(), e.createSent, e.node()))
				want := []string{"check"}
				if waited {
					want = []string{"sync", "check"}
				}
				s.expectRequests(want...)
				h := newHold(e, 0)
				least := sessionTimeout
				for end := time.Now().Add(2 * sessionTimeout); time.Now().Before(end); time.Sleep(sessionTimeout / 200) {
					least = min(least, e.clock.left())
				}
				if least < sessionTimeout/4 {
					s.Errorf("%s after a ping, waited %v: only %s was left of the lease", age-2*sessionTimeout, waited, least)
				}
				h.stopMonitor()
			})
		}
	}
}

// A lock whose lease cannot be proven is not held, and its znode is deleted.
func TestNotHeldWithoutAProof(t *testing.T) {
	play(t, func(s *fakeServer, l *Lock) {
		s.pings(2 * sessionTimeout)
		go func() { // ends with its last line
			time.Sleep(roundTrip / 2) // the create is in flight
			s.locked(func() { s.cutOff = true })
		}()
		ctx, cancel := context.WithTimeout(s.Context(), sessionTimeout)
		defer cancel()
		if _, err := l.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, zk.ErrConnectionClosed) {
			s.Errorf("%v", err)
		}
		s.locked(func() { s.cutOff = false })
		s.requests()
		s.disconnect()
		s.connect()
		zktest.Must(s, l.Drain(s.Context()))
		if sent := s.requests(); !slices.Contains(sent, "delete") {
			s.Errorf("sent %v", sent)
		}
	})
}

// A waiter that reconnected long ago gets the lock with at most two requests and a lease that
// lasts, like a waiter that never lost its connection.
func TestLockLongAfterAReconnect(t *testing.T) {
	for age := sessionTimeout / 10; age < 2*sessionTimeout; age += sessionTimeout / 20 {
		play(t, func(s *fakeServer, l *Lock) {
			e := newEntry(l, s, Exclusive)
			if _, err := e.createZnode(s.Context()); err != nil {
				s.Fatal(err)
			}
			s.pings(sessionTimeout)
			s.disconnect()
			s.connect()
			s.pings(age)
			s.requests()
			zktest.Must(s, e.clock.secure(s.Context(), e.createSent, e.node()))
			if n := len(s.requests()); n > 2 {
				s.Errorf("%d requests", n)
			}
			h := newHold(e, 0)
			least := sessionTimeout
			for end := time.Now().Add(2 * sessionTimeout); time.Now().Before(end); time.Sleep(sessionTimeout / 200) {
				least = min(least, e.clock.left())
			}
			if least < sessionTimeout/4 {
				s.Errorf("%s after the reconnect: only %s was left of the lease", age, least)
			}
			h.stopMonitor()
		})
	}
}
