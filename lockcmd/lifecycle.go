package lockcmd

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/zksh/zksh/lockcmd/queue"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// A lifecycle is the state machine of one lock in this shell. It contains the whole state of the
// lock: the attempt to acquire it, its leases, the command that runs under it, and its release.
//
// Each method that changes the state handles one event, and events can arrive in any order.
// judge decides when the command must terminate; decide returns the other actions that follow
// from the events. The methods send no requests and never block. The caller must hold the mutex
// of the Table.
type lifecycle struct {
	path      string // path of the lock, as the user typed it
	kind      kind   // the command that first requested the lock
	family    zklock.Family
	revocable bool

	status          zklock.Status // last status that package zklock reported
	attempt         *attempt      // the attempt to acquire the lock; nil if there is none
	leases          []*heldLease  // leases of the lock, newest last
	command         *command      // command that runs under one of the leases; nil if there is none
	revokeRequested bool          // whether a request by another client for the lock is pending
	lossReported    bool          // whether the loss of the lock was returned as an error
	releaseRejected bool          // whether the rejection of a release was returned as an error
	notices         []string      // notices for the user that decide has not returned yet
}

// A lease is the part of a zklock.Lease that the lock commands use.
type lease interface {
	Node() string
	Token() int64
	SessionID() int64
	Mode() zklock.Mode
	State() zklock.Status // only for the times and for judge; other code uses lifecycle.status
	Left() time.Duration
	Timeout() time.Duration
	Unlock(ctx context.Context) error
}

// asking is the state of a requested lock until package zklock reports its first status.
const asking zklock.State = "asking"

// An attempt is one attempt to acquire the lock. If ctx ends before the lock is granted, the
// attempt is canceled. After the grant, the end of ctx has no effect.
type attempt struct {
	kind       kind
	command    *command // command to start as soon as the lock is acquired; nil if there is none
	ctx        context.Context
	cancel     context.CancelCauseFunc
	detach     func() bool   // stops the reaction to the end of ctx; returns false if ctx has ended
	queued     bool          // whether the attempt has a place in the queue
	gotPlace   chan struct{} // closed when queued becomes true
	done       chan struct{} // closed when the attempt is over and any unwanted lease has been released
	releaseErr error         // error of releasing an unwanted lease; valid once done is closed
}

// A heldLease is one lease that this shell holds.
type heldLease struct {
	lease
	seq       int // position in the order in which the shell acquired its leases
	kind      kind
	releasing bool // whether a goroutine is releasing the lease
}

// A command is a program that runs under a lease, or that zksh will start when the lease is
// granted.
type command struct {
	name       string
	grace      time.Duration // time between SIGTERM and SIGKILL
	lease      *heldLease
	stopReason outcome       // why the command must terminate; the value held means that it may run
	deadline   time.Time     // time by which all processes of the command must have ended; zero while it may run
	lastWarned time.Time     // when zksh last printed the remaining time
	wake       chan struct{} // capacity 1; makes the goroutine of watch call judge again
}

// decisions are the actions that follow from events. The caller of decide carries them out.
type decisions struct {
	notices []string // messages to print for the user
	yield   bool     // whether to release all leases, because another client asked for the lock
	forget  bool     // whether to forget the lock, because no lease and no attempt remains
}

// newAttempt returns an attempt that is canceled when ctx ends. If ctx ends before the lock is
// granted, newAttempt also makes sure that stop is called.
func newAttempt(ctx context.Context, k kind, stop func()) *attempt {
	a := &attempt{kind: k, gotPlace: make(chan struct{}), done: make(chan struct{})}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	a.detach = context.AfterFunc(a.ctx, stop)
	return a
}

// note returns the note that other clients see: the one that the user has given, or else the name of
// the command.
func (a *attempt) note(given string) string {
	if given == "" && a.command != nil {
		return filepath.Base(a.command.name)
	}
	return given
}

// newCommand returns a command to run under a lock. It limits the grace period to at most an
// eighth of the session timeout.
//
// A healthy lock renews its lease with at least 5/16 of the timeout left. The limit lets the
// command survive a short outage of the servers at that moment. With a timeout of 10 s, the outage
// may last about 1.7 s: 3.1 s, minus 1.25 s for the grace period and 0.2 s for killMargin.
func newCommand(name string, grace, timeout time.Duration) *command {
	return &command{name: name, grace: max(0, min(grace, timeout/8, timeout/4-killMargin)), wake: make(chan struct{}, 1)}
}

// decide returns the actions that follow from the events since the last call. zksh does not
// release the lock at another client's request while it still tries to acquire the lock, or
// while a command runs under it.
func (l *lifecycle) decide() decisions {
	d := decisions{notices: l.notices, forget: len(l.leases) == 0 && l.attempt == nil}
	l.notices = nil
	if l.revokeRequested && l.attempt == nil && l.command == nil {
		l.revokeRequested = false
		d.yield = slices.ContainsFunc(l.leases, func(t *heldLease) bool { return !t.releasing })
	}
	return d
}

