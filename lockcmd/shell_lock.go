package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/child"
	"github.com/zksh/zksh/lockcmd/zklock"
	sessions "github.com/zksh/zksh/lockcmd/zklock/ensemble"
)

// A shellLock is one lock of this shell. It carries out the decisions of its lifecycle: it
// requests the lock from package zklock, runs the command and releases the lock. Every event
// goes through apply.
type shellLock struct {
	table        *Table
	key          key
	env          *commands.Env
	acquireLease func(ctx context.Context, mode zklock.Mode, try bool) (lease, error)
	drain        func(ctx context.Context) error // waits until the znodes of failed attempts and releases are gone
	closed       func() bool                     // reports whether the user has left the ensemble with close or connect
	lifecycle                                    // guarded by table.mu
}

// apply applies an event to the lifecycle and carries out the resulting decisions.
func (o *shellLock) apply(event func()) {
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	event()
	o.table.carryOut(o)
}

// carryOut carries out the decisions of a lock's lifecycle. The caller must hold t.mu.
func (t *Table) carryOut(o *shellLock) {
	d := o.decide()
	for _, text := range d.notices {
		o.notify(text)
	}
	if d.yield {
		t.runInBackground(func() { t.yield(o) })
	}
	if d.forget && t.locks[o.key] == o {
		delete(t.locks, o.key)
	}
}

func (o *shellLock) notify(text string) { o.table.notifier.notify(o.env.Screen.Alert, text) }

// currentStatus returns the last status of the lock that package zklock reported.
func (o *shellLock) currentStatus() zklock.Status {
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	return o.status
}

// onStatus handles a new status of the lock. It is the Notify function of the zklock.Lock.
func (o *shellLock) onStatus(s zklock.Status) {
	left := o.closed()
	o.apply(func() {
		if o.statusChanged(s, left); left && s.State == zklock.Lost {
			o.sessionClosed(o.table.ending)
		}
	})
}

// bellAfter is how long a user must have waited for a lock, so that zksh rings the bell when the lock
// is granted. Tests change it.
var bellAfter = 10 * time.Second

// acquire acquires the lock and returns its new lease. If the attempt was canceled before the
// lease arrived, or the lease must not be kept for another reason, acquire releases the lease
// and returns an error.
func (o *shellLock) acquire(a *attempt, f *lockFlags) (l *heldLease, err error) {
	defer close(a.done)
	defer a.cancel(nil)
	ctx := a.ctx
	d := deadlockSearch{o.table, o.env, o.path, o.closed, f.background}
	predicted := !f.try && o.currentStatus().State == asking && o.env.Mode == commands.ByHand && d.predict(ctx, a.kind.mode)
	ctx, cancelLimit := f.limited(ctx)
	defer cancelLimit()
	searchCtx, stopSearch := context.WithCancel(ctx)
	var search sync.WaitGroup
	if !f.try && !predicted {
		search.Go(func() { d.search(searchCtx) })
	}
	lease, err := o.acquireLease(ctx, a.kind.mode, f.try)
	stopSearch()
	search.Wait()
	if err != nil {
		o.apply(o.attemptFailed)
		return nil, acquireError(ctx, o.env, o.path, o.currentStatus().Ahead, a, f, err)
	}
	o.apply(func() {
		o.table.seq++
		l, err = o.attemptGranted(lease, o.table.seq, time.Now())
	})
	switch {
	case err == nil:
		if l.State().Waited > bellAfter {
			o.env.Screen.Bell()
		}
		return l, nil
	case a.ctx.Err() != nil:
		err = &commands.FinalError{Err: canceledError(o.path, a)}
	case a.command != nil:
		err = lockLost(fmt.Errorf("%w; %s was not started", err, a.command.name))
	default:
		err = lockLost(err)
	}
	releasing, cancel := forRelease(a.ctx)
	defer cancel()
	_, a.releaseErr = o.release(releasing, l)
	return nil, errors.Join(err, a.releaseErr)
}

