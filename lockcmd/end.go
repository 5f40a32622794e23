package lockcmd

import (
	"errors"
	"fmt"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/lockcmd/child"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// end is how a lock ends: how its release ended, or why a command must not run on under it.
// The messages about the end of a lock and their exit statuses are in this file; the codes
// of JSON answers follow from the statuses.
type end int

const (
	held        end = iota // it has not ended
	released               // the servers have confirmed it
	unconfirmed            // released; the servers remove it when the session is over, at the latest
	rejected               // the release was rejected: it is still held
	revoked                // another client asked for it
	expiring               // it is lost, or the lease is about to expire
	overdue                // the keeper terminated the command, because zksh itself stood still
	lost                   // before it was released
)

// endOf returns how a release with this error ended.
func endOf(err error) end {
	switch {
	case err == nil:
		return released
	case errors.Is(err, zklock.ErrLost):
		return lost
	case errors.Is(err, zklock.ErrUnconfirmed):
		return unconfirmed
	}
	return rejected
}

// on returns the error of a lock on path that ends before its command does, or that was to
// be kept.
func (e end) on(path string) error {
	why := map[end]string{
		revoked:  "another client asked zksh to release it",
		expiring: "the lock is lost or about to be lost",
		overdue:  "the lease was about to expire, and zksh could not renew it in time",
	}
	return fmt.Errorf("lock %s: %s", path, why[e])
}

// ofRelease returns the error of a release for which the recipe returned err; timeout is that
// of the session, and leaving means that zksh is about to end it.
func (e end) ofRelease(path string, err error, timeout time.Duration, leaving bool) error {
	switch e {
	case lost:
		return lockLost(fmt.Errorf("%s: %w", path, err))
	case unconfirmed:
		return fmt.Errorf("%s: %w; if the lock was not released, the servers remove it when its session expires, %s after they last received something from the session "+
			"(a restart or an election starts this period again)", path, err, timeout)
	case rejected:
		out := "to end the session, and the lock with it, run: close"
		if leaving {
			out = "zksh is ending the session, which releases the lock"
		}
		return fmt.Errorf("cannot release %s: %w; %s", path, err, out)
	}
	return nil
}

// lossOf returns the error of a lock in this state, which is Lost or PresumedLost.
func lossOf(path string, s zklock.Status) error {
	switch {
	case s.State == zklock.Lost:
		return fmt.Errorf("lock %s is lost: %w", path, s.Err)
	case s.Err != nil:
		return fmt.Errorf("lock %s may be lost: %w", path, s.Err)
	}
	return fmt.Errorf("lock %s may be lost: the servers have not confirmed it for a whole session timeout", path)
}

// lossNotice returns what the user reads at once when a lock gets into this state.
func lossNotice(path string, s zklock.Status) string {
	switch {
	case s.State == zklock.Lost:
		return lossOf(path, s).Error()
	case s.Err != nil:
		return fmt.Sprintf("lock %s: presumed lost: %s; another client may hold it", path, s.Err)
	}
	return "lock " + path + ": presumed lost, because the servers have not confirmed it for a whole session timeout; another client may hold it"
}

// result returns the error of a command under a lock on path, from its own status and error,
// and from that of the release. Its own status counts only if the lock was held until then.
func (c *command) result(path string, status int, err, release error) error {
	switch e := endOf(release); {
	case c.why != held:
		became := "zksh terminated " + c.name
		if errors.Is(err, child.ErrEscaped) {
			became = "not all processes of " + c.name + " could be terminated in time"
		}
		if errors.Is(err, child.ErrEscaped) || errors.Is(err, child.ErrOverdue) {
			err = nil // the text has it
		}
		why := c.why.on(path)
		if c.why == expiring && e == lost { // which says how it was lost
			why, release = release, nil
		}
		err = errors.Join(fmt.Errorf("%w; %s", why, became), err)
	case e == lost:
		err, release = errors.Join(fmt.Errorf("%w before %s exited", release, c.name), err), nil
	case e == unconfirmed:
		return errors.Join(&commands.StatusError{Status: commands.StatusUnconfirmed, Err: release}, err)
	case status == 0 && err == nil:
		return release
	default:
		return errors.Join(&commands.StatusError{Status: status, Err: err}, release)
	}
	return errors.Join(lockLost(err), release)
}

// lockLost returns an error with the exit status of a lock that was lost.
func lockLost(err error) error {
	return &commands.FinalError{Err: &commands.StatusError{Status: commands.StatusLockLost, Err: err}}
}
