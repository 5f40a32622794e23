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
	"github.com/zksh/zksh/lockcmd/child"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// newCommand returns a command to run under a lock. Its grace is at most an eighth of the
// session timeout. A healthy lease may be down to 5/16 of the timeout before it is
// extended. The rest is the time for which a server may be gone without the command
// having to end: 1.5 s with a timeout of 10 s.
func newCommand(name string, grace, timeout time.Duration) *command {
	return &command{name: name, grace: max(0, min(grace, timeout/8, timeout/4-killBefore)), wake: make(chan struct{}, 1)}
}

// guard runs the command of a lease that was granted with it, and gives the lease
// back when the command is gone. The signals that would end zksh go to the
// command.
func (o *owned) guard(ctx context.Context, c *command, spec child.Spec) error {
	spec.Env, spec.Alert, spec.Grace = environment(o.path, c.lease), o.say, c.grace
	spec.Env = append(spec.Env, heldName+"="+strings.Join(o.table.heldNow(), "\n"), fenceName+"="+o.fenceOf(ctx, c.lease))
	spec.Left = func() time.Duration { return c.lease.Left() - killBefore }
	stop := make(chan time.Time, 1)
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { o.watch(stop, over) })
	status, err := o.table.run(spec, stop)
	close(over)
	watching.Wait()
	if errors.Is(err, child.ErrOverdue) && c.why != lossNear {
		c.why = overdue
	}
	o.with(o.ended)
	release := o.giveBackAfter(ctx, c.lease)
	if errors.Is(release, zklock.ErrUnconfirmed) && !c.confirm {
		o.say("lock " + release.Error())
		release = nil
	}
	return c.result(o.path, status, err, release)
}

// marksTimeout bounds how long the start of a command waits for the marks of its fence.
const marksTimeout = 2 * time.Second

// fenceOf returns ZK_LOCK_FENCE for a command that runs under a lease. If the marks cannot be
// read in time, the command starts without them: a zksh below it then writes less, not more.
func (o *owned) fenceOf(ctx context.Context, l *taken) string {
	ctx, cancel := context.WithTimeout(ctx, min(marksTimeout, l.Left()/4))
	defer cancel()
	lines, err := o.table.fence.lines(ctx)
	if err != nil {
		o.say(fmt.Sprintf("lock %s: cannot read the znodes that identify the ensemble: %v; a zksh that the command starts can write only if it uses the same server names", o.path, err))
	}
	return lines
}

// watch has the command ended when the life says so: in time before the lease
// ends, or because somebody wants the lock. It ends with the command.
func (o *owned) watch(stop chan time.Time, over <-chan struct{}) {
	var warned, ordered time.Time
	for {
		o.table.mu.Lock()
		c, status := o.command, o.status
		again := c.judge(o.revoked, time.Now())
		o.table.mu.Unlock()
		if c.by != ordered {
			select {
			case <-stop: // nobody has taken notice of it
			default:
			}
			stop <- c.by
			ordered = c.by
		}
		if c.by.IsZero() && status.State == zklock.Suspended && time.Since(warned) > countdownEvery {
			warned = time.Now()
			left := c.lease.Left() - killBefore - c.grace
			o.say(fmt.Sprintf("lock %s: no connection; without one, zksh will terminate the command in %s", o.path, seconds(left)))
		}
		select {
		case <-over:
			return
		case <-c.wake:
		case <-time.After(again):
		}
	}
}

// countdownEvery is how often a person is told how long a command has left.
const countdownEvery = 4 * time.Second

// mayEscape tells, before the lock is asked for, that a command could go on without
// it, if that is likely; with --strict it refuses what could at all.
func (t *Table) mayEscape(env *commands.Env, f *lockFlags, name string) error {
	likely, err := child.Escape(name)
	switch {
	case err == nil:
	case f.strict:
		err = fmt.Errorf("%s was not started because of --strict: %w", name, err)
		return &commands.FinalError{Err: &commands.StatusError{Status: commands.StatusCannotRun, Err: err}}
	case likely:
		t.crier.say(env.Screen.Alert, err.Error())
	}
	return nil
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
