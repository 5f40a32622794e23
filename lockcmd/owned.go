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
)

// owned does what the life of one lock decides: it asks the recipe, runs the command and
// releases the lock. Whatever happens to the lock goes through with.
type owned struct {
	table    *Table
	key      key
	env      *commands.Env
	take     func(ctx context.Context, mode zklock.Mode, try bool) (lease, error)
	drain    func(ctx context.Context) error // waits until nothing of failed attempts and releases is left
	deserted func() bool                     // the user has left the ensemble by close or connect
	life                                     // guarded by the table's lock
}

// with lets something happen to a lock, and does what the life decides.
func (o *owned) with(event func()) {
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	event()
	o.table.follow(o)
}

// follow does what a lock's life has decided. Called with the table's lock held.
func (t *Table) follow(o *owned) {
	d := o.decide()
	for _, text := range d.report {
		o.say(text)
	}
	if d.yield {
		t.work(func() { t.yield(o) })
	}
	if d.forget && t.locks[o.key] == o {
		delete(t.locks, o.key)
	}
}

func (o *owned) say(text string) { o.table.crier.say(o.env.Screen.Alert, text) }

// current returns the state of the lock.
func (o *owned) current() zklock.Status {
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	return o.status
}

// hear is the lock's Notify.
func (o *owned) hear(s zklock.Status) {
	left := o.deserted()
	o.with(func() {
		if o.heard(s, left); left && s.State == zklock.Lost {
			o.abandoned(o.table.ending)
		}
	})
}

// acquire asks the recipe for the lock. It releases a lease that comes when the attempt has
// ended, or that is not to be kept.
func (o *owned) acquire(a *attempt, f *lockFlags) (l *taken, err error) {
	defer close(a.done)
	defer a.cancel(nil)
	ctx := a.ctx
	d := deadlocks{o.table, o.env, o.path, o.deserted, f.background}
	told := !f.try && o.current().State == asking && o.env.Mode == commands.ByHand && d.foretell(ctx, a.kind.mode)
	if f.limit.Given {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.limit.Value, f.late)
		defer cancel()
	}
	searched, found := context.WithCancel(ctx)
	var search sync.WaitGroup
	if !f.try && !told {
		search.Go(func() { d.search(searched) })
	}
	lease, err := o.take(ctx, a.kind.mode, f.try)
	found()
	search.Wait()
	if err != nil {
		o.with(o.refused)
		return nil, notAcquired(ctx, o.env, o.path, o.current().Ahead, a, f, err)
	}
	o.with(func() {
		o.table.seq++
		l, err = o.granted(lease, o.table.seq, time.Now())
	})
	switch {
	case err == nil:
		return l, nil
	case a.ctx.Err() != nil:
		err = &commands.FinalError{Err: notWaited(o.path, a)}
	case a.command != nil:
		err = lockLost(fmt.Errorf("%w; %s was not started", err, a.command.name))
	default:
		err = lockLost(err)
	}
	releasing, cancel := forRelease(a.ctx)
	defer cancel()
	_, a.undone = o.release(releasing, l)
	return nil, errors.Join(err, a.undone)
}

// guard runs the command of a lease that was granted with it, and releases the lease when
// the command is gone. The signals that would end zksh go to the command.
func (o *owned) guard(ctx context.Context, c *command, spec child.Spec) error {
	spec.Env, spec.Alert, spec.Grace = environment(o.path, c.lease), o.say, c.grace
	spec.Env = append(spec.Env, heldName+"="+strings.Join(o.table.heldNow(), "\n"), fenceName+"="+o.table.fenceOf(ctx, o, c.lease))
	spec.Left = func() time.Duration { return c.lease.Left() - killBefore }
	stop := make(chan time.Time, 1)
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { o.watch(c, stop, over) })
	status, err := o.table.run(spec, stop)
	close(over)
	watching.Wait()
	o.with(func() { o.ended(errors.Is(err, child.ErrOverdue)) })
	releasing, cancel := forRelease(ctx)
	defer cancel()
	_, release := o.release(releasing, c.lease)
	if endOf(release) == unconfirmed && !c.confirm {
		o.say("lock " + release.Error())
		release = nil
	}
	return c.result(o.path, status, err, release)
}

