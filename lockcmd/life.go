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

// life is the state machine of one lock in this shell: the attempt to acquire it, its
// leases, the command that runs under it, and its release. Nothing else keeps this state.
//
// Each method that changes it is an event; events come in any order. What follows from
// them for others, decide returns. A life sends nothing, waits for nothing and looks at
// no clock. Its Table's lock guards it.
type life struct {
	path      string // as it was typed
	kind      kind   // of the first request
	family    zklock.Family
	revocable bool

	status   zklock.Status // as of the recipe's last report
	attempt  *attempt      // to acquire the lock; nil without one
	leases   []*taken      // newest last
	command  *command      // that runs under the last lease; nil without one
	revoked  bool          // another client asked for the lock, and has not got it yet
	reported bool          // the loss has been returned as an error
	rejected bool          // so has a rejected release
	reports  []string      // not returned by decide yet
}

// lease is the part of a zklock.Lease that a lock command uses.
type lease interface {
	Node() string
	Nodes() []string
	Token() int64
	SessionID() int64
	Mode() zklock.Mode
	State() zklock.Status // for the times in it, and to judge a command; else the state is the life's
	Left() time.Duration
	Timeout() time.Duration
	Unlock(ctx context.Context) error
}

// asking is the state from the first request to the recipe's first report.
const asking zklock.State = "asking"

// attempt is one attempt to acquire the lock. The grant and the end of ctx exclude each
// other: once the lock is granted, the end of ctx changes nothing.
type attempt struct {
	kind    kind
	command *command // to start as soon as the lock is held; nil without one
	ctx     context.Context
	cancel  context.CancelCauseFunc
	keep    func() bool // from now on the end of ctx ends nothing; false: it has ended
	queued  bool
	placed  chan struct{} // closed when it is queued
	done    chan struct{} // closed when it is over, and a lease that is not kept was released
	undone  error         // of that release; to be read when it is done
}

// taken is one lease with its place in the order of acquisition.
type taken struct {
	lease
	seq    int
	kind   kind
	leaves bool // somebody is releasing it
}

// command is a program that runs, or is to run, under a lease.
type command struct {
	name    string
	grace   time.Duration // from TERM to KILL
	confirm bool          // an unconfirmed release has an exit status of its own
	lease   *taken
	why     end           // why it must end; held: it need not
	by      time.Time     // when nothing of it may be left, if it must end
	warned  time.Time     // when the user was told last how long it has left
	wake    chan struct{} // capacity 1: judge anew
}

// decisions are what follows from events, for others to do.
type decisions struct {
	report []string // texts for the user
	yield  bool     // release all leases, because another client asked for the lock
	forget bool     // nothing is left, so the table drops the lock
}

// newAttempt returns an attempt that ends with ctx, and then calls stop.
func newAttempt(ctx context.Context, k kind, stop func()) *attempt {
	a := &attempt{kind: k, placed: make(chan struct{}), done: make(chan struct{})}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	a.keep = context.AfterFunc(a.ctx, stop)
	return a
}

// newCommand returns a command to run under a lock. Its grace is at most an eighth of the
// session timeout. A healthy lease may be down to 5/16 of the timeout before it is
// extended. The rest is the time for which a server may be gone without the command
// having to end: 1.5 s with a timeout of 10 s.
func newCommand(name string, grace, timeout time.Duration) *command {
	return &command{name: name, grace: max(0, min(grace, timeout/8, timeout/4-killBefore)), wake: make(chan struct{}, 1)}
}

// decide returns what has to follow from the events since the last call. Another client's
// request for the lock has to wait while this shell asks for the lock or a command runs.
func (l *life) decide() decisions {
	d := decisions{report: l.reports, forget: len(l.leases) == 0 && l.attempt == nil}
	l.reports = nil
	if l.revoked && l.attempt == nil && l.command == nil {
		l.revoked = false
		d.yield = slices.ContainsFunc(l.leases, func(t *taken) bool { return !t.leaves })
	}
	return d
}

// mayAsk returns an error if a lock that this shell already has cannot be acquired once more.
func (l *life) mayAsk(k kind, f *lockFlags) error {
	switch {
	case l.attempt != nil:
		return fmt.Errorf("this shell is already waiting for the lock %s; to stop waiting, run: unlock %s", l.path, l.path)
	case l.family != zklock.Family(f.family):
		return fmt.Errorf("this shell already holds the lock %s, which it acquired with %s; unlock it first", l.path, l.leases[0].kind.command)
	case k.mode == zklock.Exclusive && !slices.ContainsFunc(l.leases, func(t *taken) bool { return t.Mode() == zklock.Exclusive }):
		return fmt.Errorf("this shell holds the read lock on %s, so its own write lock would wait forever; unlock the read lock first", l.path)
	case f.note != "":
		return fmt.Errorf("this shell already holds the lock %s, and its note cannot be changed; omit -m", l.path)
	case f.acl != nil:
		return fmt.Errorf("this shell already holds the lock %s, and its ACL cannot be changed; omit --acl", l.path)
	}
	return nil
}

