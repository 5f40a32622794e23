// Package exit maps the error of a line to the exit status of the program and to a code for JSON
// output. It also defines the errors that end a line or the shell.
//
// Begin reading at Status and Code.
//
// This package is part of the program zksh and may change at any time.
package exit

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/peer"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/line"
)

// ErrInterrupted, ErrQuitKey and ErrTerminated are causes with which the context of a line is
// cancelled; SignalCause returns the cause for a signal. ErrQuit is the error of the line that ends
// the shell.
var (
	ErrInterrupted = line.ErrInterrupted
	ErrQuitKey     = fmt.Errorf("%w by Ctrl-\\", ErrInterrupted)
	ErrTerminated  = errors.New("terminated")
	ErrQuit        = errors.New("quit")
)

// SignalCause returns the cause with which a signal cancels a context.
func SignalCause(sig os.Signal) error {
	switch sig {
	case os.Interrupt:
		return ErrInterrupted
	case syscall.SIGQUIT:
		return ErrQuitKey
	}
	return ErrTerminated
}

// UnknownCommand is the error of a line whose first word is not a command. Hint suggests other
// names; it may be empty.
type UnknownCommand struct{ Name, Hint string }

func (e UnknownCommand) Error() string {
	s := "unknown command " + strconv.Quote(e.Name)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s + " (to list all commands, run: help)"
}

// A WriteError is an error of writing the output. It ends a script.
type WriteError struct{ cause error }

// AsWriteError wraps an error of writing the output in a WriteError. It returns nil if err is nil.
func AsWriteError(err error) error {
	if err == nil {
		return nil
	}
	return &WriteError{err}
}

func (e *WriteError) Error() string { return "cannot write the output: " + e.cause.Error() }

// Unwrap returns the cause.
func (e *WriteError) Unwrap() error { return e.cause }

// Unread reports whether err, an error of printing, means that the reader of the output has closed
// it. A streamed answer is read from a server while it is printed, and a lost connection can have
// the same system error as a closed pipe, so Unread excludes connection loss.
func Unread(err error) bool { return peer.Unread(err) && !errors.Is(err, zkconn.ConnectionLoss) }

// readerClosed reports whether err is a WriteError because the reader of the output has closed it.
func readerClosed(err error) bool {
	w, is := errors.AsType[*WriteError](err)
	return is && Unread(w.cause)
}

// Silent reports whether an error is not printed, because only its exit status matters.
func Silent(err error) bool {
	switch e := err.(type) {
	case *commands.StatusError:
		return e.Err == nil
	case *commands.FinalError:
		return Silent(e.Err)
	case interface{ Unwrap() []error }: // joined errors: all of them must be silent
		return !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !Silent(err) })
	}
	return readerClosed(err)
}
