package commands

import (
	"errors"
	"fmt"

	"github.com/zksh/zksh/internal/zkconn"
)

// UsageError is a line that cannot be meant as it stands; nothing was done.
type UsageError struct {
	Command *Command // nil for a line that names none
	Problem string
	Flag    string // the word that looks like a flag, and like none of the command's; may be empty
}

func (e *UsageError) Error() string {
	if e.Command == nil {
		return e.Problem
	}
	return fmt.Sprintf("%s (usage: %s)", e.Problem, e.Command.Usage())
}

// StatusError is an error that has an exit status of its own.
type StatusError struct {
	Status int
	Err    error  // nil: the status is the answer, and nothing is printed
	Code   string // for programs; empty: that of the status, or of the cause
}

func (e *StatusError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("status %d", e.Status)
	}
	return e.Err.Error()
}

// Unwrap gives the cause.
func (e *StatusError) Unwrap() error { return e.Err }

// FinalError is an error after which a batch does not go on, as what follows
// relied on what failed.
type FinalError struct{ Err error }

func (e *FinalError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *FinalError) Unwrap() error { return e.Err }

type misused string

func (m misused) Error() string { return string(m) }

// Misuse is the error of words that a command cannot do with. Execute makes it a
// UsageError of the command.
func Misuse(format string, args ...any) error { return misused(fmt.Sprintf(format, args...)) }

// ignore passes over one refusal.
func ignore(err error, codes ...zkconn.Code) error {
	for _, c := range codes {
		if errors.Is(err, c) {
			return nil
		}
	}
	return err
}
