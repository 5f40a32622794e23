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
	"github.com/zksh/zksh/shell/line"
)

// ErrInterrupted, ErrQuitKey and ErrTerminated are cancellation causes for the context of a line;
// see SignalCause. ErrQuit is the error of a line that ends the shell.
var (
	ErrInterrupted = line.ErrInterrupted
	ErrQuitKey     = fmt.Errorf("%w by Ctrl-\\", ErrInterrupted)
	ErrTerminated  = errors.New("terminated")
	ErrQuit        = errors.New("quit")
)

// SignalCause returns the cancellation cause of a context that the signal sig cancels.
func SignalCause(sig os.Signal) error {
	switch sig {
	case os.Interrupt:
		return ErrInterrupted
	case syscall.SIGQUIT:
		return ErrQuitKey
	}
	return ErrTerminated
}

// UnknownCommand is the error of a line whose first word is not the name of a command. Hint
// suggests similar names, or is empty.
type UnknownCommand struct{ Name, Hint string }

func (e UnknownCommand) Error() string {
	s := "unknown command " + strconv.Quote(e.Name)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s + " (to list all commands, run: help all)"
}

// A WriteError reports that output could not be written. It ends a script.
type WriteError struct{ cause error }

// AsWriteError wraps err, which occurred while output was written, in a WriteError. It returns nil
// if err is nil.
func AsWriteError(err error) error {
	if err == nil {
		return nil
	}
	return &WriteError{err}
}

func (e *WriteError) Error() string { return "cannot write the output: " + e.cause.Error() }

// Unwrap returns the cause.
func (e *WriteError) Unwrap() error { return e.cause }

// readerClosed reports whether err is a WriteError that was caused by the reader closing the
// output.
func readerClosed(err error) bool {
	w, is := errors.AsType[*WriteError](err)
	return is && peer.Unread(w.cause)
}

// A ReportedError is the error of a line that ran other lines, such as source. It describes the
// first of these lines that failed, whose error has been printed already.
type ReportedError struct {
	Text string // the printed error
	// Status contains the exit status of the failed line, and its code in JSON output.
	Status *commands.StatusError
	// EndsScript is true if the script must end, even if it continues after other errors.
	EndsScript bool
}

func (e *ReportedError) Error() string { return e.Text }

// Unwrap returns the exit status. It does not return the error of the failed line, because that
// error has been handled.
func (e *ReportedError) Unwrap() error { return e.Status }

// Silent reports whether an error must not be printed, because only its exit status matters or
// because it has been printed already.
func Silent(err error) bool {
	switch e := err.(type) {
	case *ReportedError:
		return true
	case *commands.StatusError:
		return e.Err == nil
	case *commands.FinalError:
		return Silent(e.Err)
	case interface{ Unwrap() []error }: // joined errors: all of them must be silent
		return !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !Silent(err) })
	}
	return readerClosed(err)
}
