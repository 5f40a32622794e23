package commands

import "fmt"

// The exit statuses that commands and the shell give, listed by Statuses.
const (
	StatusOK          = 0
	StatusFailed      = 1   // a command failed
	StatusUsage       = 2   // a line or an option cannot be meant as it stands
	StatusNoServer    = 69  // no server, or the session was lost
	StatusLockLost    = 74  // a lock was lost
	StatusNotLocked   = 75  // a lock was not got
	StatusUnconfirmed = 76  // the release of a lock was not confirmed
	StatusCannotRun   = 126 // a program could not be run
	StatusUnknown     = 127 // unknown command, or no such program
	StatusInterrupted = 130 // Ctrl-C
	StatusQuit        = 131 // Ctrl-\
	StatusBrokenPipe  = 141 // nobody reads the answers any more
	StatusTerminated  = 143 // asked to end by SIGTERM or SIGHUP
)

// Statuses lists the exit statuses with their meaning, for --help and the README.
var Statuses = []struct {
	Status  int
	Meaning string
}{
	{StatusOK, "everything succeeded"},
	{StatusFailed, "a command failed"},
	{StatusUsage, "wrong usage: nothing was done"},
	{StatusNoServer, "no server could be reached, or the session was lost"},
	{StatusLockLost, "a lock was lost, or may have been"},
	{StatusNotLocked, "a lock was not got: somebody else holds it"},
	{StatusUnconfirmed, "the release of a lock was not confirmed (with --confirm)"},
	{StatusCannotRun, "the program under a lock could not be run"},
	{StatusUnknown, "unknown command, or no such program under a lock"},
	{StatusInterrupted, "interrupted by Ctrl-C"},
	{StatusQuit, "interrupted by Ctrl-\\"},
	{StatusBrokenPipe, "the reader of the answers went away"},
	{StatusTerminated, "ended by SIGTERM or SIGHUP"},
}

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
	Err    error // nil: the status is the answer, and nothing is printed
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