// checkReentry returns an error if this shell already holds the lock, or waits for it, and cannot
// acquire it once more with the given command and flags.
func (l *lifecycle) checkReentry(k kind, f *lockFlags) error {
	switch {
	case l.attempt != nil:
		return fmt.Errorf("this shell is already waiting for the lock %s; to stop waiting, run: unlock %s", l.path, l.path)
	case l.kind.leases != k.leases:
		return fmt.Errorf("this shell already holds %s %s, which it acquired with %s; unlock it first", l.kind.noun(), l.path, l.leases[0].kind.usage())
	case l.family != zklock.Family(f.family):
		return fmt.Errorf("this shell already holds the lock %s, which it acquired with %s; unlock it first", l.path, l.leases[0].kind.command)
	case k.mode == zklock.Exclusive && !slices.ContainsFunc(l.leases, func(t *heldLease) bool { return t.Mode() == zklock.Exclusive }):
		return fmt.Errorf("this shell holds the read lock on %s, so its own write lock would wait forever; unlock the read lock first", l.path)
	case f.note != "":
		return fmt.Errorf("this shell already holds the lock %s, and its note cannot be changed; omit -m", l.path)
	case f.acl != nil:
		return fmt.Errorf("this shell already holds the lock %s, and its ACL cannot be changed; omit --acl", l.path)
	}
	return nil
}

// attemptStarted records that an attempt to acquire the lock has begun.
func (l *lifecycle) attemptStarted(a *attempt) {
	l.attempt = a
	if len(l.leases) == 0 {
		l.status = zklock.Status{State: asking}
	}
}

// cancelAttempt cancels the current attempt to acquire the lock, with the given cause. It returns
// the attempt, or nil if there is none.
func (l *lifecycle) cancelAttempt(cause error) *attempt {
	if l.attempt != nil {
		l.attempt.cancel(cause)
	}
	return l.attempt
}

// statusChanged records a status of the lock that package zklock reported. If left is true, the
// user has closed the session and needs no notice.
func (l *lifecycle) statusChanged(s zklock.Status, left bool) {
	before := l.status.State
	// A failed removal of a znode does not change the status, because the znode may belong to an
	// earlier attempt.
	if s.State != zklock.Releasing || s.Err == nil {
		l.status = s
	}
	l.lossReported = l.lossReported && s.State != zklock.Held
	l.revokeRequested = l.revokeRequested || s.Revoke != nil && l.revocable
	if a := l.attempt; a != nil && !a.queued && s.State == zklock.Queued {
		a.queued = true
		close(a.gotPlace)
	}
	if l.command != nil {
		select {
		case l.command.wake <- struct{}{}:
		default:
		}
	}
	if text := l.notice(before, s); text != "" && !left {
		l.notices = append(l.notices, text)
	}
}

// notice returns the notice to print when the state of the lock changes from before to the state in
// s. It returns an empty string if there is nothing to print.
func (l *lifecycle) notice(before zklock.State, s zklock.Status) string {
	switch {
	case isLost(s.State):
		return lossNotice(l.path, s)
	case s.State == zklock.Requeued:
		return fmt.Sprintf("lock %s: zksh lost its place in the queue (%s) and is queueing again", l.path, s.Err)
	case s.State == zklock.Suspended:
		return fmt.Sprintf("lock %s: no connection; the lock is safe for another %s", l.path, seconds(s.Left))
	case s.State == zklock.Releasing && s.Err != nil:
		return fmt.Sprintf("lock %s: %s", l.path, s.Err)
	case s.State == zklock.Held && s.Revoke != nil:
		return fmt.Sprintf("lock %s: %s asks you to release it%s", l.path, queue.Asker(s.Revoke), l.reaction())
	case s.State == zklock.Held && s.Again:
		return "lock " + l.path + ": still held, because the server still has the session"
	case s.State == zklock.Held && before == zklock.Suspended:
		return "lock " + l.path + ": connected again and still held"
	}
	return ""
}

// reaction returns the last part of the notice that another client asks for the lock: how zksh
// reacts, or how the user can release the lock.
func (l *lifecycle) reaction() string {
	switch {
	case l.revocable && l.command != nil:
		return "; zksh is terminating the command"
	case l.revocable:
		return "; zksh is releasing it"
	case l.command != nil:
		return "; the lock is released when the command exits"
	}
	return "; to release it, run: unlock " + l.path
}

// attemptFailed records that the attempt to acquire the lock has ended without a lease.
func (l *lifecycle) attemptFailed() { l.attempt = nil }

// attemptGranted records that the attempt to acquire the lock has ended with a lease. If it
// returns an error, the shell must not keep the lease or start the command, and the caller must
// release the lease.
func (l *lifecycle) attemptGranted(granted lease, seq int, now time.Time) (*heldLease, error) {
	a := l.attempt
	l.attempt = nil
	t := &heldLease{lease: granted, seq: seq, kind: a.kind}
	l.leases = append(l.leases, t)
	var err error
	switch kept := a.detach(); {
	case !kept:
		err = context.Cause(a.ctx)
	case l.revokeRequested:
		err = revoked.stopError(l.path)
	case a.command != nil:
		a.command.lease, l.command = t, a.command
		if l.judge(now, t.Left()); a.command.stopReason != held {
			err, l.command = a.command.stopReason.stopError(l.path), nil
		}
	}
	t.releasing = err != nil
	return t, err
}

