package zklock

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// Rounds alone keep a lock for good, and the lease never falls so low that a
// command would have to be ended. What that costs is said in doc.go.
func TestRoundsExtendTheLease(t *testing.T) {
	play(t, func(s *stageServer, l *Lock) {
		lease := s.take(l)
		s.sent("create")
		least := life
		const hours = 2 * time.Hour
		for range hours / (life / 100) {
			time.Sleep(life / 100)
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
		if least < life/4 {
			s.Errorf("only %s was left of the lease", least)
		}
		s.give(lease)
		time.Sleep(life)
		if last := s.requests(); !slices.Equal(last, []string{"delete"}) {
			s.Errorf("%v were sent when nothing was held any more", last)
		}
		if s.guards > 0 {
			s.Error("the session stays guarded")
		}
	})
}

// A server that is cut off from its leader goes on to answer pings and reads. The
// lock is presumed lost when the lease is over, and kept when a check is answered.
func TestCutOffFromTheLeader(t *testing.T) {
	play(t, func(s *stageServer, l *Lock) {
		lease := s.take(l)
		s.pings(3 * life)
		cut := time.Now()
		s.with(func() { s.cutOff = true })
		s.pings(life)
		select {
		case <-lease.Lost():
		default:
			s.Fatal("the lease outlasts the session")
		}
		if st := lease.State().State; st != PresumedLost {
			s.Errorf("the lock is %s", st)
		}
		s.with(func() { s.cutOff = false })
		s.disconnect()
		s.connect()
		s.pings(life)
		if st := lease.State(); st.State != Held || st.Left < life/4 {
			s.Errorf("%s after the ensemble was there again: %s, %s left", time.Since(cut), st.State, st.Left)
		}
		s.give(lease)
	})
}

// The lease ends by what was proven before the cut, to the moment.
func TestLostInTime(t *testing.T) {
	play(t, func(s *stageServer, l *Lock) {
		lease := s.take(l)
		s.pings(2 * life)
		s.with(func() { s.cutOff = true })
		end := time.Now().Add(lease.Left())
		if left := time.Until(end); left > life {
			s.Fatalf("%s left", left)
		}
		go s.pings(life) // ends before the lock is lost
		<-lease.Lost()
		if late := time.Since(end); late != 0 {
			s.Errorf("lost %s after the end of the lease", late)
		}
		time.Sleep(life)
	})
}

// A connection that ends in the middle of a round makes it void, and the next one
// is proven by one check, which counts from its connect request.
func TestReconnectInARound(t *testing.T) {
	for at := time.Duration(0); at < life/2; at += life / 64 {
		play(t, func(s *stageServer, l *Lock) {
			lease := s.take(l)
			time.Sleep(life + at)
			s.requests()
			s.disconnect()
			left := lease.Left()
			time.Sleep(time.Second)
			if now := lease.Left(); now != left-time.Second {
				s.Errorf("without a connection the lease went from %s to %s", left, now)
			}
			begun := time.Now()
			s.connect()
			time.Sleep(trip + trip/2) // the check waits for nothing else
			sent := s.requests()
			if i := slices.Index(sent, "check"); i < 0 || slices.Contains(sent[:i], "sync") {
				s.Errorf("after %s: sent %v, want a check and no sync before", at, sent)
			}
			if got, want := lease.Left(), time.Until(begun.Add(life-life/100)); got != want {
				s.Errorf("after %s: %s left, want %s", at, got, want)
			}
			s.give(lease)
		})
	}
}

// The check finds that the own znode is gone, whatever became of the watch.
func TestCheckFindsTheZnodeGone(t *testing.T) {
	play(t, func(s *stageServer, l *Lock) {
		lease := s.take(l)
		time.Sleep(life)
		s.with(func() { s.refusal = zk.ErrNoNode })
		time.Sleep(life / 2)
		if st := lease.State(); st.State != Lost || !errors.Is(st.Err, errRemoved) {
			s.Errorf("the lock is %s: %v", st.State, st.Err)
		}
	})
}

// A check that may not read the own znode was made all the same; another refusal
// proves nothing.
func TestRefusedChecks(t *testing.T) {
	for refusal, want := range map[error]State{zk.ErrNoAuth: Held, zk.ErrSessionExpired: PresumedLost, zk.ErrSessionMoved: PresumedLost} {
		play(t, func(s *stageServer, l *Lock) {
			lease := s.take(l)
			time.Sleep(life)
			s.with(func() { s.refusal = refusal })
			time.Sleep(2 * life)
			if st := lease.State().State; st != want {
				s.Errorf("%v: the lock is %s", refusal, st)
			}
			s.give(lease)
		})
	}
}

// A server that stands alone is asked nothing: what it answers will do.
func TestStandaloneNeedsNoErrands(t *testing.T) {
	play(t, func(s *stageServer, l *Lock) {
		s.alone = true
		lease := s.take(l)
		time.Sleep(time.Second)
		s.requests()
		s.pings(10 * life)
		s.sent()
		if left := lease.Left(); left < life/2 {
			s.Errorf("%s left", left)
		}
		s.disconnect() // whatever answers next may be a member of an ensemble
		s.with(func() { s.alone = false })
		s.connect()
		time.Sleep(life)
		if sent := s.requests(); !slices.Contains(sent, "sync") || !slices.Contains(sent, "check") {
			s.Errorf("sent %v to an ensemble", sent)
		}
		s.give(lease)
	})
}

// On a fresh connection a lock costs nothing more. On an old one it is held
// before one check, or a sync and a check, and the lease then lasts until rounds
// extend it, and longer than a command needs to end, whenever the last ping was.
func TestLockOnAnOldConnection(t *testing.T) {
	for _, waited := range []bool{false, true} {
		for age := 2 * life; age < 2*life+life/3; age += life / 100 {
			play(t, func(s *stageServer, l *Lock) {
				s.pings(age)
				e := newEntry(l, s, Exclusive)
				if _, err := e.enter(s.Context()); err != nil {
					s.Fatal(err)
				}
				s.requests()
				if waited {
					e.made = time.Time{}
				}
				if e.clock.left() > 0 {
					s.Error("a lease without a proof")
				}
				if err := e.clock.secure(s.Context(), e.made, e.node()); err != nil {
					s.Fatal(err)
				}
				want := []string{"check"}
				if waited {
					want = []string{"sync", "check"}
				}
				s.sent(want...)
				h := newHold(e, 0)
				least := life
				for end := time.Now().Add(2 * life); time.Now().Before(end); time.Sleep(life / 200) {
					least = min(least, e.clock.left())
				}
				if least < life/4 {
					s.Errorf("%s after a ping, waited %v: only %s was left of the lease", age-2*life, waited, least)
				}
				h.end()
			})
		}
	}
}

// A lock that cannot be proven is not held, and its znode is removed.
func TestNotHeldWithoutAProof(t *testing.T) {
	play(t, func(s *stageServer, l *Lock) {
		s.pings(2 * life)
		go func() { // ends with its last line
			time.Sleep(trip / 2) // the create is under way
			s.with(func() { s.cutOff = true })
		}()
		ctx, cancel := context.WithTimeout(s.Context(), life)
		defer cancel()
		if _, err := l.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, zk.ErrConnectionClosed) {
			s.Errorf("%v", err)
		}
		s.with(func() { s.cutOff = false })
		s.requests()
		s.disconnect()
		s.connect()
		if err := l.Drain(s.Context()); err != nil {
			s.Fatal(err)
		}
		if sent := s.requests(); !slices.Contains(sent, "delete") {
			s.Errorf("sent %v", sent)
		}
	})
}

// One who has waited for long since he came back is in no other place than one
// who never was away.
func TestLockLongAfterAReconnect(t *testing.T) {
	for age := life / 10; age < 2*life; age += life / 20 {
		play(t, func(s *stageServer, l *Lock) {
			e := newEntry(l, s, Exclusive)
			if _, err := e.enter(s.Context()); err != nil {
				s.Fatal(err)
			}
			s.pings(life)
			s.disconnect()
			s.connect()
			s.pings(age)
			s.requests()
			if err := e.clock.secure(s.Context(), e.made, e.node()); err != nil {
				s.Fatal(err)
			}
			if n := len(s.requests()); n > 2 {
				s.Errorf("%d requests", n)
			}
			h := newHold(e, 0)
			least := life
			for end := time.Now().Add(2 * life); time.Now().Before(end); time.Sleep(life / 200) {
				least = min(least, e.clock.left())
			}
			if least < life/4 {
				s.Errorf("%s after the reconnect: only %s was left of the lease", age, least)
			}
			h.end()
		})
	}
}
