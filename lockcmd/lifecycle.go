package lockcmd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/zksh/zksh/lockcmd/queue"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// lifecycle is the state machine of one lock in this shell: the attempt to acquire the lock,
// its leases, the command that runs under it, and its release. No other type keeps this state.
//
// Each method that changes the state handles one event, and events can arrive in any order.
// judge decides when the command must end; decide returns the other actions that follow from
// the events. A lifecycle sends nothing and waits for nothing. The mutex of its Table guards
// it.
type lifecycle struct {
	path      string // as the user typed it
	kind      kind   // the command of the first request
	family    zklock.Family
	revocable bool

	status          zklock.Status // last status that the recipe reported
	attempt         *attempt      // the attempt to acquire the lock; nil if there is none
	leases          []*heldLease  // newest last
	command         *command      // runs under one of the leases; nil if there is none
	revokeRequested bool          // another client asked for the lock, and zksh has not reacted yet
	lossReported    bool          // the loss was returned as an error
	releaseRejected bool          // a release was rejected, and that was returned as an error
	notices         []string      // notices that decide has not returned yet
}

// lease contains the methods of a zklock.Lease that the lock commands use.
type lease interface {
	Node() string
	Nodes() []string
	Token() int64
	SessionID() int64
	Mode() zklock.Mode
	State() zklock.Status // used for its times, and to judge a command; otherwise lifecycle.status is used
	Left() time.Duration
	Timeout() time.Duration
	Unlock(ctx context.Context) error
}

// asking is the state between the request for the lock and the recipe's first report.
const asking zklock.State = "asking"

// attempt is one attempt to acquire the lock. Either the grant or the end of ctx comes first:
// once the lock is granted, the end of ctx has no effect.
type attempt struct {
	kind       kind
	command    *command // started as soon as the lock is held; nil if there is none
	ctx        context.Context
	cancel     context.CancelCauseFunc
	detach     func() bool // makes the end of ctx have no effect; returns false if ctx has ended
	queued     bool
	gotPlace   chan struct{} // closed when queued becomes true
	done       chan struct{} // closed when the attempt is over and an unwanted lease has been released
	releaseErr error         // error of that release; read only after done is closed
}

// heldLease is one lease of this shell.
type heldLease struct {
	lease
	seq       int // position in the order in which the shell acquired its leases
	kind      kind
	releasing bool // a goroutine is releasing it
}

// command is a program that runs under a lease or will be started when the lease is granted.
type command struct {
	name       string
	grace      time.Duration // time between SIGTERM and SIGKILL
	confirm    bool          // exit with StatusUnconfirmed if the release is not confirmed
	lease      *heldLease
	stopReason outcome       // why the command must terminate; held means that it may run
	deadline   time.Time     // when all its processes must be gone, if it must terminate
	lastWarned time.Time     // when zksh last printed the remaining time
	wake       chan struct{} // capacity 1; wakes watch to call judge again
}

// decisions are the actions that follow from events. The caller carries them out.
type decisions struct {
	notices []string // printed to the user
	yield   bool     // release all leases, because another client asked for the lock
	forget  bool     // no lease and no attempt is left; the table drops the lock
}

// newAttempt returns an attempt that is canceled when ctx ends. It calls stop if that happens
// before the grant.
func newAttempt(ctx context.Context, k kind, stop func()) *attempt {
	a := &attempt{kind: k, gotPlace: make(chan struct{}), done: make(chan struct{})}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	a.detach = context.AfterFunc(a.ctx, stop)
	return a
}

// newCommand returns a command to run under a lock. Its grace period is at most an eighth of
// the session timeout. A healthy lease may be down to 5/16 of the timeout before it is
// renewed. After the grace period and killMargin are subtracted, the rest is how long a server
// may be unavailable without the command having to terminate: about 1.5 s with a timeout of 10
// s.
func newCommand(name string, grace, timeout time.Duration) *command {
	return &command{name: name, grace: max(0, min(grace, timeout/8, timeout/4-killMargin)), wake: make(chan struct{}, 1)}
}

// decide returns the actions that follow from the events since its last call. The shell does
// not yield the lock to another client while it tries to acquire the lock or a command runs.
func (l *lifecycle) decide() decisions {
	d := decisions{notices: l.notices, forget: len(l.leases) == 0 && l.attempt == nil}
	l.notices = nil
	if l.revokeRequested && l.attempt == nil && l.command == nil {
		l.revokeRequested = false
		d.yield = slices.ContainsFunc(l.leases, func(t *heldLease) bool { return !t.releasing })
	}
	return d
}

