package commands

import (
	"errors"
	"fmt"

	"github.com/zksh/zksh/internal/zkconn"
)

// UsageError reports an invalid command line, which had no effect.
type UsageError struct {
	Command *Command // nil if the line names no existing command
	Problem string
	Flag    string // unknown flag that resembles no flag of the command; otherwise empty
}

func (e *UsageError) Error() string {
	if e.Command == nil {
		return e.Problem
	}
	return fmt.Sprintf("%s (see: zksh %s)", e.Problem, e.Help())
}

// Help returns the line that explains the command to the user. Command must not be nil.
func (e *UsageError) Help() string { return "help " + e.Command.Name }

// StatusError is an error that determines the exit status of zksh.
type StatusError struct {
	Status int
	Err    error  // nil if no error message is to be printed
	Code   string // error code in JSON output; if empty, zksh derives it from Status or Err
}

func (e *StatusError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("status %d", e.Status)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *StatusError) Unwrap() error { return e.Err }

// FinalError is an error that stops a script, because the lines after the failed line depend on its
// success.
type FinalError struct{ Err error }

func (e *FinalError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *FinalError) Unwrap() error { return e.Err }

type misuse string

func (m misuse) Error() string { return string(m) }

// Misuse returns the error for arguments that a command does not accept. Command.Read and Line.Run
// turn it into a UsageError of that command.
func Misuse(format string, args ...any) error { return misuse(fmt.Sprintf(format, args...)) }

// ignore returns nil if err has one of the given error codes. It returns other errors unchanged.
func ignore(err error, codes ...zkconn.Code) error {
	for _, c := range codes {
		if errors.Is(err, c) {
			return nil
		}
	}
	return err
}
