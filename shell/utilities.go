package shell

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/userfile"
	"github.com/zksh/zksh/shell/batch"
	"github.com/zksh/zksh/shell/exit"
)

// utilityCommands returns the clear command and the commands that run other commands or lines.
func (s *Shell) utilityCommands() []*commands.Command {
	const group = "Shell"
	line := []commands.Param{{Name: "command", Kind: commands.CommandName}}
	return []*commands.Command{
		{
			Name: "time", Group: group, Effect: commands.Offline | commands.Quotas, Args: "command",
			Summary:  "run a command and print how long it took",
			Help:     "time prints the elapsed time to standard error, and exits with the exit status of the command.",
			Examples: []string{"time ls -R /app", "time deleteall -y /app/old"},
			Params:   line,
			Wrap:     func(*pflag.FlagSet) commands.Wrapper { return timed },
		},
		{
			Name: "repeat", Group: group, Effect: commands.Offline | commands.Quotas, Args: "[-n count] [-i time] [-k] [-u | -c] command",
			Summary: "run a command repeatedly",
			Help: "On a terminal, each result replaces the previous one. repeat stops when you press Ctrl-C or when the " +
				"command fails. After a failure, repeat exits with the exit status of the command. With -k, repeat prints the error and " +
				"continues; when it stops, it exits with the exit status of the first failure.\n\n" +
				"With -u, repeat continues while the command fails, and stops with exit status 0 when it succeeds. With -c, " +
				"repeat stops with exit status 0 when the output differs from that of the previous run; with -k, an error " +
				"counts as output. If repeat has run the command as often as -n allows and neither has happened, its exit " +
				"status is 75.",
			Limits: []string{
				"repeat -u stops if the command line is wrong, because the command can never succeed.",
				"repeat -c does not notice a change that is undone between two runs; use watch for znodes.",
			},
			Examples: []string{"repeat -i 5s get /app/leader", "repeat -n 10 stat /app", "repeat -u exists /app/ready", "repeat -c -n 60 get /app/leader"},
			Params:   line,
			Wrap:     s.repeat,
		},
		{
			Name: "source", Group: group, Effect: commands.Offline | commands.Quotas, Args: "file",
			Summary: "run the commands in a file",
			Help: "source runs the lines of the file one after the other. If a line fails, source prints the line number " +
				"and continues. The exit status is that of the first failed line.\n\n" +
				"If a file runs itself, or if more than 16 files run each other, source ends the script.",
			Examples: []string{"source setup.zk", "source ~/cleanup.zk"},
			Params:   []commands.Param{{Name: "file", Kind: commands.File}},
			Flags:    commands.NoFlags(s.source),
		},
		{
			Name: "clear", Group: group, Effect: commands.Offline,
			Summary:  "clear the terminal, like Ctrl-L",
			Examples: []string{"clear"},
			Flags:    commands.NoFlags(func(context.Context, *commands.Env, []string) error { return s.screen.clear() }),
		},
	}
}

func timed(ctx context.Context, env *commands.Env, do commands.Do) error {
	begun := time.Now()
	err := do(ctx, env)
	took := time.Since(begun)
	env.Screen.Alert(fmt.Sprintf("time: %.3f s", took.Seconds()))
	return err
}