// guard runs the command under its lease, and releases the lease when all processes of the
// command have exited. Signals that would terminate zksh are passed on to the command.
func (o *shellLock) guard(ctx context.Context, c *command, spec child.Spec) error {
	spec.Env, spec.Alert, spec.Grace = environment(o.path, c.lease), o.notify, c.grace
	spec.Env = append(spec.Env, heldName+"="+strings.Join(o.table.heldNodes(), "\n"), fenceName+"="+o.table.fenceOf(ctx, o, c.lease))
	spec.Left = func() time.Duration { return c.lease.Left() - killMargin }
	stop := make(chan time.Time, 1)
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { o.watch(c, stop, over) })
	status, err := o.table.run(spec, stop)
	close(over)
	watching.Wait()
	o.apply(func() { o.commandEnded(errors.Is(err, child.ErrOverdue)) })
	releasing, cancel := forRelease(ctx)
	defer cancel()
	_, release := o.release(releasing, c.lease)
	return c.result(o.path, status, err, release)
}

// watch waits until judge decides that the command must terminate, because the lease is about to
// end or another client asked for the lock. It then sends the deadline of the command to the
// channel stop. If the deadline becomes earlier, watch sends it again. watch returns when over is
// closed.
func (o *shellLock) watch(c *command, stop chan time.Time, over <-chan struct{}) {
	var sent time.Time
	for {
		var deadline time.Time
		var recheck time.Duration
		o.apply(func() { deadline, recheck = o.judge(time.Now(), c.lease.Left()) })
		if deadline != sent {
			select {
			case <-stop: // remove an earlier deadline that was not received
			default:
			}
			stop <- deadline
			sent = deadline
		}
		select {
		case <-over:
			return
		case <-c.wake:
		case <-time.After(recheck):
		}
	}
}

// marksTimeout is how long zksh tries to read the marks for ZK_LOCK_FENCE, which identify the
// ensemble. After that, zksh starts the command without them.
const marksTimeout = 2 * time.Second

// fenceOf returns the value of ZK_LOCK_FENCE for a command that runs under the lease l. If the
// marks that identify the ensemble cannot be read in time, the value does not contain them. A
// zksh process that the command starts may then reject more writes than necessary, but never
// fewer.
func (t *Table) fenceOf(ctx context.Context, o *shellLock, l *heldLease) string {
	ctx, cancel := context.WithTimeout(ctx, min(marksTimeout, l.Left()/4))
	defer cancel()
	lines, err := t.fence.envValue(ctx)
	if err != nil {
		o.notify(fmt.Sprintf("lock %s: cannot read the znodes that identify the ensemble: %v; a zksh that the command starts can write only if it uses the same server names", o.path, err))
	}
	return lines
}

// runChild is like child.Run, except for a program that does not exist or cannot be executed:
// runChild then returns the same exit status as a shell.
func runChild(spec child.Spec, stop <-chan time.Time) (int, error) {
	status, err := child.Run(spec, stop)
	var start *child.StartError
	switch {
	case !errors.As(err, &start):
		return status, err
	case start.NotFound():
		return commands.StatusUnknown, err
	}
	return commands.StatusCannotRun, err
}

// environment returns the environment variables that describe the lock on path to a command.
func environment(path string, l *heldLease) []string {
	return []string{
		"ZK_LOCK_PATH=" + path,
		"ZK_LOCK_NODE=" + l.Node(),
		"ZK_LOCK_TOKEN=" + render.Hex(l.Token()),
		"ZK_LOCK_SESSION=" + render.Hex(l.SessionID()),
		"ZK_LOCK_MODE=" + l.kind.label,
	}
}

