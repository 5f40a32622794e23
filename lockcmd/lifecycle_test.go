package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/child"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// eachOrder calls play with each order of the steps.
func eachOrder(steps []string, play func(order []string)) {
	var pick func(order, rest []string)
	pick = func(order, rest []string) {
		if len(rest) == 0 {
			play(slices.Clone(order))
		}
		for i, step := range rest {
			pick(append(order, step), slices.Concat(rest[:i:i], rest[i+1:]))
		}
	}
	pick(nil, steps)
}

func statusOf(err error) int {
	var st *commands.StatusError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &st):
		return st.Status
	}
	return 1
}

// In each order of events, at any speed: the program never runs without the lock or beyond its
// deadline; each lease is released once; a lost lock has its exit status; and the table is
// empty at the end.
func TestProgramInAnyOrder(t *testing.T) {
	for _, ignoresTERM := range []bool{false, true} {
		for _, pause := range []time.Duration{0, 50 * time.Millisecond, time.Second, testTimeout / 3, 2 * testTimeout} {
			eachOrder([]string{"grant", "revoke", "loss", "outage", "signal", "end"}, func(order []string) {
				synctest.Test(t, func(t *testing.T) { simulateProgram(t, ignoresTERM, pause, order) })
			})
			for _, steps := range [][]string{{"grant", "revoke", "leave", "end", "loss"}, {"grant", "unlock", "revoke", "signal", "end"},
				{"grant", "outage", "sleep", "revoke", "end"}, {"grant", "outage", "end"}} {
				eachOrder(steps, func(order []string) {
					synctest.Test(t, func(t *testing.T) { simulateProgram(t, ignoresTERM, pause, order) })
				})
			}
		}
		if t.Failed() {
			return
		}
	}
}

func simulateProgram(t *testing.T, ignoresTERM bool, pause time.Duration, order []string) {
	s := newSimulation(t, ignoresTERM)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	a := s.begin(ctx, true)
	done := make(chan struct{})
	var err error
	var over time.Time
	go func() { // ends with the program
		defer close(done)
		if _, err = s.o.acquire(a, &lockFlags{}); err == nil {
			err = s.o.guard(ctx, a.command, child.Spec{})
		}
		over = time.Now()
	}()
	var leaving sync.WaitGroup
	var lostAt, revokedAt, downAt, sleptAt time.Time
	signalled := false
	for _, step := range order {
		switch step {
		case "grant":
			close(s.grant)
		case "revoke":
			s.revoke()
			revokedAt = time.Now()
		case "loss":
			lostAt = time.Now()
			s.lose()
		case "outage":
			s.suspend()
			downAt = time.Now()
		case "signal":
			signalled = true
			s.signals <- syscall.SIGTERM
			cancel(errCtrlC)
		case "leave":
			signalled = true
			leaving.Go(func() { s.leave(done) })
		case "unlock":
			signalled = true
			leaving.Go(func() { _, _ = s.o.unlock(context.Background(), s.o.env) }) // cancels a wait, or does nothing
		case "sleep":
			s.sleep()
			sleptAt = time.Now()
		case "end":
			close(s.finish)
		}
		if pause > 0 {
			time.Sleep(pause)
			synctest.Wait()
		}
	}
	<-done
	leaving.Wait()
	s.leave(done)
	what := fmt.Sprintf("%v, ignoresTERM %v, every %v: ended with %v", order, ignoresTERM, pause, err)
	ran := !s.started.IsZero()
	s.mu.Lock()
	defer s.mu.Unlock()
	by := func(why string, since time.Time, limit time.Duration) {
		since = later(since, s.started)
		if ran && s.ended.Sub(since) > limit {
			t.Errorf("%s; %s: the program ran on for %v", what, why, s.ended.Sub(since))
		}
	}
	if !revokedAt.IsZero() {
		by("revoked", revokedAt, testGrace)
	}
	if !lostAt.IsZero() && s.lease != nil && s.lease.state == zklock.Lost {
		by("lost", lostAt, testGrace)
	}
	if !downAt.IsZero() && ran && s.ended.After(s.contact.Add(testTimeout-killMargin)) {
		t.Errorf("%s; it ran for %v after the last contact", what, s.ended.Sub(s.contact))
	}
	if !downAt.IsZero() && !sleptAt.IsZero() {
		by("asleep without a connection", later(sleptAt, downAt), maxJudgePause)
	}
	if want := map[bool]int{true: 1}[s.lease != nil]; s.releases != want {
		t.Errorf("%s; released %d times, want %d", what, s.releases, want)
	}
	before := func(step string) bool {
		i := slices.Index(order, step)
		return i >= 0 && i < slices.Index(order, "grant")
	}
	if ran && (before("revoke") || before("signal")) {
		t.Errorf("%s; the program ran, although it was too late", what)
	}
	switch status := statusOf(err); {
	case !ran && err == nil:
		t.Errorf("%s, and the program never ran", what)
	case !ran && !signalled && status != commands.StatusLockLost:
		t.Errorf("%s, and the program was not started", what)
	case ran && s.lease.state == zklock.Lost && lostAt.Before(over) && status != commands.StatusLockLost:
		t.Errorf("%s; the lock was lost, and the status is %d", what, status)
	case ran && status == commands.StatusLockLost && revokedAt.IsZero() && lostAt.IsZero() && downAt.IsZero():
		t.Errorf("%s, without a reason", what)
	}
	if len(s.table.locks) > 0 {
		t.Errorf("%s; %d locks stay registered", what, len(s.table.locks))
	}
	if n := strings.Count(s.screen.Alerts(), "asks you to release it"); n > 1 {
		t.Errorf("%s; told %d times that somebody asks for it:\n%s", what, n, s.screen.Alerts())
	}
}

