package shell

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/zksh/zksh/commands"
)

// leave closes the session, so that its ephemeral znodes vanish at once.
func (s *Shell) leave(status int) int {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := errors.Join(s.releaseLocks(ctx), s.cfg.Session.Close(ctx))
	if s.mode == commands.ByHand {
		err = errors.Join(err, s.showEvents())
	}
	if err != nil {
		s.report("", err)
		if status == commands.StatusOK {
			status = Status(err)
		}
	}
	return status
}

func (s *Shell) releaseLocks(ctx context.Context) error {
	if s.cfg.Locks == nil {
		return nil
	}
	held, err := s.cfg.Locks.Release(ctx)
	switch {
	case len(held) == 0:
	case s.mode == commands.Batch:
		s.env.Screen.Note("still locked at the end, and released now: " + strings.Join(held, ", "))
	case s.mode == commands.ByHand:
		s.env.Screen.Note("released: " + strings.Join(held, ", "))
	}
	return err
}

// closeTimeout bounds the end of the session.
const closeTimeout = 3 * time.Second
