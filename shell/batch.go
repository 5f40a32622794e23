package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/zksh/zksh/commands"
)

// RunLines runs the lines of a file or pipe, called name in error messages, and
// returns the status of the first that failed.
func (s *Shell) RunLines(ctx context.Context, name string, r io.Reader) int {
	s.setMode(commands.Batch)
	lines := readAhead(ctx, r)
	for ctx.Err() == nil {
		var l batchLine
		select {
		case l = <-lines:
		case <-ctx.Done():
			continue
		}
		if l.err == io.EOF {
			break
		}
		s.where = fmt.Sprintf("%s:%d: ", name, l.number)
		if l.err != nil {
			s.fail("", l.err)
			break
		}
		if blankOrComment(l.text) {
			continue
		}
		// A session that is known to have expired fails the line that relies on it.
		if err := errors.Join(s.showEvents(), s.lost()); err != nil {
			s.fail("", err)
			if s.over(err) {
				break
			}
		}
		cmd, err := s.runLine(ctx, l.text)
		if errors.Is(err, errQuit) {
			break
		}
		err = errors.Join(err, s.showEvents(), s.lost())
		s.fail(cmd, err)
		if s.over(err) {
			break
		}
	}
	if err := context.Cause(ctx); err != nil && s.status == 0 {
		s.fail("", err)
	}
	return s.leave(s.status)
}

// batchLine is a line of a file or pipe, or why there is none.
type batchLine struct {
	text   string
	number int
	err    error
}

// readAhead reads one line ahead, so that waiting for the next one can be broken
// off. A read cannot: the goroutine ends after the read that ctx ends in, or with
// the process.
func readAhead(ctx context.Context, r io.Reader) <-chan batchLine {
	out := make(chan batchLine)
	go func() {
		lines := newLineReader(r)
		for {
			var l batchLine
			l.text, l.number, l.err = lines.Next()
			select {
			case out <- l:
			case <-ctx.Done():
				return
			}
			if l.err != nil {
				return
			}
		}
	}()
	return out
}

// over tells whether a failure ends a batch.
func (s *Shell) over(err error) bool {
	switch {
	case err == nil:
		return s.cfg.StopAtError && s.status != commands.StatusOK
	case errors.As(err, new(*commands.FinalError)) && !s.cfg.GoOn,
		errors.Is(err, ErrInterrupted), errors.Is(err, ErrTerminated), errors.Is(err, context.Canceled),
		errors.Is(err, syscall.EPIPE), errors.As(err, new(*writeError)):
		return true
	}
	return s.cfg.StopAtError
}

// lost is the error of a lock that was lost since the last line.
func (s *Shell) lost() error {
	if s.cfg.Locks == nil {
		return nil
	}
	return s.cfg.Locks.Lost()
}

// fail reports a failure of a batch and keeps the first one's status.
func (s *Shell) fail(cmd string, err error) {
	if err == nil {
		return
	}
	s.report(cmd, err)
	if s.status == commands.StatusOK {
		s.status = Status(err)
	}
}
