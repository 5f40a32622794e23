package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/lockcmd/child"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// guard runs a command while the lock is held, and releases the lock when the
// command is gone. The signals that would end zksh go to the command, so no
// context plays a part here.
func (o *owned) guard(env *commands.Env, lease *zklock.Lease, grace time.Duration, argv []string, signals *child.Listener) error {
	w := &watchdog{o: o, lease: lease, stop: make(chan time.Time, 1), asked: make(chan struct{}), over: make(chan struct{})}
	w.grace = max(0, min(grace, o.env.Session.Info().Timeout/3-killBefore))
	o.setEnd(w.ask)
	var watching sync.WaitGroup
	watching.Go(w.watch)
	status, err := 0, error(nil)
	if w.left() <= 0 { // asleep since it was got
		w.ordered = true
	} else {
		status, err = runChild(child.Spec{
			Argv: argv, Env: o.environment(lease), In: env.Streams.In, Out: env.Streams.Out, Err: env.Streams.Err,
			Grace: grace, Signals: signals, Alert: o.say,
		}, w.stop)
	}
	close(w.over)
	watching.Wait()
	o.setEnd(nil)
	releaseErr := o.releaseAfter(lease)
	switch {
	case w.ordered:
		err = errors.Join(fmt.Errorf("%s was ended, as the lock on %s was lost, or about to be", argv[0], o.path), err)
	case w.revoked():
		err = errors.Join(fmt.Errorf("%s was ended, as somebody asked for the lock on %s", argv[0], o.path), err)
	case status == 0 && err == nil:
		return releaseErr
	default:
		return errors.Join(&commands.StatusError{Status: status, Err: err}, releaseErr)
	}
	return errors.Join(&commands.FinalError{Err: &commands.StatusError{Status: commands.StatusLockLost, Err: err}}, releaseErr)
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

// setEnd keeps what ends the command under the lock.
func (o *owned) setEnd(end func()) {
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	o.end = end
}

// releaseAfter releases the lock of a command that is gone.
func (o *owned) releaseAfter(lease *zklock.Lease) error {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	err := lease.Unlock(ctx)
	if err != nil && !settled(err) && !errors.Is(err, zklock.ErrUnconfirmed) {
		return fmt.Errorf("%s is still locked: %w; close ends the session, and with it the lock", o.path, err)
	}
	o.forget(lease)
	switch {
	case settled(err):
		return nil // the loss is told otherwise
	case err != nil:
		return o.unconfirmed()
	}
	return nil
}

func (o *owned) environment(lease *zklock.Lease) []string {
	return []string{
		"ZK_LOCK_PATH=" + o.path,
		"ZK_LOCK_NODE=" + lease.Node(),
		"ZK_LOCK_TOKEN=" + render.Hex(lease.Token()),
		"ZK_LOCK_SESSION=" + render.Hex(lease.SessionID()),
		"ZK_LOCK_MODE=" + o.label(lease),
	}
}

// label is the mode of a lease as it is shown.
func (o *owned) label(lease *zklock.Lease) string {
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	for _, l := range o.leases {
		if l.Lease == lease {
			return l.kind.label
		}
	}
	return strconv.Quote(string(lease.Mode()))
}

// killBefore is how long before the end of the lease nothing of a command must be
// left. It covers the time a signal takes.
const killBefore = 200 * time.Millisecond

// watchdog orders the end of a command in time: with the lock lost at once, and
// so long before the lease ends that the grace fits in. The grace is cut to a
// third of the session timeout, because the lease of an idle, healthy session may
// be two thirds old.
type watchdog struct {
	o       *owned
	lease   *zklock.Lease
	grace   time.Duration
	stop    chan time.Time // capacity 1: the order
	ordered bool           // the lock was lost, or about to be; to be read when watch has ended

	once  sync.Once
	asked chan struct{} // closed when somebody wants the lock and is to have it
	over  chan struct{} // closed when the command is gone
}

// ask ends the command because somebody asked for the lock.
func (w *watchdog) ask() { w.once.Do(func() { close(w.asked) }) }

func (w *watchdog) revoked() bool {
	select {
	case <-w.asked:
		return true
	default:
		return false
	}
}

// left is how long the command may still run undisturbed.
func (w *watchdog) left() time.Duration {
	if lost(w.lease.State().State) {
		return 0
	}
	return time.Until(w.end()) - w.grace
}

// end is when nothing of the command may be left.
func (w *watchdog) end() time.Time { return w.lease.State().Until.Add(-killBefore) }

// watch ends with the command.
func (w *watchdog) watch() {
	var warned time.Time
	for {
		left := w.left()
		if left <= 0 {
			w.order()
			return
		}
		if w.lease.State().State == zklock.Suspended && time.Since(warned) > countdownEvery {
			warned = time.Now()
			w.o.say(fmt.Sprintf("lock %s: no connection; the command is ended in %s", w.o.path, seconds(left)))
		}
		select {
		case <-w.over:
			return
		case <-w.asked:
			w.stop <- time.Now().Add(w.grace)
			<-w.over
			return
		case <-w.lease.Lost():
			w.order()
			return
		case <-time.After(min(left, countdownEvery/4)):
		}
	}
}

// order has the command ended before the lease is, or, if the lock is gone
// already, within the grace.
func (w *watchdog) order() {
	w.ordered = true
	end := w.end()
	if w.lease.State().State == zklock.Lost {
		end = time.Now().Add(w.grace)
	}
	w.stop <- end
}

// countdownEvery is how often a person is told how long a command has left.
const countdownEvery = 4 * time.Second