// Limits on the time to wait until the servers confirm a release. Normally, the limit is the
// session timeout. After the limit, the removal continues in the background until the session
// ends.
const (
	longestRelease  = 2 * time.Minute       // limit even if the session timeout is longer
	releaseTimeout  = 2 * time.Second       // after Ctrl-C or at the end of the shell; leaves time to close the session, too
	withdrawTimeout = 50 * time.Millisecond // when zksh withdraws from the queue
)

// forRelease returns the context for a release: ctx itself or, if the user or the system has
// already ended ctx, a new context with a short timeout.
func forRelease(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(context.Background(), releaseTimeout)
}

// release releases a lease that claim has selected. It keeps trying during elections and server
// restarts, until ctx ends or the session timeout has passed. left is the number of remaining
// leases. outcomeOf converts err to an outcome.
func (o *shellLock) release(ctx context.Context, l *heldLease) (left int, err error) {
	limit := min(l.Timeout(), longestRelease)
	if end, bounded := ctx.Deadline(); !bounded || time.Until(end) > releaseTimeout {
		defer time.AfterFunc(releaseTimeout, func() {
			o.notify(fmt.Sprintf("lock %s: the servers have not confirmed the release yet; zksh keeps trying for up to %s", o.path, limit))
		}).Stop()
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = l.Unlock(ctx)
	e := outcomeOf(err)
	o.apply(func() {
		left = o.leaseReleased(l, e)
		err = e.releaseError(o.path, err, l.Timeout(), o.table.ending || o.env.Mode == commands.OneShot)
	})
	return left, err
}

// claim calls lifecycle.claim. It returns the lease that the caller must release next, or nil if
// there is none.
func (o *shellLock) claim(exclusiveFirst bool) (l *heldLease) {
	o.apply(func() { l = o.lifecycle.claim(exclusiveFirst) })
	return l
}

// releaseAll releases all leases, and calls ended with the outcome and error of each release. It
// stops when a release is rejected.
func (o *shellLock) releaseAll(ctx context.Context, ended func(outcome, error)) {
	for l := o.claim(false); l != nil; l = o.claim(false) {
		_, err := o.release(ctx, l)
		e := outcomeOf(err)
		ended(e, err)
		if e == rejected {
			return
		}
	}
}

// setRecipe sets the functions that acquire leases of the lock or, with -c, of the semaphore.
func (o *shellLock) setRecipe(opt zklock.Options) {
	if n := o.kind.leases; n > 0 {
		semaphore := zklock.NewSemaphore(conn{o.key.stay}, o.path, n, opt)
		o.acquireLease, o.drain = o.semaphoreAcquirer(semaphore), semaphore.Drain
		return
	}
	lock := zklock.New(conn{o.key.stay}, o.path, opt)
	o.drain = lock.Drain
	o.acquireLease = func(ctx context.Context, mode zklock.Mode, try bool) (lease, error) {
		return acquireIn(ctx, lock, mode, try)
	}
}

// A recipe is a lock of package zklock that is acquired as a T.
type recipe[T any] interface {
	Lock(ctx context.Context) (T, error)
	TryLock(ctx context.Context) (T, error)
	RLock(ctx context.Context) (T, error)
	TryRLock(ctx context.Context) (T, error)
}

// acquireIn acquires a lock in a mode. If try is true, it does not wait for the lock.
func acquireIn[T any](ctx context.Context, l recipe[T], mode zklock.Mode, try bool) (T, error) {
	switch {
	case try && mode == zklock.Shared:
		return l.TryRLock(ctx)
	case try:
		return l.TryLock(ctx)
	case mode == zklock.Shared:
		return l.RLock(ctx)
	}
	return l.Lock(ctx)
}

// A conn provides a zklock.Lock with the sessions of one ensemble. The lock stays in that
// ensemble even if the shell connects to another one later.
type conn struct{ stay zkconn.Ensemble }

// Session implements zklock.Conn.
func (c conn) Session(ctx context.Context) (zklock.Session, error) {
	return sessions.Pin(ctx, c.stay)
}
