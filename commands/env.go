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
	Streams Streams // for programs that a command starts
	Mode    Mode
	Format  render.Format // format of results
	Stdin   io.Reader     // standard input, if Mode is OneShot; otherwise nil
	Version string        // version of zksh
	Saver   Saver         // saves what commands overwrite or delete; nil: nothing is saved
	Script  string        // file whose lines source is running; empty: none
	Line    string        // identifies the line typed at the prompt, which may run other lines; empty: none
	// Confirm is the name of the cluster, to be shown in the question of a line with the effect
	// Asks. It is empty if writes to the cluster need no confirmation.
	Confirm string
	// Run runs another command in env, given as its words.
	Run func(ctx context.Context, env *Env, words []Word) error
}

// answer prints v, unless the command has failed with err.
func (env *Env) answer(err error, v render.Value) error {
	if err != nil {
		return err
	}
	return env.Screen.Print(v)
}

// AskToContinue prints what and asks the user whether to continue. It returns an error if the
// answer is no, or if there is nobody to ask.
func (env *Env) AskToContinue(ctx context.Context, what string) error {
	yes, err := env.Screen.Ask(ctx, strings.TrimSuffix(what, ".")+". Continue? [y/N] ") // Windows ends error messages with a full stop
	if err == nil && !yes {
		err = errors.New("the command was not run")
	}
	return err
}

// Streams are the standard streams of a program that a command starts. A nil stream means that
// the program gets none.
type Streams struct{ In, Out, Err *os.File }

// programGrace is the time that an interrupted program has to exit before it is killed.
const programGrace = 5 * time.Second

// Attach makes cmd write to the streams, and limits the time it has to exit after its context is
// cancelled.
func (s Streams) Attach(cmd *exec.Cmd) {
	if s.Out != nil {
		cmd.Stdout = s.Out
	}
	if s.Err != nil {
		cmd.Stderr = s.Err
	}
	cmd.WaitDelay = programGrace
}

// Mode is the way in which the shell gets its lines.
type Mode int

// The modes.
const (
	OneShot Mode = iota // a single command on zksh's own command line
	Batch               // lines from a file or a pipe
	ByHand              // lines typed at the prompt
)
