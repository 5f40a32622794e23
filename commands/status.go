package commands

// Exit statuses of commands and of the shell. The variable Statuses describes them in detail.
const (
	StatusOK          = 0
	StatusFailed      = 1   // a command failed
	StatusUsage       = 2   // a command line or an option is not valid
	StatusNoServer    = 69  // no server could be reached, or the session was lost
	StatusLockLost    = 74  // a lock was lost, or may have been lost
	StatusNotLocked   = 75  // a lock was not acquired
	StatusTimeUp      = 75  // the time limit of wait was reached
	StatusUnconfirmed = 76  // the release of a lock was not confirmed
	StatusCannotRun   = 126 // a program could not be run
	StatusUnknown     = 127 // unknown command, or the program was not found
	StatusInterrupted = 130 // interrupted by Ctrl-C
	StatusQuit        = 131 // interrupted by Ctrl-\
	StatusBrokenPipe  = 141 // the reader of the output closed the pipe
	StatusTerminated  = 143 // terminated by SIGTERM or SIGHUP
)

// Statuses lists the exit statuses. Each has a brief meaning for --help, a full meaning for the
// manual, and the codes that errors with this status have in JSON.
var Statuses = []struct {
	Status  int
	Brief   string
	Meaning string
	Codes   string
}{
	{StatusOK, "success", "everything succeeded", ""},
	{StatusFailed, "failure", "a command failed",
		"ZooKeeper's name for the error (NoNode, NoAuth, NodeExists, BadVersion, NotEmpty …), TooLarge (known to have had no effect), NoWrites (writes are disabled), otherwise Failed"},
	{StatusUsage, "wrong usage", "wrong usage: nothing was done", "Usage"},
	{StatusNoServer, "no server", "no server could be reached, or the session was lost",
		"NoServer, NotSent (known to have had no effect), ConnectionLoss (may have had an effect), SessionExpired, AuthFailed, NotConnected"},
	{StatusLockLost, "lock lost", "a lock was lost, or may have been lost", "LockLost"},
	{StatusNotLocked, "not locked or time up", "a lock was not acquired because another client holds it, or the time limit of wait was reached", "NotLocked, TimeUp"},
	{StatusUnconfirmed, "release not confirmed", "the release of a lock was not confirmed", "Unconfirmed"},
	{StatusCannotRun, "cannot run", "the program to be run under a lock or by watch could not be run", "CannotRun"},
	{StatusUnknown, "not found", "unknown command, or the program to be run under a lock or by watch was not found", "UnknownCommand, CannotRun"},
	{StatusInterrupted, "Ctrl-C", "interrupted by Ctrl-C", "Interrupted"},
	{StatusQuit, `Ctrl-\`, `interrupted by Ctrl-\`, "Interrupted"},
	{StatusBrokenPipe, "broken pipe", "the reader of the output closed the pipe", ""},
	{StatusTerminated, "SIGTERM/SIGHUP", "terminated by SIGTERM or SIGHUP", "Terminated"},
}
