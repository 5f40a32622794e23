package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/history"
)

// errQuit is how quit ends the loop.
var errQuit = errors.New("quit")

// builtins are the commands that are about the shell itself.
func (s *Shell) builtins() []*commands.Command {
	const group = "Shell"
	quit := commands.NoFlags(func(context.Context, *commands.Env, []string) error { return errQuit })
	return []*commands.Command{
		{
			Name: "help", Group: group, Args: "[command]",
			Summary: "list the commands, or explain one",
			Example: "help create",
			Params:  []commands.Param{{Name: "command", Kind: commands.CommandName, Optional: true}},
			Offline: true, Flags: commands.NoFlags(s.help),
		},
		{
			Name: "history", Group: group,
			Summary: "print the last eleven lines with their numbers",
			Help:    "Credentials are not shown.",
			Example: "history",
			Offline: true, Flags: commands.NoFlags(s.history),
		},
		s.redoCommand(group),
		s.printwatchesCommand(group),
		{
			Name: "quit", Aliases: []string{"exit"}, Group: group,
			Summary: "close the session and leave",
			Example: "quit",
			Offline: true, Flags: quit,
		},
	}
}

// entries is the answer of history.
type entries []history.Entry

// Text is zkCli's lines.
func (es entries) Text(w io.Writer) error {
	for _, e := range es {
		if _, err := fmt.Fprintf(w, "%d - %s\n", e.Number, e.Line); err != nil {
			return err
		}
	}
	return nil
}

// shownLines is how many lines history prints, itself included, as zkCli does.
const shownLines = 11

func (s *Shell) history(_ context.Context, env *commands.Env, _ []string) error {
	last := s.lines.Last(shownLines)
	shown := make(entries, len(last))
	for i, e := range last {
		shown[i] = history.Entry{Number: e.Number, Line: history.Redacted(e.Line)}
	}
	return env.Screen.Print(shown)
}

func (s *Shell) redoCommand(group string) *commands.Command {
	c := &commands.Command{
		Name: "redo", Group: group, Args: "cmdno",
		Summary: "run a line of the history again",
		Help:    "The history then shows that line in place of the redo.",
		Example: "redo 3",
		Params:  []commands.Param{{Name: "cmdno", Kind: commands.LineNumber}},
		Offline: true,
	}
	c.Flags = commands.NoFlags(func(ctx context.Context, _ *commands.Env, args []string) error {
		n, err := javaDecode(args[0])
		if err != nil {
			return &commands.UsageError{Command: c, Problem: fmt.Sprintf("%q is no number of a line", args[0])}
		}
		line, ok := s.lines.Get(n)
		if !ok || n >= s.number {
			return errors.New("Command index out of range")
		}
		if words, err := split(line); err == nil && words[0].Text == c.Name {
			return errors.New("No redoing redos")
		}
		s.lines.Replace(s.number, line)
		s.policy.redoing(line)
		_, err = s.runText(ctx, line)
		return err
	})
	return c
}

// javaDecode reads a number as Integer.decode does: decimal, or after 0x, 0X or
// # hexadecimal, or after 0 octal.
func javaDecode(s string) (int, error) {
	rest, sign := s, ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		rest, sign = s[1:], s[:1]
	}
	base := 10
	switch lower := strings.ToLower(rest); {
	case strings.HasPrefix(lower, "0x"):
		rest, base = rest[2:], 16
	case strings.HasPrefix(rest, "#"):
		rest, base = rest[1:], 16
	case strings.HasPrefix(rest, "0") && len(rest) > 1:
		rest, base = rest[1:], 8
	}
	if strings.HasPrefix(rest, "+") || strings.HasPrefix(rest, "-") {
		return 0, strconv.ErrSyntax
	}
	n, err := strconv.ParseInt(sign+rest, base, 32)
	return int(n), err
}

func (s *Shell) printwatchesCommand(group string) *commands.Command {
	return &commands.Command{
		Name: "printwatches", Group: group, Args: "on|off",
		Summary: "tell whether events are printed, or turn that on or off",
		Example: "printwatches off",
		Params:  []commands.Param{{Name: "on|off", Kind: commands.Choice, Words: []string{"on", "off"}, Optional: true}},
		Offline: true,
		Flags: commands.NoFlags(func(_ context.Context, env *commands.Env, args []string) error {
			if len(args) == 0 {
				return env.Screen.Print(watchState{s.watches.Load()})
			}
			return s.setWatching(env, strings.EqualFold(args[0], "on"))
		}),
	}
}

// watchState is the answer of printwatches.
type watchState struct {
	On bool `json:"printwatches"`
}

// Text is zkCli's line.
func (w watchState) Text(out io.Writer) error {
	word := "off"
	if w.On {
		word = "on"
	}
	_, err := fmt.Fprintf(out, "printwatches is %s\n", word)
	return err
}

// setWatching shows or drops first what came in under the old setting.
func (s *Shell) setWatching(env *commands.Env, on bool) error {
	if err := s.showEvents(); err != nil {
		return err
	}
	s.watches.Store(on)
	return env.Screen.Print(watchSetting{watchState{on}})
}

// watchSetting is the answer of printwatches on and off, which has no text.
type watchSetting struct{ watchState }

// Text is empty.
func (watchSetting) Text(io.Writer) error { return nil }

// flagsOf renders the flags of a command for help.
func flagsOf(c *commands.Command) []*pflag.Flag {
	var all []*pflag.Flag
	c.FlagSet().VisitAll(func(f *pflag.Flag) { all = append(all, f) })
	return all
}
