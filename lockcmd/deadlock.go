package lockcmd

import (
	"context"
	"time"

	"github.com/zksh/zksh/lockcmd/queue"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// Pauses between the searches for a deadlock during a wait. Each is twice as long as the one
// before, up to searchLast.
const (
	searchFirst = time.Second
	searchLast  = 30 * time.Second
)

// searchDeadlock searches for a deadlock again and again, until it has reported one or ctx ends.
func (o *owned) searchDeadlock(ctx context.Context, background bool) {
	for pause := searchFirst; ; pause = min(2*pause, searchLast) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if o.reportDeadlock(ctx, "", background) {
			return
		}
	}
}

// foretell is reportDeadlock before a wait in this mode begins. It delays the wait only briefly.
func (o *owned) foretell(ctx context.Context, mode zklock.Mode, background bool) bool {
	ctx, cancel := context.WithTimeout(ctx, searchFirst)
	defer cancel()
	return o.reportDeadlock(ctx, mode, background)
}

// reportDeadlock searches for a deadlock that this shell's wait is part of, or would be if it
// began in this mode. It prints the deadlock and reports whether there is one. If a queue cannot
// be read, there is none.
func (o *owned) reportDeadlock(ctx context.Context, mode zklock.Mode, background bool) bool {
	held := o.table.heldNow()
	if len(held) == 0 || o.deserted() {
		return false
	}
	s := o.env.Session
	text, err := queue.Wait{Session: s.Info().ID, Path: o.path, Held: held, Mode: mode, Background: background}.Deadlock(ctx, ensemble{s})
	if err != nil || text == "" {
		return false
	}
	o.say(text)
	return true
}
