package lockcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/lockcmd/child"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// lease is what a life needs of a zklock.Lease.
type lease interface {
	Node() string
	Nodes() []string
	Token() int64
	SessionID() int64
	Mode() zklock.Mode
	State() zklock.Status
	Left() time.Duration
	Timeout() time.Duration
	Unlock(ctx context.Context) error
}

// asking is the state from the first request on, until the recipe tells another.
const asking zklock.State = "asking"

// life is the life of one lock in this shell, from before anything is asked of
// the server until nothing is left: the attempt to get it, its leases, the command
// that runs under it, and what others want of it. Events come in, in any order,
// and what has to follow from them goes out. It sends nothing and waits for
// nothing, and is guarded by its Table's lock.
type life struct {
	path      string        // as it was typed
	status    zklock.Status // what the recipe told last
	attempt   *attempt      // to get the lock; nil without one
	leases    []*taken      // newest last
	command   *command      // that runs under the last lease; nil without one
	revocable bool
	revoked   bool // somebody asked for the lock, which is to be honoured
	reported  bool // the loss was an error already
	stuckTold bool // so was a release that is refused
}

// attempt is one attempt to get the lock. Its end and the grant of the lock
// exclude each other: what ends it later than the grant ends nothing.
type attempt struct {
	kind    kind
	command *command // to run at once when the lock is held; nil without one
	ctx     context.Context
	cancel  context.CancelCauseFunc
	keep    func() bool // from now on the end of ctx ends nothing; false: it has ended
	queued  bool
	placed  chan struct{} // closed when it is queued
	done    chan struct{} // closed when it is over, and what is not to be kept was given back
	undone  error         // why that failed; to be read when it is done
}

// taken is one lease with its place in the order of taking.
type taken struct {
	lease
	seq    int
	kind   kind
	leaves bool // somebody is giving it back
}

// command is a program that runs, or is to run, under a lease.
type command struct {
	name    string
	grace   time.Duration // from TERM to KILL
	confirm bool          // a release that is not confirmed has a status of its own
	lease   *taken
	why     reason        // why it must end; empty: it need not
	by      time.Time     // when nothing of it may be left, if it must end
	wake    chan struct{} // capacity 1: judge anew
}

// reason is why a command is ended, or not even started; %s is the lock's path.
type reason string

const (
	lossNear reason = "lock %s: the lock is lost or about to be lost"
	overdue  reason = "lock %s: the lease was about to expire, and zksh could not renew it in time"
	wanted   reason = "lock %s: another client asked zksh to release it"
)

func (r reason) on(path string) error { return fmt.Errorf(string(r), path) }

// newAttempt is one that ends with ctx, and then calls stop.
func newAttempt(ctx context.Context, k kind, stop func()) *attempt {
	a := &attempt{kind: k, placed: make(chan struct{}), done: make(chan struct{})}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	a.keep = context.AfterFunc(a.ctx, stop)
	return a
}

// ask begins an attempt.
func (l *life) ask(a *attempt) {
	l.attempt = a
	if len(l.leases) == 0 {
		l.status = zklock.Status{State: asking}
	}
}

// learn takes what the recipe tells.
func (l *life) learn(s zklock.Status) {
	l.status = s
	l.reported = l.reported && s.State != zklock.Held
	l.revoked = l.revoked || s.Revoke != nil && l.revocable
	if a := l.attempt; a != nil && !a.queued && s.State == zklock.Queued {
		a.queued = true
		close(a.placed)
	}
	if l.command != nil {
		select {
		case l.command.wake <- struct{}{}:
		default:
		}
	}
}

// refused ends an attempt that got nothing.
func (l *life) refused() { l.attempt = nil }

// granted ends an attempt that got the lock. With an error the lock is not to be
// kept, and the command not to be run: the lease is to be given back by the caller.
func (l *life) granted(got lease, seq int, now time.Time) (*taken, error) {
	a := l.attempt
	l.attempt = nil
	t := &taken{lease: got, seq: seq, kind: a.kind}
	l.leases = append(l.leases, t)
	var err error
	switch kept := a.keep(); {
	case !kept:
		err = context.Cause(a.ctx)
	case l.revoked:
		err = wanted.on(l.path)
	case a.command != nil:
		a.command.lease = t
		if a.command.judge(false, now); a.command.why != "" {
			err = a.command.why.on(l.path)
		} else {
			l.command = a.command
		}
	}
	t.leaves = err != nil
	return t, err
}

