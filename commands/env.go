package commands

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/tty"
	"github.com/zksh/zksh/internal/zkconn"
)

// Env is the environment in which a command runs.
type Env struct {
	Session *zkconn.Session
	Screen  Screen
	Streams Streams // standard streams for programs that a command starts
	Mode    Mode
	Format  render.Format // format of results
	Stdin   io.Reader     // standard input if Mode is OneShot; nil otherwise
	Version string        // version of zksh
	// Recorder records what commands change. It is nil if nothing is recorded.
	Recorder Recorder
	Script   string        // name of the file that the command source is running, or empty if there is none
	Sources  []fs.FileInfo // files whose lines are running: a script, and the files of source, outermost first
	Line     string        // random ID of the line typed at the prompt and of all lines that it runs; otherwise empty
	Yes      bool          // whether the user has confirmed in advance what commands would ask (--yes)
	// Confirm is the name of the cluster if writes to it require confirmation; otherwise it is
	// empty. A line with the effect Asks shows the name in its question.
	Confirm string
	// Run runs another command line, split into words, in the environment env.
	Run func(ctx context.Context, env *Env, words []Word) error
}

// answer returns err if it is not nil. Otherwise it prints v, the command's result.
func (env *Env) answer(err error, v render.Value) error {
	if err != nil {
		return err
	}
	return env.Screen.Print(v)
}

// AskToContinue prints a warning and asks the user whether to continue. It returns an error if the
// user answers no, or if no user can be asked.
func (env *Env) AskToContinue(ctx context.Context, warning string) error {
	// Error messages of Windows end with a full stop. Remove it, to avoid a second one.
	yes, err := env.Screen.Ask(ctx, strings.TrimSuffix(warning, ".")+". Continue? [y/N] ")
	if err == nil && !yes {
		err = errors.New("the command was not run")
	}
	return err
}

// Streams are the standard streams of a program that a command starts. The program gets no stream
// for a nil field.
type Streams struct{ In, Out, Err *os.File }

// programGrace is how long an interrupted program may keep running before it is killed.
const programGrace = 5 * time.Second

// Attach connects cmd to the streams for output and errors. If the context of cmd is cancelled, cmd
// may keep running for at most programGrace.
func (s Streams) Attach(cmd *exec.Cmd) {
	if s.Out != nil {
		cmd.Stdout = s.Out
	}
	if s.Err != nil {
		cmd.Stderr = s.Err
	}
	cmd.WaitDelay = programGrace
}

// OnTerminal reports whether a user can read a question on s.Err and answer it on s.In.
func (s Streams) OnTerminal() bool {
	return s.In != nil && s.Err != nil && tty.Is(s.In) && tty.Is(s.Err)
}

// Mode is the way in which the shell gets its command lines.
type Mode int

// The modes of the shell.
const (
	OneShot Mode = iota // a single command, given as arguments to zksh
	Batch               // lines from a file or a pipe
	ByHand              // lines typed at the prompt
)
