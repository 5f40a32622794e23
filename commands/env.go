package commands

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

// Env is the environment in which a command runs.
type Env struct {
	Session *zkconn.Session
	Screen  Screen
	Streams Streams // standard streams for programs that a command starts
	Mode    Mode
	Format  render.Format // format of results
	Stdin   io.Reader     // standard input, if Mode is OneShot; otherwise nil
	Version string        // version of zksh
	Saver   Saver         // saves what commands overwrite or delete; nil if nothing is to be saved
	Script  string        // file that the command source is running; empty if none
	Line    string        // identifies the line typed at the prompt, which may run further lines; empty if none
	// Confirm is the name of the cluster if writes to it require confirmation, or empty
	// otherwise. A line with the effect Asks shows the name in its question.
	Confirm string
	// Run runs another command line, given as its words, in env.
	Run func(ctx context.Context, env *Env, words []Word) error
}

// answer returns err if it is not nil. Otherwise it prints v, the result of the command.
func (env *Env) answer(err error, v render.Value) error {
	if err != nil {
		return err
	}
	return env.Screen.Print(v)
}

// AskToContinue prints a warning and asks the user whether to continue. It returns an error if
// the user answers no, or if there is no user to ask.
func (env *Env) AskToContinue(ctx context.Context, warning string) error {
	yes, err := env.Screen.Ask(ctx, strings.TrimSuffix(warning, ".")+". Continue? [y/N] ") // Windows ends error messages with a full stop
	if err == nil && !yes {
		err = errors.New("the command was not run")
	}
	return err
}

// Streams are the standard streams of a program that a command starts. If a stream is nil, the
// program does not get that stream.
type Streams struct{ In, Out, Err *os.File }

// programGrace is how long an interrupted program may keep running before it is killed.
const programGrace = 5 * time.Second

// Attach connects the output of cmd to the streams, and limits how long cmd may keep running
// after its context is cancelled.
func (s Streams) Attach(cmd *exec.Cmd) {
	if s.Out != nil {
		cmd.Stdout = s.Out
	}
	if s.Err != nil {
		cmd.Stderr = s.Err
	}
	cmd.WaitDelay = programGrace
}

// Mode says where the shell reads its command lines from.
type Mode int

// The modes of the shell.
const (
	OneShot Mode = iota // a single command, given as arguments of zksh
	Batch               // lines from a file or a pipe
	ByHand              // lines typed at the prompt
)
