package exit

import (
	"context"
	"errors"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
)

// Status returns the exit status for an error.
func Status(err error) int {
	var usage *commands.UsageError
	var statusErr *commands.StatusError
	var unknown UnknownCommand
	switch {
	case err == nil:
		return commands.StatusOK
	case errors.Is(err, ErrQuitKey):
		return commands.StatusQuit
	case errors.Is(err, ErrInterrupted):
		return commands.StatusInterrupted
	case errors.Is(err, ErrTerminated), errors.Is(err, context.Canceled):
		return commands.StatusTerminated
	case errors.As(err, &statusErr):
		return statusErr.Status
	case readerClosed(err):
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

// statusCodes maps an exit status to an error code for JSON output. It contains only those
// statuses whose errors all have the same code.
var statusCodes = map[int]string{
	commands.StatusLockLost: "LockLost", commands.StatusNotLocked: "NotLocked",
	commands.StatusUnconfirmed: "Unconfirmed",
	commands.StatusCannotRun:   "CannotRun", commands.StatusUnknown: "CannotRun",
	commands.StatusInterrupted: "Interrupted", commands.StatusQuit: "Interrupted",
	commands.StatusTerminated: "Terminated",
	commands.StatusUsage:      "Usage", commands.StatusBrokenPipe: "BrokenPipe",
}

// Code returns the code of an error in JSON output. This is ZooKeeper's name for the error, or one
// of the other codes that commands.Statuses lists.
func Code(err error) string {
	status := Status(err)
	statusErr, _ := errors.AsType[*commands.StatusError](err)
	loss, isLoss := errors.AsType[*commands.LossError](err)
	code, isCode := errors.AsType[zkconn.Code](err)
	switch {
	case statusErr != nil && statusErr.Status == status && statusErr.Code != "":
		return statusErr.Code
	case errors.As(err, new(UnknownCommand)):
		return "UnknownCommand"
	case statusCodes[status] != "":
		return statusCodes[status]
	case errors.As(err, new(*zkconn.NoServerError)):
		return "NoServer"
	case isLoss && !loss.Written.MayHaveHappened(), !isLoss && errors.As(err, new(*zkconn.UnsentError)):
		return "NotSent"
	case errors.Is(err, zkconn.ErrNotConnected):
		return "NotConnected"
	case isCode:
		return code.Name()
	}
	return "Failed"
}
