package shell

import (
	"context"
	"fmt"
	"time"

	"github.com/zksh/zksh/shell/exit"
)

// stubborn is how long work that was cancelled may go on before it is left, and the
// shell with it.
const stubborn = 3 * time.Second

// work is what attend has begun.
type work struct {
	err   error         // to be read once ended is closed
	ended chan struct{} // closed when the work has ended
}

// leftError says that the shell has been left while something was under way that
// has not ended since.
type leftError struct{}

func (leftError) Error() string {
	return "zksh exited while a command was still running; the outcome of the command is unknown"
}

// Unwrap gives the exit status.
func (leftError) Unwrap() error { return exit.ErrInterrupted }

// attend runs do until it ends, and cancels it when Ctrl-C is pressed, of which it
// tells, or when the context of the shell ends. Work that does not heed that for
// stubborn is left: on another Ctrl-C, or at once if the shell ends. Then it stands
// in s.left, for leave to deal with, and the error says why.
//
// Work is never left while a program runs under a lock: it has got the signal too,
// and the lock is to be kept until it is gone.
func (s *Shell) attend(shell context.Context, do func(context.Context) error) (interrupted bool, err error) {
	s.interruptedLate() // what came before is not meant for this
	return s.attendLine(shell, do)
}

// attendLine is attend for a line that an editor has read: Ctrl-C since then is meant for it.
func (s *Shell) attendLine(shell context.Context, do func(context.Context) error) (interrupted bool, err error) {
	ctx, cancel := context.WithCancelCause(shell)
	defer cancel(nil)
	s.screen.interrupted() // not yet, and not unseen
	w := &work{ended: make(chan struct{})}
	go func() { // ends with do; attend waits for that, or leave
		defer s.giveBackOnPanic()
		w.err = do(ctx)
		close(w.ended)
	}()
	ends, late, mayLeave := shell.Done(), (<-chan time.Time)(nil), false
	for {
		select {
		case <-w.ended:
			return s.interruptedLate() || interrupted, w.err
		case sig := <-s.cfg.Interrupts:
			switch {
			case s.screen.paging.Load(): // it is the pager's
			case !interrupted:
				interrupted = true
				s.screen.interrupted()
				cancel(exit.EndedBy(sig))
				if late == nil {
					late = time.After(stubborn)
				}
			case mayLeave && !s.guarding():
				s.left = w
				return true, leftError{}
			}
		case <-ends:
			ends, late, mayLeave = nil, time.After(stubborn), false
		case <-late:
			late = nil
			switch {
			case s.guarding(), s.screen.paging.Load():
				late = time.After(stubborn)
			case shell.Err() != nil:
				s.left = w
				return interrupted, context.Cause(shell)
			default:
				s.interruptedLate() // those that came meanwhile do not count
				mayLeave = true
				s.screen.complain(fmt.Sprintf("\nthe command has not stopped for %d seconds; press Ctrl-C again to exit zksh", stubborn/time.Second))
			}
		}
	}
}

// settling is how long work that was left may go on without a session.
const settling = 500 * time.Millisecond

// settle waits for work that was left. It is called with the session closed, which
// ends what waits for a server, and keeps the rest from reaching one. Work that goes on
// for all that has no screen any more, and ends with the process.
func (s *Shell) settle() error {
	if s.left == nil {
		return nil
	}
	select {
	case <-s.left.ended:
		return s.left.err
	case <-time.After(settling):
		s.screen.shutOut()
		return leftError{}
	}
}

func (s *Shell) guarding() bool { return s.cfg.Locks != nil && s.cfg.Locks.Guarding() }

// interruptedLate reports whether Ctrl-C was pressed and not attended to, and forgets it.
func (s *Shell) interruptedLate() bool {
	select {
	case <-s.cfg.Interrupts:
		return true
	default:
		return false
	}
}

// giveBackOnPanic gives the terminal back before a panic ends the program. It is
// deferred in every goroutine of this package; in those of other packages, ours and
// the libraries', nothing can be done.
func (s *Shell) giveBackOnPanic() {
	if p := recover(); p != nil {
		if e := s.screen.editor; e != nil {
			_ = e.Close() // the panic is what has to be told
		}
		panic(p)
	}
}
