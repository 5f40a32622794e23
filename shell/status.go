package shell

import (
	"context"
	"errors"
	"syscall"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
)

// The exit statuses of zksh, listed in the README.
const (
	StatusOK          = 0
	StatusFailed      = 1   // a command failed
	StatusUsage       = 2   // a line or an option cannot be meant as it stands
	StatusNoServer    = 69  // no server, or the session was lost
	StatusLockLost    = 74  // a lock was lost
	StatusNotLocked   = 75  // a lock was not got
	StatusUnknown     = 127 // unknown command
	StatusInterrupted = 130 // Ctrl-C
	StatusBrokenPipe  = 141 // nobody reads the answers any more
	StatusTerminated  = 143 // asked to end by SIGTERM or SIGHUP
)

// Statuses lists the exit statuses with their meaning, for --help and the README.
func Statuses() []struct {
	Status  int
	Meaning string
} {
	return []struct {
		Status  int
		Meaning string
	}{
		{StatusOK, "everything succeeded"},
		{StatusFailed, "a command failed"},
		{StatusUsage, "wrong usage: nothing was done"},
		{StatusNoServer, "no server could be reached, or the session was lost"},
		{StatusLockLost, "a lock was lost, or may have been"},
		{StatusNotLocked, "a lock was not got: somebody else holds it"},
		{StatusUnknown, "unknown command"},
		{StatusInterrupted, "interrupted by Ctrl-C"},
		{StatusBrokenPipe, "the reader of the answers went away"},
		{StatusTerminated, "ended by SIGTERM or SIGHUP"},
	}
}

// The causes with which a context is cancelled.
var (
	ErrInterrupted = errors.New("interrupted")
	ErrTerminated  = errors.New("terminated")
)

// unknownCommand is the error of a line whose first word is no command.
type unknownCommand struct{ name, nearest string }

func (e unknownCommand) Error() string {
	s := "unknown command " + quoted(e.name)
	if e.nearest != "" {
		s += "; did you mean " + e.nearest + "?"
	}
	return s + " (help lists all)"
}

// Status is the exit status an error stands for.
func Status(err error) int {
	var usage *commands.UsageError
	var own *commands.StatusError
	var unknown unknownCommand
	switch {
	case err == nil:
		return StatusOK
	case errors.Is(err, ErrInterrupted):
		return StatusInterrupted
	case errors.Is(err, ErrTerminated), errors.Is(err, context.Canceled):
		return StatusTerminated
	case errors.As(err, &own):
		return own.Status
	case errors.Is(err, syscall.EPIPE):
		return StatusBrokenPipe
	case errors.As(err, &usage):
		return StatusUsage
	case errors.As(err, &unknown):
		return StatusUnknown
	case errors.Is(err, zkconn.ErrNotConnected), errors.Is(err, zkconn.ConnectionLoss),
		errors.Is(err, zkconn.SessionExpired), errors.Is(err, zkconn.AuthFailed):
		return StatusNoServer
	}
	return StatusFailed
}
