package shell

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/line"
)

// The causes with which a context is cancelled.
var (
	errInterrupted = line.ErrInterrupted
	errQuitKey     = fmt.Errorf("%w by Ctrl-\\", errInterrupted)
	errTerminated  = errors.New("terminated")
)

// unknownCommand is the error of a line whose first word is no command.
type unknownCommand struct{ name, hint string }

func (e unknownCommand) Error() string {
	s := "unknown command " + strconv.Quote(e.name)
	if e.hint != "" {
		s += "; " + e.hint
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
		return commands.StatusOK
	case errors.Is(err, errQuitKey):
		return commands.StatusQuit
	case errors.Is(err, errInterrupted):
		return commands.StatusInterrupted
	case errors.Is(err, errTerminated), errors.Is(err, context.Canceled):
		return commands.StatusTerminated
	case errors.As(err, &own):
		return own.Status
	case readerGone(err):
		return commands.StatusBrokenPipe
	case errors.As(err, &usage):
		return commands.StatusUsage
	case errors.As(err, &unknown):
		return commands.StatusUnknown
	case errors.Is(err, zkconn.ErrNotConnected), errors.Is(err, zkconn.ConnectionLoss),
		errors.Is(err, zkconn.SessionExpired), errors.Is(err, zkconn.AuthFailed):
		return commands.StatusNoServer
	}
	return commands.StatusFailed
}
