package exit

import (
	"context"
	"errors"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
)

// Status is the exit status an error stands for.
func Status(err error) int {
	var usage *commands.UsageError
	var own *commands.StatusError
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

// codes are the codes of errors whose status says all.
var codes = map[int]string{
	commands.StatusLockLost: "LockLost", commands.StatusNotLocked: "NotLocked", commands.StatusUnconfirmed: "Unconfirmed",
	commands.StatusCannotRun: "CannotRun", commands.StatusUnknown: "CannotRun",
	commands.StatusInterrupted: "Interrupted", commands.StatusQuit: "Interrupted", commands.StatusTerminated: "Terminated",
	commands.StatusUsage: "Usage", commands.StatusBrokenPipe: "BrokenPipe",
}

// Code names an error for programs: by ZooKeeper's name of a refusal, or one of those
// that commands.Statuses lists besides.
func Code(err error) string {
	status := Status(err)
	own, _ := errors.AsType[*commands.StatusError](err)
	refusal, refused := errors.AsType[zkconn.Code](err)
	switch {
	case own != nil && own.Status == status && own.Code != "":
		return own.Code
	case errors.As(err, new(UnknownCommand)):
		return "UnknownCommand"
	case codes[status] != "":
		return codes[status]
	case errors.As(err, new(*zkconn.NoServerError)):
		return "NoServer"
	case errors.As(err, new(*zkconn.UnsentError)):
		return "NotSent"
	case errors.Is(err, zkconn.ErrNotConnected):
		return "NotConnected"
	case refused:
		return refusal.Name()
	}
	return "Failed"
}