// checkReentry returns an error if this shell, which already waits for the lock or holds it,
// cannot acquire it once more.
func (l *lifecycle) checkReentry(k kind, f *lockFlags) error {
	switch {
	case l.attempt != nil:
		return fmt.Errorf("this shell is already waiting for the lock %s; to stop waiting, run: unlock %s", l.path, l.path)
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

// attemptStarted begins an attempt.
func (l *lifecycle) attemptStarted(a *attempt) {
	l.attempt = a
	if len(l.leases) == 0 {
		l.status = zklock.Status{State: asking}
	}
}

// cancelAttempt cancels the attempt, if there is one, and returns it.
func (l *lifecycle) cancelAttempt(why error) *attempt {
	if l.attempt != nil {
		l.attempt.cancel(why)
	}
	return l.attempt
}

// statusChanged records a status that the recipe reported. If the user has left the session,
// it adds no notice, because the user knows.
func (l *lifecycle) statusChanged(s zklock.Status, left bool) {
	before := l.status.State
	if s.State != zklock.Releasing || s.Err == nil { // otherwise a removal failed, perhaps of an earlier attempt's znode
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

// notice returns the notice for a change from the state before to status s, or an empty string
// if the user need not know.
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

// reaction returns the end of a notice: how zksh reacts to a request to release the lock.
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

// attemptFailed ends the attempt without a lease.
func (l *lifecycle) attemptFailed() { l.attempt = nil }

// attemptGranted ends the attempt with a lease. If it returns an error, the shell must not
// keep the lease or start the command: the caller releases the lease.
func (l *lifecycle) attemptGranted(got lease, seq int, now time.Time) (*heldLease, error) {
	a := l.attempt
	l.attempt = nil
	t := &heldLease{lease: got, seq: seq, kind: a.kind}
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

// judge decides whether the command must terminate; left is the remaining time of its lease.
// by is the deadline, or zero if the command may run. A decision to terminate is final; its
// deadline can only become earlier, for example after sleep of the machine, which stops the
// clock of timers. The caller must call judge again within the duration recheck.
//
// judge asks the lease for its state, because lifecycle.status may lag behind or belong to an
// earlier lease.
func (l *lifecycle) judge(now time.Time, left time.Duration) (by time.Time, recheck time.Duration) {
	c := l.command
	state := c.lease.State().State
	left -= killMargin
	limit := now.Add(min(left, c.grace))
	switch {
	case left <= c.grace || isLost(state):
		c.stopReason = expiring
	case l.revokeRequested || c.stopReason != held:
		c.stopReason = cmp.Or(c.stopReason, revoked)
	default:
		if state == zklock.Suspended && now.Sub(c.lastWarned) > warnEvery {
			c.lastWarned = now
			l.notices = append(l.notices, fmt.Sprintf("lock %s: no connection; without one, zksh will terminate the command in %s", l.path, seconds(left-c.grace)))
		}
		return c.deadline, min(left-c.grace, maxJudgePause)
	}
	if c.deadline.IsZero() || limit.Before(c.deadline) {
		c.deadline = limit
	}
	return c.deadline, maxJudgePause
}

// commandEnded records that the command is gone. If late is set, the keeper process terminated
// it because zksh itself was stopped. The caller releases the lease.
func (l *lifecycle) commandEnded(late bool) {
	c := l.command
	if late && c.stopReason != expiring {
		c.stopReason = overdue
	}
	c.lease.releasing = true
	l.command = nil
}

// claim picks a lease that the caller must release, or returns nil if there is none. It picks
// the newest; with exclusiveFirst, it prefers an exclusive lease, so that the shell can stop
// writing and continue to read. It never picks the lease of the running command, which is
// released when the command ends.
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

// leaseReleased records the outcome of a release, and returns how many leases are left. After
// a rejected release, the lease is still held.
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

// sessionClosed drops the leases of a session that the user has closed. It adds a notice
// unless quiet is set: when the shell exits, it reports the result of the release instead.
func (l *lifecycle) sessionClosed(quiet bool) {
	if len(l.leases) > 0 && !quiet {
		l.notices = append(l.notices, "lock "+l.path+": released, because its session was closed")
	}
	l.leases = nil
}

// maybeLost reports whether the lock is lost or presumed lost.
func (l *lifecycle) maybeLost() bool { return isLost(l.status.State) }

// reportLoss reports whether the loss of the lock must be returned as an error now. It returns
// true once for each loss.
func (l *lifecycle) reportLoss() bool {
	due := len(l.leases) > 0 && l.maybeLost() && !l.lossReported
	l.lossReported = l.lossReported || due
	return due
}

// newest returns the sequence number of the newest lease, or 0 without leases.
func (l *lifecycle) newest() int {
	if len(l.leases) == 0 {
		return 0
	}
	return l.leases[len(l.leases)-1].seq
}

func isLost(s zklock.State) bool { return s == zklock.Lost || s == zklock.PresumedLost }

// killMargin is the time before the end of the lease by which all processes of a command must
// be gone. It covers the time that a signal takes.
const killMargin = 200 * time.Millisecond

// maxJudgePause is the maximum time between two calls of judge.
const maxJudgePause = 250 * time.Millisecond

// warnEvery is the minimum time between two notices about how much time a command has left.
const warnEvery = 4 * time.Second