// judge decides, by the lease's word, whether the command must end, and by when. An
// order stands; it can only become more urgent, also by a sleep of the machine,
// which stops the clock that timers go by. again is when to judge anew at the latest.
func (c *command) judge(revoked bool, now time.Time) (again time.Duration) {
	left := c.lease.Left() - killBefore
	state := c.lease.State().State
	by := now.Add(left)
	switch {
	case state == zklock.Lost: // others may hold it already, or nobody
		c.why = lossNear
		if limit := now.Add(c.grace); limit.Before(by) {
			by = limit
		}
	case left <= c.grace || state == zklock.PresumedLost:
		c.why = lossNear
	case revoked || c.why != "":
		c.why = cmp.Or(c.why, wanted)
		if limit := now.Add(c.grace); limit.Before(by) {
			by = limit
		}
	default:
		return min(left-c.grace, judgeAgain)
	}
	if c.by.IsZero() || by.Before(c.by) {
		c.by = by
	}
	return judgeAgain
}

// ended takes note that the command is gone. Its lease is to be given back by the
// caller.
func (l *life) ended() {
	l.command.lease.leaves = true
	l.command = nil
}

// claim picks a lease to be given back by the caller: what was taken last, or, so
// that writing can end and reading go on, what is exclusive before what is shared.
// That of a command goes with the command.
func (l *life) claim(exclusiveFirst bool) *taken {
	var pick *taken
	for _, t := range slices.Backward(l.leases) {
		if t.leaves || l.command != nil && l.command.lease == t {
			continue
		}
		if pick == nil || exclusiveFirst && pick.Mode() != zklock.Exclusive && t.Mode() == zklock.Exclusive {
			pick = t
		}
	}
	if pick != nil {
		pick.leaves = true
	}
	return pick
}

// answered takes the recipe's word on a lease that was given back, and returns
// how many are left. One that could not be is held as before.
func (l *life) answered(t *taken, err error) (left int) {
	t.leaves = false
	if !stuck(err) {
		l.leases = slices.DeleteFunc(l.leases, func(o *taken) bool { return o == t })
		l.reported = l.reported || errors.Is(err, zklock.ErrLost) // by who gave it back
	}
	return len(l.leases)
}

// stuck tells an error of Unlock after which the lock is still held.
func stuck(err error) bool {
	return err != nil && !errors.Is(err, zklock.ErrLost) && !errors.Is(err, zklock.ErrUnconfirmed)
}

// letGo tells, once for each time that somebody asked for it, that all is to be
// given back now. While the lock is asked for, or a command runs, it is not time.
func (l *life) letGo() bool {
	if !l.revoked || l.attempt != nil || l.command != nil {
		return false
	}
	l.revoked = false
	return slices.ContainsFunc(l.leases, func(t *taken) bool { return !t.leaves })
}

// over tells that nothing is left.
func (l *life) over() bool { return len(l.leases) == 0 && l.attempt == nil }

// lost tells whether a lock is gone, or may be.
func lost(s zklock.State) bool { return s == zklock.Lost || s == zklock.PresumedLost }

// killBefore is how long before the end of the lease nothing of a command must be
// left. It covers the time a signal takes.
const killBefore = 200 * time.Millisecond

// judgeAgain bounds the time from one look at the lease to the next.
const judgeAgain = 250 * time.Millisecond

// result is how a command under a lock on path has ended, from its own status and
// error and from the word on the release. Its own status counts only if the lock
// was held until then.
func (c *command) result(path string, status int, err, release error) error {
	switch {
	case c.why != "":
		became := "zksh terminated " + c.name
		if errors.Is(err, child.ErrEscaped) {
			became = "not all processes of " + c.name + " could be terminated in time"
		}
		if errors.Is(err, child.ErrEscaped) || errors.Is(err, child.ErrOverdue) {
			err = nil // the text has it
		}
		why := c.why.on(path)
		if c.why == lossNear && errors.Is(release, zklock.ErrLost) { // which says how it was lost
			why, release = release, nil
		}
		err = errors.Join(fmt.Errorf("%w; %s", why, became), err)
	case errors.Is(release, zklock.ErrLost):
		err, release = errors.Join(fmt.Errorf("%w before %s exited", release, c.name), err), nil
	case errors.Is(release, zklock.ErrUnconfirmed):
		return errors.Join(&commands.StatusError{Status: commands.StatusUnconfirmed, Err: release}, err)
	case status == 0 && err == nil:
		return release
	default:
		return errors.Join(&commands.StatusError{Status: status, Err: err}, release)
	}
	return errors.Join(lockLost(err), release)
}

// lockLost is an error with the status of a lock that was lost.
func lockLost(err error) error {
	return &commands.FinalError{Err: &commands.StatusError{Status: commands.StatusLockLost, Err: err}}
}
