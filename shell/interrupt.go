package shell

import (
	"context"
	"fmt"
	"time"

	"github.com/zksh/zksh/shell/exit"
)

// stopTimeout is how long the shell waits for cancelled work to stop. After that time, it may
// abandon the work and exit.
const stopTimeout = 3 * time.Second

// work is a function call that runInterruptible runs in a goroutine.
type work struct {
	err   error         // result of the function; valid once ended is closed
	ended chan struct{} // closed when the function has returned
}

// abandonedError reports that the shell exits while a command is still running.
type abandonedError struct{}

func (abandonedError) Error() string {
	return "zksh exited while a command was still running; the outcome of the command is unknown"
}

// Unwrap returns ErrInterrupted, which determines the exit status of the shell.
func (abandonedError) Unwrap() error { return exit.ErrInterrupted }

// runInterruptible calls do, and cancels its context when Ctrl-C is pressed or shellCtx, the
// context of the shell, is done. It returns the error of do and reports whether Ctrl-C was pressed.
//
// If do does not return within stopTimeout after its context was cancelled, runInterruptible may
// abandon the call: at the next Ctrl-C, or at once if shellCtx is done. It then stores the call in
// s.abandoned, so that shutDown can wait for the call, and returns the reason as its error.
//
// Work is never abandoned while a program runs under a lock. The program has received the signal
// too, and zksh must hold the lock until the program has terminated.
func (s *Shell) runInterruptible(shellCtx context.Context,
	do func(context.Context) error) (interrupted bool, err error) {
	s.takeInterrupt() // discard a Ctrl-C that was pressed earlier
	return s.runLineInterruptible(shellCtx, do)
}

// runLineInterruptible is like runInterruptible, but also handles a Ctrl-C that was pressed before
// the call. It is used for a line that the editor has just read: a Ctrl-C after Enter interrupts
// that line.
func (s *Shell) runLineInterruptible(shellCtx context.Context,
	do func(context.Context) error) (interrupted bool, err error) {
	ctx, cancel := context.WithCancelCause(shellCtx)
	defer cancel(nil)
	s.screen.noteInterrupt() // clears the record of an earlier interrupt
	w := &work{ended: make(chan struct{})}
	go func() { // ends when do has returned, which this function or awaitAbandoned waits for
		defer s.restoreTerminalOnPanic()
		w.err = do(ctx)
		close(w.ended)
	}()
	shellDone, timeout, mayAbandon := shellCtx.Done(), (<-chan time.Time)(nil), false
	for {
		select {
		case <-w.ended:
			return s.takeInterrupt() || interrupted, w.err
		case sig := <-s.cfg.Interrupts:
			switch {
			case s.screen.paging.Load(): // the pager handles Ctrl-C
			case !interrupted:
				interrupted = true
				s.screen.noteInterrupt()
				cancel(exit.SignalCause(sig))
				if timeout == nil {
					timeout = time.After(stopTimeout)
				}
			case mayAbandon && !s.guarding():
				s.abandoned = w
				return true, abandonedError{}
			}
		case <-shellDone:
			shellDone, timeout, mayAbandon = nil, time.After(stopTimeout), false
		case <-timeout:
			timeout = nil
			switch {
			case s.guarding(), s.screen.paging.Load():
				timeout = time.After(stopTimeout)
			case shellCtx.Err() != nil:
				s.abandoned = w
				return interrupted, context.Cause(shellCtx)
			default:
				s.takeInterrupt() // discard a Ctrl-C that was pressed before the message below
				mayAbandon = true
				s.screen.complain(fmt.Sprintf("\nthe command has not stopped for %d seconds; "+
					"press Ctrl-C again to exit zksh", stopTimeout/time.Second))
			}
		}
	}
}

// abandonedTimeout is how long the shell waits for abandoned work to stop after the session is
// closed.
const abandonedTimeout = 500 * time.Millisecond

// awaitAbandoned waits for abandoned work and returns its error. The session has been closed, so
// requests in flight fail and no new ones reach a server. If the work does not stop within
// abandonedTimeout, awaitAbandoned mutes the screen and returns. The work then ends when the
// process exits.
func (s *Shell) awaitAbandoned() error {
	if s.abandoned == nil {
		return nil
	}
	select {
	case <-s.abandoned.ended:
		return s.abandoned.err
	case <-time.After(abandonedTimeout):
		s.screen.mute()
		return abandonedError{}
	}
}

func (s *Shell) guarding() bool { return s.cfg.Locks != nil && s.cfg.Locks.Guarding() }

// takeInterrupt reports whether Ctrl-C was pressed and has not been handled yet. It discards that
// Ctrl-C, so the caller must handle it.
func (s *Shell) takeInterrupt() bool {
	select {
	case <-s.cfg.Interrupts:
		return true
	default:
		return false
	}
}

// restoreTerminalOnPanic restores the modes of the terminal before a panic terminates the program.
// It is deferred in every goroutine of this package. Panics in goroutines of other packages cannot
// be caught.
func (s *Shell) restoreTerminalOnPanic() {
	if p := recover(); p != nil {
		if e := s.screen.editor; e != nil {
			_ = e.Close() // ignore the error, because the Go runtime reports the panic
		}
		panic(p)
	}
}