// asked begins an attempt.
func (l *life) asked(a *attempt) {
	l.attempt = a
	if len(l.leases) == 0 {
		l.status = zklock.Status{State: asking}
	}
}

// interrupt ends the attempt, if there is one, and returns it.
func (l *life) interrupt(why error) *attempt {
	if l.attempt != nil {
		l.attempt.cancel(why)
	}
	return l.attempt
}

// heard takes a report of the recipe. If the user has left the session, they know.
func (l *life) heard(s zklock.Status, left bool) {
	before := l.status.State
	if s.State != zklock.Releasing || s.Err == nil { // else a removal failed, maybe that of an earlier attempt's znode
		l.status = s
	}
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
	if text := l.news(before, s); text != "" && !left {
		l.reports = append(l.reports, text)
	}
}

// news returns what the user must hear of a change, or nothing.
func (l *life) news(before zklock.State, s zklock.Status) string {
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

// reaction says what follows from a request to release the lock.
func (l *life) reaction() string {
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

// refused ends an attempt that failed.
func (l *life) refused() { l.attempt = nil }

// granted ends an attempt that acquired the lock. With an error the lock is not to be kept,
// and the command not to be started: the caller releases the lease.
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
		err = revoked.on(l.path)
	case a.command != nil:
		a.command.lease, l.command = t, a.command
		if l.judge(now, t.Left()); a.command.why != held {
			err, l.command = a.command.why.on(l.path), nil
		}
	}
	t.leaves = err != nil
	return t, err
}

// judge decides whether the command must end, and by when; left is what is left of its
// lease. An order stands; it can only become more urgent, also by a sleep of the machine,
// which stops the clock that timers go by. again is when to judge anew at the latest.
//
// It asks the lease itself: a report may still be on its way, and may be that of a lease
// before this one.
func (l *life) judge(now time.Time, left time.Duration) (by time.Time, again time.Duration) {
	c := l.command
	state := c.lease.State().State
	left -= killBefore
	limit := now.Add(min(left, c.grace))
	switch {
	case left <= c.grace || isLost(state):
		c.why = expiring
	case l.revoked || c.why != held:
		c.why = cmp.Or(c.why, revoked)
	default:
		if state == zklock.Suspended && now.Sub(c.warned) > countdownEvery {
			c.warned = now
			l.reports = append(l.reports, fmt.Sprintf("lock %s: no connection; without one, zksh will terminate the command in %s", l.path, seconds(left-c.grace)))
		}
		return c.by, min(left-c.grace, judgeAgain)
	}
	if c.by.IsZero() || limit.Before(c.by) {
		c.by = limit
	}
	return c.by, judgeAgain
}

// ended takes note that the command is gone; late: its keeper terminated it, because zksh
// itself stood still. The caller releases its lease.
func (l *life) ended(late bool) {
	c := l.command
	if late && c.why != expiring {
		c.why = overdue
	}
	c.lease.leaves = true
	l.command = nil
}

// claim picks a lease for the caller to release; nil if there is none. It picks the latest,
// or, so that writing can end and reading go on, an exclusive one before a shared one. That
// of a command goes with the command.
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

// released takes the result of a release, and returns how many leases are left. After a
// rejected release the lease is held as before.
func (l *life) released(t *taken, e end) (left int) {
	t.leaves = false
	if e == rejected {
		l.rejected = true
	} else {
		l.leases = slices.DeleteFunc(l.leases, func(o *taken) bool { return o == t })
		l.reported = l.reported || e == lost // by the caller
	}
	return len(l.leases)
}

// abandoned forgets the leases of a session that the user has closed. The report is made
// once; at the end of the shell, it is quiet, because the result of the release is reported.
func (l *life) abandoned(quiet bool) {
	if len(l.leases) > 0 && !quiet {
		l.reports = append(l.reports, "lock "+l.path+": released, because its session was closed")
	}
	l.leases = nil
}

// gone reports whether the lock is lost, or may be.
func (l *life) gone() bool { return isLost(l.status.State) }

// reportLoss returns, once, whether the loss of the lock has to be returned as an error.
func (l *life) reportLoss() bool {
	due := len(l.leases) > 0 && l.gone() && !l.reported
	l.reported = l.reported || due
	return due
}

// newest returns the place of the latest lease in the order of acquisition.
func (l *life) newest() int {
	if len(l.leases) == 0 {
		return 0
	}
	return l.leases[len(l.leases)-1].seq
}

func isLost(s zklock.State) bool { return s == zklock.Lost || s == zklock.PresumedLost }

// killBefore is how long before the end of the lease nothing of a command must be
// left. It covers the time a signal takes.
const killBefore = 200 * time.Millisecond

// judgeAgain bounds the time from one look at the lease to the next.
const judgeAgain = 250 * time.Millisecond

// countdownEvery is how often a person is told how long a command has left.
const countdownEvery = 4 * time.Second
