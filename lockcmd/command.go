package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/lockcmd/child"
)

// newCommand returns a command to run under a lock. Its grace is at most an eighth of the
// session timeout. A healthy lease may be down to 5/16 of the timeout before it is
// extended. The rest is the time for which a server may be gone without the command
// having to end: 1.5 s with a timeout of 10 s.
func newCommand(name string, grace, timeout time.Duration) *command {
	return &command{name: name, grace: max(0, min(grace, timeout/8, timeout/4-killBefore)), wake: make(chan struct{}, 1)}
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