// repeat defines the flags of the repeat command and returns the function that runs it.
func (s *Shell) repeat(fs *pflag.FlagSet) commands.Wrapper {
	times := fs.IntP("count", "n", 0, "run the command this many `times`; by default, until you press Ctrl-C")
	every := commands.Duration{Value: time.Second}
	fs.VarP(&every, "interval", "i", "wait this `duration` between runs")
	keepGoing := fs.BoolP("keep-going", "k", false, "continue when the command fails")
	untilOK := fs.BoolP("until-ok", "u", false, "continue when the command fails, and stop when it succeeds")
	untilChanged := fs.BoolP("until-changed", "c", false, "stop when the output changes")
	return func(ctx context.Context, env *commands.Env, do commands.Do) error {
		switch {
		case *times < 0 || fs.Changed("count") && *times == 0:
			return commands.Misuse("-n: invalid number %d: must be at least 1", *times)
		case *untilOK && *untilChanged:
			return commands.Misuse("-u cannot be combined with -c")
		}
		show := &inPlaceScreen{Screen: env.Screen, region: env.Screen.Region(commands.Answers)}
		columns, _ := show.region.Size()
		onTerminal, format := columns > 0, env.Format
		if onTerminal || *untilChanged {
			own := *env
			own.Screen = show
			show.printer = s.screen.printer.To(&show.text)
			show.printer.Safe = false // the text is printed again, which escapes control characters
			env = &own
		}
		var failed error  // error of the first run that failed, if repeat continued after it
		var last []string // lines of the previous run
		err := callRepeatedly(ctx, *times, every.Value, func(n int) error {
			show.text.Reset()
			err := do(ctx, env)
			lines := strings.Split(strings.TrimSuffix(show.text.String(), "\n"), "\n")
			if !onTerminal && *untilChanged {
				if err := show.printText(format); err != nil {
					return err
				}
			}
			if err != nil {
				if ctx.Err() != nil || !*keepGoing && !*untilOK || *untilOK && exit.Status(err) == commands.StatusUsage {
					return err
				}
				failed = cmp.Or[error](failed, &commands.StatusError{Status: exit.Status(err)})
				if lines = s.policy.wording("repeat", err); !onTerminal {
					s.report("repeat", err)
				}
			}
			head := fmt.Sprintf("every %s, run %d, %s", every.Value, n, time.Now().Format(time.TimeOnly))
			if err := show.region.Draw(append([]string{head}, lines...)...); err != nil {
				return err
			}
			if *untilOK && err == nil || *untilChanged && n > 1 && !slices.Equal(lines, last) {
				return errUntil
			}
			last = lines
			return nil
		})
		switch {
		case err == errUntil:
			err, failed = nil, nil
		case err == nil && *untilOK:
			err = &commands.StatusError{Status: commands.StatusTimeUp, Code: "TimeUp", Err: fmt.Errorf("the command still failed in run %d", *times)}
		case err == nil && *untilChanged:
			err = &commands.StatusError{Status: commands.StatusTimeUp, Code: "TimeUp", Err: fmt.Errorf("the output had not changed by run %d", *times)}
		}
		return errors.Join(cmp.Or(err, failed), show.region.Close(true))
	}
}

// errUntil ends the repeat command because the condition of -u or -c is met.
var errUntil = errors.New("the condition is met")

// callRepeatedly calls do count times, or without limit if count is 0, and waits for interval
// between two calls. It stops at the first error.
func callRepeatedly(ctx context.Context, count int, interval time.Duration, do func(n int) error) error {
	for n := 1; ; n++ {
		if err := do(n); err != nil || n == count {
			return err
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// An inPlaceScreen collects the answers of a command. The repeat command then draws them in one
// region of the terminal, in place of the answers of the run before, or prints them.
type inPlaceScreen struct {
	commands.Screen
	region  commands.Region
	text    bytes.Buffer
	printer *render.Printer
}

// Print adds a value to the collected text.
func (p *inPlaceScreen) Print(v render.Value) error { return p.printer.Print(v) }

// printText prints the collected text as answers, because there is no terminal to draw it on.
func (p *inPlaceScreen) printText(format render.Format) (err error) {
	if format != render.JSON {
		return p.Screen.Print(render.Answer{Words: p.text.String()})
	}
	for value := range bytes.Lines(p.text.Bytes()) {
		err = errors.Join(err, p.Screen.Print(render.Answer{JSON: json.RawMessage(bytes.Clone(value))}))
	}
	return err
}

// Region returns a region that draws nothing, because repeat draws the collected text itself.
func (p *inPlaceScreen) Region(commands.Stream) commands.Region { return noRegion{} }

// maxSources is the maximum nesting depth of the source command.
const maxSources = 16

// source runs the source command: it runs the lines of a file like those of a script, but one at a
// time and with the Env of the line that contains the source command.
func (s *Shell) source(ctx context.Context, env *commands.Env, args []string) error {
	f, err := userfile.OpenToRead(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	running := func(earlier fs.FileInfo) bool { return os.SameFile(earlier, info) }
	switch {
	case slices.ContainsFunc(env.Sources, running):
		return batch.Endless(fmt.Errorf("%s is running already, so it would run itself again and again", args[0]))
	case len(env.Sources) >= maxSources:
		return batch.Endless(fmt.Errorf("%s is nested more than %d files deep", args[0], maxSources))
	}
	own := *env
	own.Script, own.Sources = args[0], append(slices.Clip(env.Sources), info)
	if env.Mode == commands.OneShot && own.Saver != nil && !own.Saver.Required() { // as with -f, a script saves nothing for undo
		own.Saver = nil
	}
	return s.newBatch(args[0]).Source(ctx, f, func(ctx context.Context, line string) (string, error) {
		return s.runText(ctx, &own, line)
	})
}

// clear clears the screen and its scrollback, if standard output is a terminal that understands
// control sequences.
func (s *screen) clear() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.out.TTY || s.out.Dumb {
		return nil
	}
	_, err := io.WriteString(s.out.W, "\x1b[H\x1b[2J\x1b[3J")
	return exit.AsWriteError(err)
}
