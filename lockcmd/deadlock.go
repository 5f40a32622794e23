package lockcmd

import (
	"context"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/lockcmd/queue"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// Pauses between the searches for a deadlock during a wait. Each is twice as long as the one
// before, up to searchLast.
const (
	searchFirst = time.Second
	searchLast  = 30 * time.Second
)

// deadlocks searches for a deadlock that a wait of this shell is part of, or would be.
type deadlocks struct {
	table      *Table
	env        *commands.Env
	path       string
	left       func() bool // the user has left the ensemble
	background bool        // the wait is in the background
}

// search searches again and again, until it has reported a deadlock or ctx ends.
func (d deadlocks) search(ctx context.Context) {
	for pause := searchFirst; ; pause = min(2*pause, searchLast) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if d.report(ctx, "") {
			return
		}
	}
}

// foretell is report before a wait in this mode begins. It delays the wait only briefly.
func (d deadlocks) foretell(ctx context.Context, mode zklock.Mode) bool {
	ctx, cancel := context.WithTimeout(ctx, searchFirst)
	defer cancel()
	return d.report(ctx, mode)
}

// report prints a deadlock and reports whether there is one. If mode is empty, the wait has
// begun. If a queue cannot be read, there is no deadlock.
func (d deadlocks) report(ctx context.Context, mode zklock.Mode) bool {
	held := d.table.heldNow()
	if len(held) == 0 || d.left() {
		return false
	}
	s := d.env.Session
	text, err := queue.Wait{Session: s.Info().ID, Path: d.path, Held: held, Mode: mode, Background: d.background}.Deadlock(ctx, ensemble{s})
	if err != nil || text == "" {
		return false
	}
	d.table.crier.say(d.env.Screen.Alert, text)
	return true
}