// judge decides whether the command must terminate. remaining is the remaining time of the
// command's lease. The returned deadline is the time by which the command must be gone, or zero if
// the command may run. The caller must call judge again within the duration recheck.
//
// A decision to terminate is final. Its deadline can only become earlier, for example because the
// machine was asleep while timers stood still. While zksh is stopped, the keeper of package child
// applies the same rule (keeper.checkClock).
//
// judge asks the lease for its state, because lifecycle.status may be out of date or belong to an
// earlier lease.
func (l *lifecycle) judge(now time.Time, remaining time.Duration) (deadline time.Time, recheck time.Duration) {
	c := l.command
	state := c.lease.State().State
	remaining -= killMargin
	limit := now.Add(min(remaining, c.grace))
	switch {
	case remaining <= c.grace || isLost(state):
		c.stopReason = expiring
	case l.revokeRequested || c.stopReason != held:
		c.stopReason = cmp.Or(c.stopReason, revoked)
	default:
		if state == zklock.Suspended && now.Sub(c.lastWarned) > warnEvery {
			c.lastWarned = now
			l.notices = append(l.notices, fmt.Sprintf("lock %s: no connection; without one, zksh will terminate the command in %s", l.path, seconds(remaining-c.grace)))
		}
		return c.deadline, min(remaining-c.grace, maxJudgePause)
	}
	if c.deadline.IsZero() || limit.Before(c.deadline) {
		c.deadline = limit
	}
	return c.deadline, maxJudgePause
}

// commandEnded records that the command has ended. byKeeper means that the keeper process
// terminated it, because zksh itself was suspended. The caller must release the lease.
func (l *lifecycle) commandEnded(byKeeper bool) {
	c := l.command
	if byKeeper && c.stopReason != expiring {
		c.stopReason = overdue
	}
	c.lease.releasing = true
	l.command = nil
}

// claim selects the lease that the caller must release next, or returns nil if there is none. It
// selects the newest lease. With exclusiveFirst, it prefers an exclusive lease, so that the shell
// gives up the right to write before the right to read. It never selects the lease of the running
// command, which is released when the command ends.
func (l *lifecycle) claim(exclusiveFirst bool) *heldLease {
	var pick *heldLease
	for _, t := range slices.Backward(l.leases) {
		if t.releasing || l.command != nil && l.command.lease == t {
			continue
		}
		if pick == nil || exclusiveFirst && pick.Mode() != zklock.Exclusive && t.Mode() == zklock.Exclusive {
			pick = t
		}
	}
	if pick != nil {
		pick.releasing = true
	}
	return pick
}

// leaseReleased records the outcome e of releasing the lease t, and returns the number of remaining
// leases. If the release was rejected, the lease is still held.
func (l *lifecycle) leaseReleased(t *heldLease, e outcome) (left int) {
	t.releasing = false
	if e == rejected {
		l.releaseRejected = true
	} else {
		l.leases = slices.DeleteFunc(l.leases, func(o *heldLease) bool { return o == t })
		l.lossReported = l.lossReported || e == lost // the caller reports this loss
	}
	return len(l.leases)
}

// sessionClosed removes the leases of a session that the user has closed, and adds a notice
// unless quiet is true. The shell sets quiet when it exits, because it then reports the result
// of the release instead.
func (l *lifecycle) sessionClosed(quiet bool) {
	if len(l.leases) > 0 && !quiet {
		l.notices = append(l.notices, "lock "+l.path+": released, because its session was closed")
	}
	l.leases = nil
}

// maybeLost reports whether the lock is lost or presumed lost.
func (l *lifecycle) maybeLost() bool { return isLost(l.status.State) }

// markLossReported reports whether the caller must now return the loss of the lock as an error. It
// returns true only once for each loss.
func (l *lifecycle) markLossReported() bool {
	due := len(l.leases) > 0 && l.maybeLost() && !l.lossReported
	l.lossReported = l.lossReported || due
	return due
}

// newestSeq returns the sequence number of the newest lease, or 0 if there are no leases.
func (l *lifecycle) newestSeq() int {
	if len(l.leases) == 0 {
		return 0
	}
	return l.leases[len(l.leases)-1].seq
}

func isLost(s zklock.State) bool { return s == zklock.Lost || s == zklock.PresumedLost }

// killMargin is the safety margin between the time by which all processes of a command must have
// ended and the end of the lease. It allows for the delay before a signal takes effect.
const killMargin = 200 * time.Millisecond

// maxJudgePause is the maximum time between two calls of judge.
const maxJudgePause = 250 * time.Millisecond

// warnEvery is the minimum time between two notices about the remaining time of a command.
const warnEvery = 4 * time.Second
