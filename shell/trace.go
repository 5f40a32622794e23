package shell

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/trace"
	"github.com/zksh/zksh/internal/tty"
	"github.com/zksh/zksh/shell/exit"
)

// tracing is the state of the trace command.
type tracing struct {
	recorder atomic.Pointer[trace.Recorder] // nil while the trace is off
}

// settle waits until the trace of what has happened so far has been printed, so that it precedes the
// answer. It waits only briefly if the output is blocked.
func (t *tracing) settle() {
	if r := t.recorder.Load(); r != nil {
		r.Settle(20 * time.Millisecond)
	}
}

func (s *Shell) traceCommand() *commands.Command {
	return &commands.Command{
		Name: "trace", Group: "Shell", Effect: commands.Offline | commands.Apart, Args: "[on|off]",
		Summary: "show the requests, replies and watch events of this shell",
		Help: "After \"trace on\", zksh prints a line on standard error for each request that it sends, each reply " +
			"and each watch event, until \"trace off\". Credentials, ACLs and data are never shown. Without an " +
			"argument, trace prints the current setting.\n\n" +
			"The trace never delays requests: lines that cannot be printed fast enough are counted, and then " +
			"dropped. To write the trace to a file, start zksh with --trace FILE.",
		Limits: []string{"The trace does not show the traffic of other sessions that zksh opens, " +
			"such as that of the second ensemble of cp."},
		Examples: []string{"trace on", "trace off"},
		Params: []commands.Param{
			{Name: "on|off", Kind: commands.Choice, Words: []string{"on", "off"}, Optional: true},
		},
		Flags: func(*pflag.FlagSet) commands.Run {
			return func(ctx context.Context, env *commands.Env, args []string) error {
				var err error
				switch {
				case len(args) == 0:
				case strings.EqualFold(args[0], "on"):
					err = s.startTrace()
				default:
					err = s.endTrace(ctx)
				}
				if err != nil {
					return err
				}
				return s.printTrace(env, len(args) == 0)
			}
		},
	}
}

// printTrace prints whether the trace is on. As text, it prints that only if the user has asked.
func (s *Shell) printTrace(env *commands.Env, asked bool) error {
	on, words := s.tracing.recorder.Load() != nil, ""
	if asked {
		words = "trace is " + map[bool]string{true: "on", false: "off"}[on] + "\n"
	}
	return env.Screen.Print(render.Answer{Words: words, JSON: render.Facts{"trace", on}})
}

// startTrace starts the trace, unless it is on already.
func (s *Shell) startTrace() error {
	switch {
	case s.cfg.TraceFile != "":
		return commands.Misuse("the trace is already written to %s, because of --trace", s.cfg.TraceFile)
	case s.tracing.recorder.Load() != nil:
		return nil
	}
	r := trace.New(func(line string) error {
		const lentPause = 50 * time.Millisecond
		for s.terminalLent.Load() { // a program has the terminal
			time.Sleep(lentPause)
		}
		return tty.Quietly(func() error { return s.screen.trace(line) })
	})
	s.tracing.recorder.Store(r)
	s.cfg.Session.Trace(r)
	return nil
}

// endTrace ends the trace, if it is on. It waits until all lines have been printed or ctx ends.
func (s *Shell) endTrace(ctx context.Context) error {
	r := s.tracing.recorder.Swap(nil)
	if r == nil {
		return nil
	}
	s.cfg.Session.Trace(nil)
	_, err := r.Close(ctx) // the last line of the trace reports how many lines were lost
	return err
}

// trace prints a line of the trace on standard error, above the line being typed.
func (s *screen) trace(line string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers.flush()
	defer s.hideRegions(s.err)()
	if s.editor != nil && s.err.TTY {
		return exit.AsWriteError(s.editor.Notify(line + "\n"))
	}
	_, err := io.WriteString(s.err.W, line+"\n")
	return err
}
