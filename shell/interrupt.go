package shell

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/zksh/zksh/commands"
)

// stubborn is how long a cancelled command may go on before Ctrl-C leaves it and
// the shell.
const stubborn = 3 * time.Second

// abandonedError says that the person left while a command did not end. The
// command may still take effect.
type abandonedError struct{}

func (abandonedError) Error() string {
	return "left while a command was under way: it is unknown whether it took effect"
}

// Unwrap gives the exit status.
func (abandonedError) Unwrap() error { return ErrInterrupted }

// runCancellable runs a line that Ctrl-C cancels. When the line does not end for
// all that, a later Ctrl-C gives it up, and so does the end of the shell after a
// while: its goroutine ends with the process.
func (s *Shell) runCancellable(shell context.Context, line string) (string, error) {
	type result struct {
		cmd string
		err error
	}
	ctx, giveUp, done := s.cancellable(shell)
	defer done()
	ended := make(chan result, 1)
	go func() {
		defer s.giveBackOnPanic()
		cmd, err := s.runLine(ctx, line)
		ended <- result{cmd, err}
	}()
	select {
	case r := <-ended:
		return r.cmd, r.err
	case <-giveUp:
		if !s.guarding() {
			return "", abandonedError{}
		}
	case <-shell.Done():
	}
	if s.guarding() { // it got the signal too; the lock is kept until it is gone
		r := <-ended
		return r.cmd, r.err
	}
	timer := time.NewTimer(stubborn)
	defer timer.Stop()
	select {
	case r := <-ended:
		return r.cmd, r.err
	case <-timer.C:
		return "", context.Cause(shell)
	}
}

func (s *Shell) guarding() bool { return s.cfg.Locks != nil && s.cfg.Locks.Guarding() }

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

// cancellable gives a context that Ctrl-C ends. giveUp is closed when that has no
// effect and Ctrl-C comes again. done must be called.
func (s *Shell) cancellable(ctx context.Context) (_ context.Context, giveUp <-chan struct{}, done func()) {
	select {
	case <-s.cfg.Interrupts: // meant for what was before
	default:
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ended, left := make(chan struct{}), make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		defer s.giveBackOnPanic()
		if !s.interrupted(ended) {
			return
		}
		cancel(ErrInterrupted)
		if s.mode == commands.ByHand && s.stillRuns(ended) && s.interrupted(ended) {
			close(left)
		}
	})
	return ctx, left, func() {
		close(ended)
		watching.Wait()
		cancel(nil)
	}
}

// interrupted waits for Ctrl-C or the end of the command. Ctrl-C in a pager is
// for the pager.
func (s *Shell) interrupted(ended <-chan struct{}) bool {
	for {
		select {
		case <-s.cfg.Interrupts:
			if !s.screen.paging.Load() {
				return true
			}
		case <-ended:
			return false
		}
	}
}

// interruptedLate tells whether Ctrl-C came when the command had just ended.
func (s *Shell) interruptedLate() bool {
	select {
	case <-s.cfg.Interrupts:
		return true
	default:
		return false
	}
}

// stillRuns gives a cancelled command its time to end, and else tells the person.
func (s *Shell) stillRuns(ended <-chan struct{}) bool {
	timer := time.NewTimer(stubborn)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ended:
		return false
	}
	for { // those that came meanwhile do not count
		select {
		case <-s.cfg.Interrupts:
			continue
		default:
		}
		break
	}
	s.screen.complain(fmt.Sprintf("\nthe command has not ended for %d seconds; Ctrl-C again leaves zksh", stubborn/time.Second))
	return true
}
