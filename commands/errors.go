package commands

import (
	"errors"
	"fmt"

	"github.com/zksh/zksh/internal/zkconn"
)

// UsageError is the error for a line that is not valid. Nothing was done.
type UsageError struct {
	Command *Command // nil if the line names no command
	Problem string
	Flag    string // the unknown flag, if no similar flag exists; otherwise empty
}

func (e *UsageError) Error() string {
	if e.Command == nil {
		return e.Problem
	}
	return fmt.Sprintf("%s (usage: %s)", e.Problem, e.Command.Usage())
}

// StatusError is an error that determines the exit status.
type StatusError struct {
	Status int
	Err    error  // nil: only the status is the result, and nothing is printed
	Code   string // for JSON; empty: the code is derived from the status or the cause
}

func (e *StatusError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("status %d", e.Status)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *StatusError) Unwrap() error { return e.Err }

// FinalError is an error that stops a script, because the lines that follow relied on the one
// that failed.
type FinalError struct{ Err error }

func (e *FinalError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *FinalError) Unwrap() error { return e.Err }

type misuse string

func (m misuse) Error() string { return string(m) }

// Misuse returns the error for words that a command cannot accept. Read and Run turn it into a
// UsageError of the command.
func Misuse(format string, args ...any) error { return misuse(fmt.Sprintf(format, args...)) }

// ignore returns nil if err has one of the codes, and err otherwise.
func ignore(err error, codes ...zkconn.Code) error {
	for _, c := range codes {
		if errors.Is(err, c) {
			return nil
		}
	}
	return err
}