// After a rejected release, the lock is still held, and zksh does not retry on its own.
func TestRevokedAndStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, false)
		close(s.grant)
		_, err := s.o.acquire(s.begin(t.Context(), false), &lockFlags{})
		zktest.Must(t, err)
		s.releaseErr = errors.New("no permission")
		s.revoke()
		synctest.Wait()
		if s.releases != 1 || s.held() != 1 || !strings.Contains(s.screen.Alerts(), "cannot release /l: no permission") {
			t.Errorf("released %d times, %d held: %s", s.releases, s.held(), s.screen.Alerts())
		}
		s.releaseErr = nil
		s.revoke()
		time.Sleep(time.Second)
		if err := s.table.Lost(); s.releases != 2 || s.held() != 0 || statusOf(err) != commands.StatusLockLost {
			t.Errorf("released %d times, %d held: %v", s.releases, s.held(), err)
		}
	})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// In each order of events, without a program, in the foreground and in the background: either
// the lock is held and zksh says so, or it is not held.
func TestHoldInAnyOrder(t *testing.T) {
	for _, background := range []bool{false, true} {
		for _, pause := range []time.Duration{0, 50 * time.Millisecond, time.Second} {
			eachOrder([]string{"grant", "revoke", "loss", "signal", "unlock"}, func(order []string) {
				synctest.Test(t, func(t *testing.T) { simulateHold(t, background, pause, order) })
			})
			eachOrder([]string{"grant", "signal", "unlock"}, func(order []string) {
				synctest.Test(t, func(t *testing.T) { simulateHold(t, background, pause, order) })
			})
		}
	}
}

func simulateHold(t *testing.T, background bool, pause time.Duration, order []string) {
	s := newSimulation(t, false)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	done := make(chan struct{})
	var err error
	wait := func(a *attempt) error {
		l, err := s.o.acquire(a, &lockFlags{})
		if err != nil {
			return err
		}
		return s.screen.Print(l.answer("/l"))
	}
	waiting := ctx
	if background {
		waiting = context.Background()
		wait = func(a *attempt) error { return waitInBackground(ctx, s.o, a, &lockFlags{}) }
	}
	a := s.begin(waiting, false)
	go func() { // ends with the wait
		defer close(done)
		err = wait(a)
	}()
	var unlocking sync.WaitGroup
	for _, step := range order {
		switch step {
		case "grant":
			if background {
				s.o.onStatus(zklock.Status{State: zklock.Queued, Place: 2})
			}
			close(s.grant)
		case "revoke":
			s.revoke()
		case "loss":
			s.lose()
		case "signal":
			cancel(errCtrlC)
		case "unlock":
			unlocking.Go(func() { _, _ = s.o.unlock(context.Background(), s.o.env) }) // its effects are checked below
		}
		if pause > 0 {
			time.Sleep(pause)
			synctest.Wait()
		}
	}
	<-done
	unlocking.Wait()
	synctest.Wait()
	time.Sleep(time.Second) // time for a release in the background
	what := fmt.Sprintf("%v, background %v, every %v: ended with %v", order, background, pause, err)
	said := s.screen.Printed() + s.screen.Alerts()
	s.mu.Lock()
	held := s.lease != nil && s.lease.state == zklock.Held
	s.mu.Unlock()
	if held && (s.releases > 0 || !strings.Contains(said, "locked /l")) {
		t.Errorf("%s; it is held, and that is not said: %q", what, said)
	}
	if held && slices.Contains(order, "revoke") {
		t.Errorf("%s; it is held, although somebody asked for it", what)
	}
	s.leave(done)
	if want := map[bool]int{true: 1}[s.lease != nil]; s.releases != want {
		t.Errorf("%s; released %d times, want %d", what, s.releases, want)
	}
	if len(s.table.locks) > 0 {
		t.Errorf("%s; %d locks stay registered", what, len(s.table.locks))
	}
	if len(s.table.ended) > 1 {
		t.Errorf("%s; given up %d times: %v", what, len(s.table.ended), s.table.ended)
	}
}

// The notice of a lock that was acquired in the background shortens the znode's name like the
// answer does.
func TestBackgroundNoticeFits(t *testing.T) {
	s := newSimulation(t, false)
	s.screen.Columns = 60
	close(s.grant)
	a := s.begin(t.Context(), false)
	l, err := s.o.acquire(a, &lockFlags{})
	zktest.Must(t, err)
	l.lease = longNameLease{l.lease}
	s.o.announce(a, &lockFlags{}, l, nil)
	zktest.Eventually(t, "the notice", func() bool { return strings.Contains(s.screen.Alerts(), "locked /l") })
	if said := s.screen.Alerts(); strings.Contains(said, longNameLease{}.Node()) || !strings.Contains(said, "000042 ") {
		t.Errorf("%q", said)
	}
	l.lease = l.lease.(longNameLease).lease
	s.leave(nil)
}

type longNameLease struct{ lease }

func (longNameLease) Node() string {
	return "/l/_c_1b7a6e8c-0a53-4a2e-9d0f-6a1c1f3f2b11-lock-0000000042"
}
