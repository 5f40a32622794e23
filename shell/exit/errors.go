// Package exit says what the error of a line means to the caller of the program: its exit
// status, its code in JSON, and whether there is anything to print.
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

// The causes with which the context of a line is cancelled, see EndedBy, and ErrQuit, the
// error of the line that ends the shell.
var (
	ErrInterrupted = line.ErrInterrupted
	ErrQuitKey     = fmt.Errorf("%w by Ctrl-\\", ErrInterrupted)
	ErrTerminated  = errors.New("terminated")
	ErrQuit        = errors.New("quit")
)

// EndedBy is the cause of a context that a signal ends.
func EndedBy(sig os.Signal) error {
	switch sig {
	case os.Interrupt:
		return ErrInterrupted
	case syscall.SIGQUIT:
		return ErrQuitKey
	}
	return ErrTerminated
}

// UnknownCommand is the error of a line whose first word is no command.
type UnknownCommand struct{ Name, Hint string }

func (e UnknownCommand) Error() string {
	s := "unknown command " + strconv.Quote(e.Name)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s + " (to list all commands, run: help)"
}

// WriteError is the error of output that cannot be written. It ends a script.
type WriteError struct{ cause error }

// Unwritten makes an error of writing the output a WriteError.
func Unwritten(err error) error {
	if err == nil {
		return nil
	}
	return &WriteError{err}
}

func (e *WriteError) Error() string { return "cannot write the output: " + e.cause.Error() }

// Unwrap returns the cause.
func (e *WriteError) Unwrap() error { return e.cause }

// Unread reports whether an error of printing says that nobody reads the output. A stream
// reads from a server while it is printed, and a lost connection can have the same error
// from the system as a closed pipe.
func Unread(err error) bool { return peer.Unread(err) && !errors.Is(err, zkconn.ConnectionLoss) }

// readerGone reports whether the reader of the output closed the pipe.
func readerGone(err error) bool {
	w, is := errors.AsType[*WriteError](err)
	return is && Unread(w.cause)
}

// Silent reports whether an error has nothing to print, because its exit status says all.
func Silent(err error) bool {
	switch e := err.(type) {
	case *commands.StatusError:
		return e.Err == nil
	case *commands.FinalError:
		return Silent(e.Err)
	case interface{ Unwrap() []error }: // joined: each of them
		return !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !Silent(err) })
	}
	return readerGone(err)
}
