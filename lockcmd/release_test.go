package lockcmd

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/lockcmd/child"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// After a command ends, zksh tries for the session timeout to release the lock. Ctrl-C ends the
// wait; after an earlier Ctrl-C, the wait is short. The exit status is the command's own only if the
// release is confirmed.
func TestReleaseWaits(t *testing.T) {
	const never = 10 * testTimeout
	for name, c := range map[string]struct {
		slow   time.Duration
		ctrlC  time.Duration // time after the grant; the command runs for a second
		status int
		takes  time.Duration
	}{
		"an election":   {20 * time.Second, never, 0, 20*time.Second + 500*time.Millisecond},
		"never":         {never, never, commands.StatusUnconfirmed, testTimeout},
		"Ctrl-C":        {never, 6 * time.Second, commands.StatusUnconfirmed, 5 * time.Second},
		"Ctrl-C before": {never, time.Second / 2, commands.StatusUnconfirmed, releaseTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulation(t, true)
				s.releaseDelay = c.slow
				ctx, cancel := context.WithCancelCause(t.Context())
				a := s.begin(ctx, true)
				close(s.grant)
				if _, err := s.o.acquire(a, &lockFlags{}); err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(c.ctrlC, func() { cancel(errCtrlC) })
				time.AfterFunc(time.Second, func() { close(s.finish) })
				begin := time.Now()
				err := s.o.guard(ctx, a.command, child.Spec{})
				if took := time.Since(begin) - time.Second; statusOf(err) != c.status || took != c.takes {
					t.Errorf("status %d after %s (%v), want %d after %s", statusOf(err), took, err, c.status, c.takes)
				}
				synctest.Wait()
				alerts := s.screen.Alerts()
				const unknown = "the release is not confirmed; if the lock was not released"
				if reported := err != nil && strings.Contains(err.Error(), unknown); reported != (c.slow == never) {
					t.Errorf("error: %v", err)
				}
				if patient := strings.Contains(alerts, "have not confirmed the release yet"); patient != (c.takes > releaseTimeout) {
					t.Errorf("told: %s", alerts)
				}
				if len(s.table.locks) > 0 {
					t.Error("the lock stays registered")
				}
			})
		})
	}
}

// unlock and a release at another client's request also try for the session timeout. Ctrl-C
// ends the wait of unlock, and the end of the shell ends the other wait. Both report that the
// outcome is unknown.
func TestReleaseWithoutACommandWaits(t *testing.T) {
	for name, c := range map[string]struct {
		slow    time.Duration
		revoked bool
		ctrlC   bool // Ctrl-C, or the end of the shell, after five seconds
		takes   time.Duration
	}{
		"unlock in an election":  {slow: 20 * time.Second, takes: 20*time.Second + 500*time.Millisecond},
		"unlock in vain":         {slow: 10 * testTimeout, takes: testTimeout},
		"unlock and Ctrl-C":      {slow: 10 * testTimeout, ctrlC: true, takes: 5 * time.Second},
		"revoked in an election": {slow: 20 * time.Second, revoked: true, takes: 20*time.Second + 500*time.Millisecond},
		"revoked in vain":        {slow: 10 * testTimeout, revoked: true, takes: testTimeout},
		"revoked, and the end":   {slow: 10 * testTimeout, revoked: true, ctrlC: true, takes: 5*time.Second + releaseTimeout/2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulation(t, true)
				s.releaseDelay = c.slow
				ctx, cancel := context.WithCancelCause(t.Context())
				close(s.grant)
				if _, err := s.o.acquire(s.begin(ctx, false), &lockFlags{}); err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				end := time.AfterFunc(5*time.Second, func() {
					if !c.ctrlC {
						return
					}
					if cancel(errCtrlC); c.revoked {
						s.leave(nil)
					}
				})
				var output string
				if c.revoked {
					s.revoke()
					for s.table.Lost() == nil {
						time.Sleep(time.Millisecond)
					}
				} else if _, err := s.o.unlock(ctx, s.o.env); err != nil {
					output = err.Error()
					if statusOf(err) != commands.StatusUnconfirmed {
						t.Errorf("status %d", statusOf(err))
					}
				}
				if took := time.Since(begin).Truncate(10 * time.Millisecond); took != c.takes {
					t.Errorf("took %s, want %s", took, c.takes)
				}
				synctest.Wait()
				end.Stop()
				output += s.screen.Alerts()
				if !strings.Contains(output, "have not confirmed the release yet; zksh keeps trying for up to 30s") {
					t.Errorf("told: %s", output)
				}
				if unknown := strings.Contains(output, "the release is not confirmed; if the lock was not released"); unknown != (c.slow > testTimeout) {
					t.Errorf("told: %s", output)
				}
				if len(s.table.locks) > 0 {
					t.Error("the lock stays registered")
				}
			})
		})
	}
}

// If the user left the session of a wait just before the shell exits, zksh still reports the
// end of the wait. A wait that does not end is canceled without a message.
func TestClosedWaitReportsAtExit(t *testing.T) {
	for late, want := range map[time.Duration]string{time.Second: "lock -b: /l: Not connected", time.Hour: ""} {
		synctest.Test(t, func(t *testing.T) {
			s := newSimulation(t, false)
			s.o.closed = func() bool { return true }
			s.o.acquireLease = func(ctx context.Context, _ zklock.Mode, _ bool) (lease, error) {
				select {
				case <-time.After(late):
					return nil, zkconn.ErrNotConnected
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}
			a := s.begin(t.Context(), false)
			s.table.mu.Lock()
			s.table.runInBackground(func() {
				l, err := s.o.acquire(a, &lockFlags{try: true})
				s.o.announce(a, &lockFlags{try: true}, l, err)
			})
			s.table.mu.Unlock()
			begin := time.Now()
			if _, err := s.table.Release(t.Context()); err != nil || time.Since(begin) > releaseTimeout {
				t.Errorf("%v after %s", err, time.Since(begin))
			}
			if output := strings.TrimSuffix(s.screen.Alerts(), "\n"); output != want {
				t.Errorf("told %q, want %q", output, want)
			}
		})
	}
}

// The grace period is at most an eighth of the session timeout, and shorter if that leaves no
// time to send a signal.
func TestGrace(t *testing.T) {
	for _, c := range []struct{ asked, timeout, want time.Duration }{
		{5 * time.Second, 40 * time.Second, 5 * time.Second},
		{10 * time.Second, 30 * time.Second, 3750 * time.Millisecond},
		{time.Second, 30 * time.Second, time.Second},
		{5 * time.Second, 12 * time.Second, 1500 * time.Millisecond},
		{5 * time.Second, time.Second, 50 * time.Millisecond},
		{5 * time.Second, time.Millisecond, 0},
	} {
		if got := newCommand("program", c.asked, c.timeout).grace; got != c.want {
			t.Errorf("%s of a session of %s: %s, want %s", c.asked, c.timeout, got, c.want)
		}
	}
}