// watch orders the command to end when the life decides so: in time before the lease ends,
// or because another client asked for the lock. It ends with the command.
func (o *owned) watch(c *command, stop chan time.Time, over <-chan struct{}) {
	var ordered time.Time
	for {
		var by time.Time
		var again time.Duration
		o.with(func() { by, again = o.judge(time.Now(), c.lease.Left()) })
		if by != ordered {
			select {
			case <-stop: // nobody has taken notice of it
			default:
			}
			stop <- by
			ordered = by
		}
		select {
		case <-over:
			return
		case <-c.wake:
		case <-time.After(again):
		}
	}
}

// marksTimeout bounds how long the start of a command waits for the marks of its fence.
const marksTimeout = 2 * time.Second

// fenceOf returns ZK_LOCK_FENCE for a command that runs under a lease. If the marks cannot be
// read in time, the command starts without them: a zksh below it then writes less, not more.
func (t *Table) fenceOf(ctx context.Context, o *owned, l *taken) string {
	ctx, cancel := context.WithTimeout(ctx, min(marksTimeout, l.Left()/4))
	defer cancel()
	lines, err := t.fence.lines(ctx)
	if err != nil {
		o.say(fmt.Sprintf("lock %s: cannot read the znodes that identify the ensemble: %v; a zksh that the command starts can write only if it uses the same server names", o.path, err))
	}
	return lines
}

// runChild is child.Run with the status that a shell gives a program that it
// cannot run.
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

// environment is what a command finds in its environment.
func environment(path string, l *taken) []string {
	return []string{
		"ZK_LOCK_PATH=" + path,
		"ZK_LOCK_NODE=" + l.Node(),
		"ZK_LOCK_TOKEN=" + render.Hex(l.Token()),
		"ZK_LOCK_SESSION=" + render.Hex(l.SessionID()),
		"ZK_LOCK_MODE=" + l.kind.label,
	}
}

// How long zksh waits for the servers to confirm a release, if not for the session timeout.
// After that the removal goes on in the background until the session ends.
const (
	longestRelease  = 2 * time.Minute       // whatever session timeout the server has granted
	releaseTimeout  = 2 * time.Second       // when the shell ends, or the user wants to go on; it leaves time to end the session, too
	withdrawTimeout = 50 * time.Millisecond // when a place in the queue was given up
)

// forRelease returns the context for a release after ctx: ctx itself, or a short one if the
// user or the system has ended ctx already.
func forRelease(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(context.Background(), releaseTimeout)
}

// release releases a lease that was claimed for that, through elections and restarts, until
// ctx ends or for the session timeout. It returns how many leases are left. How the release
// ended, endOf tells from the error.
func (o *owned) release(ctx context.Context, l *taken) (left int, err error) {
	limit := min(l.Timeout(), longestRelease)
	if end, bounded := ctx.Deadline(); !bounded || time.Until(end) > releaseTimeout {
		defer time.AfterFunc(releaseTimeout, func() {
			o.say(fmt.Sprintf("lock %s: the servers have not confirmed the release yet; zksh keeps trying for up to %s", o.path, limit))
		}).Stop()
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = l.Unlock(ctx)
	e := endOf(err)
	o.with(func() {
		left = o.released(l, e)
		err = e.ofRelease(o.path, err, l.Timeout(), o.table.ending || o.env.Mode == commands.OneShot)
	})
	return left, err
}

// claim picks a lease to be released; nil if there is none.
func (o *owned) claim(exclusiveFirst bool) (l *taken) {
	o.with(func() { l = o.life.claim(exclusiveFirst) })
	return l
}

// releaseAll releases all leases, until a release is rejected, and passes on each error.
func (o *owned) releaseAll(ctx context.Context, failed func(end, error)) {
	for l := o.claim(false); l != nil; l = o.claim(false) {
		_, err := o.release(ctx, l)
		e := endOf(err)
		if err != nil {
			failed(e, err)
		}
		if e == rejected {
			return
		}
	}
}

// taking returns the method of a lock that acquires it in a mode, and with or without a wait.
func taking(l *zklock.Lock) func(context.Context, zklock.Mode, bool) (lease, error) {
	return func(ctx context.Context, mode zklock.Mode, try bool) (lease, error) {
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
}

// conn gives the recipe the sessions of one ensemble. What the shell connects to later has
// nothing to do with a lock that is asked for now.
type conn struct{ at zkconn.Ensemble }

// Session is part of zklock.Conn.
func (c conn) Session(ctx context.Context) (zklock.Session, error) { return c.at.Pin(ctx) }
