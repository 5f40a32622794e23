package lockcmd

import (
	"context"
	"time"

	"github.com/zksh/zksh/lockcmd/queue"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// How often a wait is searched for a deadlock: soon, and then less and less.
const (
	searchFirst = time.Second
	searchLast  = 30 * time.Second
)

// searchDeadlock says, once, that a wait has no end by itself. It ends with ctx.
func (o *owned) searchDeadlock(ctx context.Context, background bool) {
	for pause := searchFirst; ; pause = min(2*pause, searchLast) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if text := o.deadlock(ctx, "", background); text != "" {
			o.say(text)
			return
		}
	}
}

// deadlock tells why a wait has no end by itself, or would have none if it began in
// this mode; it is empty if there is an end. What cannot be read tells nothing.
func (o *owned) deadlock(ctx context.Context, mode zklock.Mode, background bool) string {
	held := o.table.heldNow()
	if len(held) == 0 || o.deserted() {
		return ""
	}
	s := o.env.Session
	text, err := queue.Wait{Session: s.Info().ID, Path: o.path, Held: held, Mode: mode, Background: background}.Deadlock(ctx, ensemble{s})
	if err != nil {
		return ""
	}
	return text
}

// foretell says, before a wait begins, that it would have no end by itself, and tells
// whether it did. That must not take long.
func (o *owned) foretell(ctx context.Context, mode zklock.Mode, background bool) bool {
	ctx, cancel := context.WithTimeout(ctx, searchFirst)
	defer cancel()
	text := o.deadlock(ctx, mode, background)
	if text != "" {
		o.say(text)
	}
	return text != ""
}
