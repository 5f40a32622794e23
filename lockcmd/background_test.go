package lockcmd

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// waitInBackground starts "lock -b -E 9 /l", and returns when the wait has a place in the queue.
func (s *simulation) waitInBackground(mode commands.Mode) {
	s.o.env.Mode = mode
	a := s.begin(s.table.background, false)
	returned := make(chan error)
	go func() { // ends when the wait has a place
		returned <- waitInBackground(s.Context(), s.o, a, &lockFlags{background: true, status: 9})
	}()
	s.o.onStatus(zklock.Status{State: zklock.Queued, Place: 2})
	zktest.Must(s.T, <-returned)
}

// However a wait in the background ends, and whatever happens to the lock later: Lost reports a
// failure with the exit status of a lock in the foreground, exactly once. Lost does not report what
// the user has requested.
func TestLostReportsTheBackground(t *testing.T) {
	granted := func(happens func(s *simulation)) func(s *simulation) {
		return func(s *simulation) {
			close(s.grant)
			synctest.Wait()
			happens(s)
		}
	}
	for name, c := range map[string]struct {
		happens func(s *simulation)
		status  int
		says    string
	}{
		"an error": {func(s *simulation) { s.refuse <- &zkconn.Error{Code: zkconn.NoNode, Path: "/l"} },
			commands.StatusFailed, "lock -b: Node does not exist: /l"},
		"an error without a path": {func(s *simulation) { s.refuse <- zkconn.ErrNotConnected },
			commands.StatusFailed, "lock -b: /l: Not connected"},
		"acquired":      {granted(func(*simulation) {}), commands.StatusOK, ""},
		"lost":          {granted((*simulation).lose), commands.StatusLockLost, "lock /l is lost: removed"},
		"presumed lost": {granted((*simulation).suspend), commands.StatusLockLost, "lock /l may be lost: removed"},
		"revoked":       {granted((*simulation).revoke), commands.StatusLockLost, "lock /l: another client asked zksh to release it"},
		"revoked before the grant": {func(s *simulation) { s.revoke(); close(s.grant) },
			commands.StatusLockLost, "lock -b: lock /l: another client asked zksh to release it"},
		"lost before the end of the script": {granted(func(s *simulation) { s.lose(); s.leave(nil) }),
			commands.StatusLockLost, "lock /l is lost: removed"},
		"revoked before the end of the script": {granted(func(s *simulation) { s.revoke(); s.leave(nil) }),
			commands.StatusLockLost, "lock /l: another client asked zksh to release it"},
		"the end of the script": {func(s *simulation) { s.leave(nil) },
			9, "lock -b: /l: the script ended before the lock was acquired; to wait for it, omit -b"},
		"unlock": {func(s *simulation) {
			_, err := s.o.unlock(s.Context(), s.o.env)
			zktest.Check(s.T, err)
		}, commands.StatusOK, ""},
		"close": {func(s *simulation) {
			s.closed.Store(true)
			s.refuse <- zkconn.ErrNotConnected
		}, commands.StatusOK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulation(t, false)
				s.waitInBackground(commands.Batch)
				c.happens(s)
				time.Sleep(2 * testTimeout)
				synctest.Wait()
				err, said := s.table.Lost(), ""
				if err != nil {
					said = err.Error()
				}
				if statusOf(err) != c.status || said != c.says {
					t.Errorf("status %d, %q; want %d, %q", statusOf(err), said, c.status, c.says)
				}
				if again := s.table.Lost(); again != nil {
					t.Errorf("reported again: %v", again)
				}
				s.leave(nil)
			})
		})
	}
}

// At the prompt, the user sees a notice. The end of the shell ends a wait without a message.
func TestBackgroundAtThePrompt(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(s *simulation)
		notice  string
	}{
		"an error": {func(s *simulation) { s.refuse <- zkconn.ErrNotConnected }, "lock -b: /l: Not connected"},
		"the end":  {func(*simulation) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulation(t, false)
				s.waitInBackground(commands.ByHand)
				c.happens(s)
				synctest.Wait()
				s.leave(nil)
				if said := strings.TrimSuffix(s.screen.Alerts(), "\n"); said != c.notice {
					t.Errorf("notice %q, want %q", said, c.notice)
				}
			})
		})
	}
}
