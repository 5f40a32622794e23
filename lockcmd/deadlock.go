package lockcmd

import (
	"context"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/lockcmd/queue"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// Pauses between two searches for a deadlock. Each pause is twice as long as the previous one,
// up to maxSearchPause.
const (
	firstSearchPause = time.Second
	maxSearchPause   = 30 * time.Second
)

// A deadlockSearch looks for deadlocks between clients that wait for each other's locks. It reports
// only deadlocks that a wait of this shell is part of, or that a planned wait of this shell would
// create.
type deadlockSearch struct {
	table      *Table
	env        *commands.Env
	path       string
	closed     func() bool // reports whether the user has left the lock's ensemble
	background bool        // whether the wait is in the background
}

// search searches for a deadlock again and again, until it has reported one or ctx ends.
func (d deadlockSearch) search(ctx context.Context) {
	for pause := firstSearchPause; ; pause = min(2*pause, maxSearchPause) {
		if queue.Pause(ctx, pause) != nil || d.report(ctx, "") {
			return
		}
	}
}

// predict searches for a deadlock before the shell waits for the lock in the given mode, and warns
// the user if that wait would create one. It reports whether it found a deadlock. It delays the
// wait by at most firstSearchPause.
func (d deadlockSearch) predict(ctx context.Context, mode zklock.Mode) bool {
	ctx, cancel := context.WithTimeout(ctx, firstSearchPause)
	defer cancel()
	return d.report(ctx, mode)
}

// report searches for a deadlock once. If it finds one, it notifies the user and returns true. mode
// is the mode of a planned wait, or empty if the wait has already begun. If a queue cannot be read,
// report returns false.
func (d deadlockSearch) report(ctx context.Context, mode zklock.Mode) bool {
	held := d.table.heldNodes()
	if len(held) == 0 || d.closed() {
		return false
	}
	s := d.env.Session
	text, err := queue.Wait{Session: s.Info().ID, Path: d.path, Held: held, Mode: mode, Background: d.background}.Deadlock(ctx, ensemble{s})
	if err != nil || text == "" {
		return false
	}
	d.table.notifier.notify(d.env.Screen.Alert, text)
	return true
}
