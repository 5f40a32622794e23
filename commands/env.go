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
