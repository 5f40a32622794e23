package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

// Env is what a command may touch.
type Env struct {
	Session *zkconn.Session
	Screen  Screen
	Streams Streams // for programs a command starts
	Mode    Mode
	Format  render.Format // of answers
	Stdin   io.Reader     // one-shot only, else nil
	Version string        // of zksh
	Keeper  Keeper        // of what is destroyed; nil: nothing is kept
	Script  string        // the file whose lines source runs; empty: none
	Line    string        // identifies the line that a person has typed, which may run others; empty: there is none
	// Confirm is the cluster, for the question of a line that Asks; empty: the line needs no
	// confirmation because of the cluster.
	Confirm string
	// Run runs another command, given as its words, in an Env.
	Run func(ctx context.Context, env *Env, words []Word) error
}

// answer shows what a command answers, unless it has failed.
func (env *Env) answer(err error, v render.Value) error {
	if err != nil {
		return err
	}
	return env.Screen.Print(v)
}

// Leave asks the person at the terminal whether to go on. It is an error if that is not
// wished.
func (env *Env) Leave(ctx context.Context, what string) error {
	yes, err := env.Screen.Ask(ctx, strings.TrimSuffix(what, ".")+". Continue? [y/N] ") // Windows ends errors with a dot
	if err == nil && !yes {
		err = errors.New("the command was not run")
	}
	return err
}

// Keeper keeps what commands destroy, before they do, so that it can be brought back.
type Keeper interface {
	// Around keeps what a Loss takes, has destroy do it, and takes note of what has become of it.
	Around(ctx context.Context, env *Env, l Loss, destroy Destroy) error
	// Demanded reports whether nothing may be destroyed that is not saved.
	Demanded() bool
}

// Destroy is the part of a command that destroys. Of a single znode it demands the version.
type Destroy func(ctx context.Context, version int32) error

// Loss is what a command is about to destroy.
type Loss struct {
	Command string
	Path    string
	Of      Lost
	Version int32  // that the command demands; -1: any
	Data    []byte // that is written instead, of LostData
}

// Lost says what of a znode, or of all of a subtree.
type Lost string

// What can be lost.
const (
	LostData  Lost = "data"  // of one znode
	LostNode  Lost = "node"  // all of it
	LostTree  Lost = "tree"  // all of a subtree
	LostParts Lost = "parts" // znodes, data and ACLs of a subtree
	LostACL   Lost = "acl"   // of one znode; the version is the aclVersion
	LostACLs  Lost = "acls"  // of a subtree
)

// Losing has what is about to be destroyed kept first, where it is to be kept.
func (env *Env) Losing(ctx context.Context, l Loss, destroy Destroy) error {
	if env.Keeper == nil {
		return destroy(ctx, l.Version)
	}
	return env.Keeper.Around(ctx, env, l, destroy)
}

// Screen is where a command shows what it has to say. Its methods may be called
// from any goroutine; nothing of one call runs into that of another. The one for
// tests is in package commandtest.
type Screen interface {
	// Print shows an answer, on standard output.
	Print(v render.Value) error
	// Note makes a remark, on standard error; a shell that is asked to be quiet
	// drops it.
	Note(text string)
	// Alert tells of something that happened meanwhile, on standard error, however
	// quiet the shell is asked to be.
	Alert(text string)
	// Ask puts a question to the person at the terminal, whose answer is yes or no.
	// It is an error to ask where nobody is, which is in every Mode but ByHand.
	Ask(ctx context.Context, question string) (yes bool, err error)
	// AskUnseen is Ask for a secret, which does not show as it is typed.
	AskUnseen(ctx context.Context, question string) (answer string, err error)
	// Lend leaves the terminal to a program that do runs: Ctrl-C is the program's, and
	// events wait.
	Lend(do func() error) error
	// Progress shows how far a long piece of work is, if there is a terminal to show
	// it on and the shell is not asked to be quiet. end takes the show away.
	Progress(verb string) (update func(done, total int), end func())
	// Region begins a piece of the terminal that is drawn anew in its place.
	Region(on Stream) Region
}

