package shell

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/history"
	"github.com/zksh/zksh/internal/render"
)

// errQuit is how quit ends the loop.
var errQuit = errors.New("quit")

// builtins are the commands that are about the shell itself.
func (s *Shell) builtins() []*commands.Command {
	const group = "Shell"
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
		{
			Name: "redo", Group: group, Args: "cmdno",
			Quota: true, // as the line may be that runs again
			Summary: "run a line of the history again",
			Help:    "The history then shows that line in place of the redo.",
			Example: "redo 3",
			Params:  []commands.Param{{Name: "cmdno", Kind: commands.LineNumber}},
			Offline: true, Flags: commands.NoFlags(s.redo),
		},
		{
			Name: "printwatches", Group: group, Args: "on|off",
			Summary: "tell whether events are printed, or turn that on or off",
			Example: "printwatches off",
			Params:  []commands.Param{{Name: "on|off", Kind: commands.Choice, Words: []string{"on", "off"}, Optional: true}},
			Offline: true, Flags: commands.NoFlags(s.printwatches),
		},
		{
			Name: "quit", Aliases: []string{"exit"}, Group: group,
			Summary: "close the session and leave",
			Example: "quit",
			Offline: true, Flags: commands.NoFlags(func(context.Context, *commands.Env, []string) error { return errQuit }),
		},
	}
}

// shownLines is how many lines history prints, itself included, as zkCli does.
const shownLines = 11

func (s *Shell) history(_ context.Context, env *commands.Env, _ []string) error {
	last := s.lines.Last(shownLines)
	var words strings.Builder
	for i := range last {
		last[i].Line = history.Redacted(last[i].Line)
		fmt.Fprintf(&words, "%d - %s\n", last[i].Number, last[i].Line)
	}
	return env.Screen.Print(render.Answer{Words: words.String(), JSON: last})
}

func (s *Shell) redo(ctx context.Context, _ *commands.Env, args []string) error {
	n, err := javaDecode(args[0])
	if err != nil {
		return commands.Misuse("%q is no number of a line", args[0])
	}
	line, ok := s.lines.Get(n)
	if !ok || n >= s.number {
		return errors.New("Command index out of range")
	}
	if words, err := split(line); err == nil && words[0].Text == "redo" {
		return errors.New("No redoing redos")
	}
	s.lines.Replace(s.number, line)
	s.policy.redoing(line)
	_, err = s.runText(ctx, line)
	return err
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

// printwatches shows or drops first what came in under the old setting.
func (s *Shell) printwatches(_ context.Context, env *commands.Env, args []string) error {
	if len(args) == 0 {
		on := s.watches.Load()
		word := map[bool]string{true: "on", false: "off"}[on]
		return env.Screen.Print(render.Answer{Words: "printwatches is " + word + "\n", JSON: render.Facts{"printwatches", on}})
	}
	if err := s.showEvents(); err != nil {
		return err
	}
	on := strings.EqualFold(args[0], "on")
	s.watches.Store(on)
	return env.Screen.Print(render.Answer{JSON: render.Facts{"printwatches", on}})
}
