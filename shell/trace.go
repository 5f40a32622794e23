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
		Name: "trace", Group: "Shell", Effect: commands.Offline | commands.Apart, Args: "[--data] [--pings] [on|off]",
		Summary: "show the requests, replies and watch events of this shell",
		Help: "After \"trace on\", zksh prints a line on standard error for each request that it sends, each reply and each watch event, " +
			"until \"trace off\". Credentials and ACLs are never shown. Without an argument, trace prints the current setting.\n\n" +
			"The trace never delays requests: lines that cannot be printed fast enough are counted, and then dropped. To write the trace to a file, " +
			"start zksh with --trace FILE.",
		Limits:   []string{"The trace does not show the traffic of other sessions that zksh opens, such as that of the second ensemble of cp."},
		Examples: []string{"trace on", "trace --data on", "trace off"},
		Params:   []commands.Param{{Name: "on|off", Kind: commands.Choice, Words: []string{"on", "off"}, Optional: true}},
		Flags: func(fs *pflag.FlagSet) commands.Run {
			var o trace.Options
			fs.BoolVar(&o.Data, "data", false, "also show the first 60 bytes of the data of znodes")
			fs.BoolVar(&o.Pings, "pings", false, "also show pings, which are usually only counted")
			return func(ctx context.Context, env *commands.Env, args []string) error {
				switch on := len(args) > 0 && strings.EqualFold(args[0], "on"); {
				case !on && o != trace.Options{}:
					return commands.Misuse("--data and --pings need \"on\"")
				case on:
					if err := s.startTrace(ctx, o); err != nil {
						return err
					}
				case len(args) > 0:
					if err := s.endTrace(ctx); err != nil {
						return err
					}
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

// startTrace starts the trace, or a new one with other options.
func (s *Shell) startTrace(ctx context.Context, o trace.Options) error {
	if s.cfg.TraceFile != "" {
		return commands.Misuse("the trace is already written to %s, because of --trace", s.cfg.TraceFile)
	}
	if err := s.endTrace(ctx); err != nil {
		return err
	}
	r := trace.New(o, func(l trace.Line) error {
		const lentPause = 50 * time.Millisecond
		for s.terminalLent.Load() { // a program has the terminal
			time.Sleep(lentPause)
		}
		return tty.Quietly(func() error { return s.screen.trace(l) })
	})
	s.tracing.recorder.Store(r)
	s.cfg.Session.Trace(r)
	return nil
}

// endTrace ends the trace, if it is on. It waits until all lines have been printed or ctx ends, and
// then notes how many requests, replies and events there were.
func (s *Shell) endTrace(ctx context.Context) error {
	r := s.tracing.recorder.Swap(nil)
	if r == nil {
		return nil
	}
	s.cfg.Session.Trace(nil)
	totals, err := r.Close(ctx)
	s.env.Screen.Note("trace: " + totals.String())
	return exit.AsWriteError(err)
}

// trace prints a line of the trace on standard error, above the line being typed.
func (s *screen) trace(l trace.Line) error {
	var b strings.Builder
	if s.printer.Format == render.JSON {
		to := s.printer.To(&b)
		if err := to.Print(l); err != nil {
			return err
		}
	} else if columns := s.err.columns(); columns > 0 {
		for _, line := range l.Lines(columns - 1) {
			b.WriteString(line.Terminal(columns-1, !s.err.Plain && !s.err.Dumb) + "\n")
		}
	} else if err := l.Text(&b); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers.flush()
	defer s.hideRegions(s.err)()
	if s.editor != nil && s.err.TTY {
		return s.editor.Notify(b.String())
	}
	_, err := io.WriteString(s.err.W, b.String())
	return err
}