// Region is some lines of a terminal that are drawn anew in their place, while
// other things are printed above them. It belongs to one goroutine.
type Region interface {
	// Size is that of the terminal in columns and rows. Zeros mean that there is
	// none, or that a program reads what is printed there; then Draw does nothing.
	Size() (columns, rows int)
	// Draw puts lines into the place of those it drew before. They are made
	// harmless, and cut to the window.
	Draw(lines ...string) error
	// Close ends the region; keep leaves what it shows where it is.
	Close(keep bool) error
}

// Stream is one of the two that a shell writes to.
type Stream int

// The streams.
const (
	Answers Stream = iota // standard output
	Remarks               // standard error
)

// Streams are what a program started by a command gets as its own; nil is none.
type Streams struct{ In, Out, Err *os.File }

// programGrace is how long a program that is told to end may take for that.
const programGrace = 5 * time.Second

// Lead has a program write to these streams, and gives it some time for its end.
func (s Streams) Lead(cmd *exec.Cmd) {
	if s.Out != nil {
		cmd.Stdout = s.Out
	}
	if s.Err != nil {
		cmd.Stderr = s.Err
	}
	cmd.WaitDelay = programGrace
}

// Mode is how the shell gets its lines.
type Mode int

// The modes.
const (
	OneShot Mode = iota // one command on the program's command line
	Batch               // from a file or pipe
	ByHand              // typed
)

// The exit statuses that commands and the shell give, listed by Statuses.
const (
	StatusOK          = 0
	StatusFailed      = 1   // a command failed
	StatusUsage       = 2   // a line or an option cannot be meant as it stands
	StatusNoServer    = 69  // no server, or the session was lost
	StatusLockLost    = 74  // a lock was lost
	StatusNotLocked   = 75  // a lock was not got
	StatusTimeUp      = 75  // what was waited for has not come in time
	StatusUnconfirmed = 76  // the release of a lock was not confirmed
	StatusCannotRun   = 126 // a program could not be run
	StatusUnknown     = 127 // unknown command, or no such program
	StatusInterrupted = 130 // Ctrl-C
	StatusQuit        = 131 // Ctrl-\
	StatusBrokenPipe  = 141 // nobody reads the answers any more
	StatusTerminated  = 143 // asked to end by SIGTERM or SIGHUP
)

// Statuses lists the exit statuses: a brief meaning for --help, the full one for the manual,
// and the codes that errors have in JSON.
var Statuses = []struct {
	Status  int
	Brief   string
	Meaning string
	Codes   string
}{
	{StatusOK, "success", "everything succeeded", ""},
	{StatusFailed, "a command failed", "a command failed",
		"ZooKeeper's name for the error (NoNode, NoAuth, NodeExists, BadVersion, NotEmpty …), TooLarge (known to have had no effect), NoWrites (writes are disabled), otherwise Failed"},
	{StatusUsage, "wrong usage", "wrong usage: nothing was done", "Usage"},
	{StatusNoServer, "no server", "no server could be reached, or the session was lost",
		"NoServer, NotSent (known to have had no effect), ConnectionLoss (may have had an effect), SessionExpired, AuthFailed, NotConnected"},
	{StatusLockLost, "lock lost", "a lock was lost, or may have been lost", "LockLost"},
	{StatusNotLocked, "not locked or time up", "a lock was not acquired because another client holds it, or the time limit of wait was reached", "NotLocked, TimeUp"},
	{StatusUnconfirmed, "release not confirmed", "the release of a lock was not confirmed (with --confirm)", "Unconfirmed"},
	{StatusCannotRun, "cannot run", "the program to be run under a lock or by watch could not be run", "CannotRun"},
	{StatusUnknown, "not found", "unknown command, or the program to be run under a lock or by watch was not found", "UnknownCommand, CannotRun"},
	{StatusInterrupted, "Ctrl-C", "interrupted by Ctrl-C", "Interrupted"},
	{StatusQuit, `Ctrl-\`, `interrupted by Ctrl-\`, "Interrupted"},
	{StatusBrokenPipe, "broken pipe", "the reader of the output closed the pipe", ""},
	{StatusTerminated, "SIGTERM or SIGHUP", "terminated by SIGTERM or SIGHUP", "Terminated"},
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
