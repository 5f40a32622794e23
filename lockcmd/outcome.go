package lockcmd

import (
	"errors"
	"fmt"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/lockcmd/child"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// An outcome is the result of a release, or the reason why the command under the lock must
// terminate. This file contains all messages about the end of a lock, together with their exit
// statuses. The codes in JSON answers follow from these statuses.
type outcome int

const (
	held        outcome = iota // neither released nor lost; the command may run
	released                   // the servers confirmed the release
	unconfirmed                // release not confirmed; the servers remove the lock when the session ends, at the latest
	rejected                   // the servers rejected the release; the lock is still held
	revoked                    // another client asked zksh to release the lock
	expiring                   // the lock is lost, or its lease is about to expire
	overdue                    // the keeper process terminated the command, because zksh itself was stopped
	lost                       // the lock was lost before its release
)

// outcomeOf returns the outcome of a release whose result was err.
func outcomeOf(err error) outcome {
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

// stopError returns the error for a lock on path that zksh had to release, or whose command it
// had to terminate. The outcome is revoked, expiring or overdue.
func (e outcome) stopError(path string) error {
	why := map[outcome]string{
		revoked:  "another client asked zksh to release it",
		expiring: "the lock is lost or about to be lost",
		overdue:  "the lease was about to expire, and zksh could not renew it in time",
	}
	return fmt.Errorf("lock %s: %s", path, why[e])
}

// releaseError returns the error to report for a release with the outcome e. err is the error
// that package zklock returned, and timeout is the session timeout. leaving is true if zksh is
// about to end the session.
func (e outcome) releaseError(path string, err error, timeout time.Duration, leaving bool) error {
	switch e {
	case lost:
		return lockLost(fmt.Errorf("%s: %w", path, err))
	case unconfirmed:
		return notConfirmed(fmt.Errorf("%s: %w; if the lock was not released, the servers remove it when its session "+
			"expires, %s after they last received something from the session (a restart or an election starts this "+
			"period again)", path, err, timeout))
	case rejected:
		out := "to end the session, and the lock with it, run: close"
		if leaving {
			out = "zksh is ending the session, which releases the lock"
		}
		return fmt.Errorf("cannot release %s: %w; %s", path, err, out)
	}
	return nil
}

// lossOf returns the error for a lost lock. s is the status of the lock, in the state Lost or
// PresumedLost.
func lossOf(path string, s zklock.Status) error {
	switch {
	case s.State == zklock.Lost:
		return fmt.Errorf("lock %s is lost: %w", path, s.Err)
	case s.Err != nil:
		return fmt.Errorf("lock %s may be lost: %w", path, s.Err)
	}
	return fmt.Errorf("lock %s may be lost: the servers have not confirmed it for a whole session timeout", path)
}

// lossNotice returns the notice that zksh prints as soon as a lock is lost or presumed lost.
func lossNotice(path string, s zklock.Status) string {
	switch {
	case s.State == zklock.Lost:
		return lossOf(path, s).Error()
	case s.Err != nil:
		return fmt.Sprintf("lock %s: presumed lost: %s; another client may hold it", path, s.Err)
	}
	return "lock " + path + ": presumed lost, because the servers have not confirmed it for a whole session timeout; another client may hold it"
}

// result returns the final error of the command c, which ran under the lock on path. status
// and err are the result of the command, and release is the error of releasing the lock. The
// command's exit status counts only if the lock was held until the command exited.
func (c *command) result(path string, status int, err, release error) error {
	switch e := outcomeOf(release); {
	case c.stopReason != held:
		became := "zksh terminated " + c.name
		if errors.Is(err, child.ErrEscaped) {
			became = "not all processes of " + c.name + " could be terminated in time"
		}
		if errors.Is(err, child.ErrEscaped) || errors.Is(err, child.ErrOverdue) {
			err = nil // the message for this outcome already reports the error
		}
		why := c.stopReason.stopError(path)
		if c.stopReason == expiring && e == lost { // the error of the release says how the lock was lost
			why, release = release, nil
		}
		err = errors.Join(fmt.Errorf("%w; %s", why, became), err)
	case e == lost:
		err, release = errors.Join(fmt.Errorf("%w before %s exited", release, c.name), err), nil
	case e == unconfirmed:
		return errors.Join(release, err) // in this order, because the first exit status counts
	case status == 0 && err == nil:
		return release
	default:
		return errors.Join(&commands.StatusError{Status: status, Err: err}, release)
	}
	return errors.Join(lockLost(err), release)
}

// notConfirmed wraps err in an error with the exit status for a release that no server has confirmed.
func notConfirmed(err error) error {
	return &commands.StatusError{Status: commands.StatusUnconfirmed, Err: err}
}

// lockLost wraps err in an error that stops zksh with the exit status for a lost lock.
func lockLost(err error) error {
	return &commands.FinalError{Err: &commands.StatusError{Status: commands.StatusLockLost, Err: err}}
}
