package shell

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/history"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/shell/exit"
	"github.com/zksh/zksh/shell/syntax"
)

// builtins returns the commands that concern the shell itself, such as help, history and
// printwatches.
func (s *Shell) builtins() []*commands.Command {
	const group = "Shell"
	return []*commands.Command{
		{
			Name: "help", Group: group, Effect: commands.Offline | commands.Apart,
			Args:    "[-t] [all | command | topic | word]",
			Summary: "list commands and topics, or explain one",
			Help: "Without an argument, help lists the commands of every day. help all lists all commands, and the " +
				"topics of the manual.\n\n" +
				"Given the name of a command, help prints the help for that command. Given a topic, it prints that " +
				"page of the manual. Given any other word, it lists the commands and the pages that are related to " +
				"that word, and names the others that mention it.\n\n" +
				"On a terminal, text that is longer than the screen is shown with $PAGER. If PAGER is not set, zksh " +
				"uses less, except on a dumb terminal, where it prints the text without a pager.",
			Examples: []string{"help create", "help quota", "help -t locks", "help all", "help"},
			Params:   []commands.Param{{Name: "name", Kind: commands.HelpName, Optional: true}},
			Flags:    s.help,
		},
		{
			Name: "echo", Group: group, Effect: commands.Offline | commands.Apart, Args: "[word…]",
			Summary: "print the arguments",
			Help: "echo is useful for programs that send commands to zksh through a pipe. When the program reads the " +
				"output of echo, it knows that all earlier commands have finished.",
			Examples: []string{`echo "half of it is done"`, "echo done"},
			Params:   []commands.Param{{Name: "word", Kind: commands.Data, Optional: true, Many: true}},
			Flags: commands.NoFlags(func(_ context.Context, env *commands.Env, args []string) error {
				words := append([]string{}, args...) // not nil, so that JSON has an empty list instead of null
				return env.Screen.Print(render.Answer{Words: strings.Join(words, " ") + "\n",
					JSON: render.Facts{"echo", words}})
			}),
		},
		{
			Name: "history", Group: group, Effect: commands.Offline | commands.Apart, Args: "[-l] [count]",
			Summary: "print the most recent lines of the history",
			Help: "history prints the last COUNT lines of this shell (default: 11), each with its number. To run a " +
				"line again, pass its number to redo. Credentials are not shown.\n\n" +
				"With -l, it also prints when each line was typed, its exit status, and for which cluster or servers " +
				"it was typed.",
			Examples: []string{"history 50", "history -l", "history"},
			Params:   []commands.Param{{Name: "count", Kind: commands.Data, Optional: true}},
			Flags: func(fs *pflag.FlagSet) commands.Run {
				long := fs.BoolP("long", "l", false, "also print the time, the exit status and the cluster")
				return func(_ context.Context, env *commands.Env, args []string) error {
					return s.history(env, args, *long)
				}
			},
		},
		{
			Name: "redo", Group: group, Effect: commands.Offline | commands.Apart | commands.Quotas, Args: "cmdno",
			Summary: "run a line from the history again",
			Help: "redo prints the line and runs it. The line itself is added to the history, not the redo command. " +
				"If the line was typed for another cluster and may write, redo asks before it runs the line.",
			Examples: []string{"redo 3", "redo 12"},
			Params:   []commands.Param{{Name: "cmdno", Kind: commands.LineNumber}},
			Flags:    commands.NoFlags(s.redo),
		},
		{
			Name: "printwatches", Group: group, Effect: commands.Offline | commands.Apart, Args: "on|off|short|time",
			Summary: "show or change how watch events are printed",
			Help: "\"on\" prints each event in full, \"short\" prints it on one line, \"time\" adds the time of day " +
				"to that line, and \"off\" prints no events. Without an argument, printwatches prints the current " +
				"setting.",
			Examples: []string{"printwatches off", "printwatches short", "printwatches"},
			Params: []commands.Param{{Name: "on|off|short|time", Kind: commands.Choice,
				Words: []string{"on", "off", "short", "time"}, Optional: true}},
			Passing: func(_ *pflag.FlagSet, args []string) string {
				if len(args) == 0 {
					return ""
				}
				return "the setting was changed only for this command; use printwatches in a script or at the prompt"
			},
			Flags: commands.NoFlags(s.printwatches),
		},
		s.traceCommand(),
		{
			Name: "quit", Aliases: []string{"exit"}, Group: group, Effect: commands.Offline | commands.Apart,
			Summary:  "close the session and exit",
			Examples: []string{"quit"},
			Flags:    commands.NoFlags(func(context.Context, *commands.Env, []string) error { return exit.ErrQuit }),
		},
	}
}

// defaultHistoryLines is the default number of lines that the history command prints, as in zkCli.
// The line with the history command itself is one of them.
const defaultHistoryLines = 11

// A listedLine is a line of the history in the JSON answer of the history command.
type listedLine struct {
	Number int    `json:"number"`
	Line   string `json:"line"`
	*lineDetails
}

// lineDetails is the part of a listedLine that is printed only with -l.
type lineDetails struct {
	Time   string `json:"time"`
	Status *int   `json:"status"` // nil if the line has not finished, and for the lines of a script
	Place  string `json:"place"`
}

func (s *Shell) history(env *commands.Env, args []string, long bool) error {
	count := defaultHistoryLines
	if len(args) > 0 {
		var err error
		if count, err = strconv.Atoi(args[0]); err != nil || count < 1 {
			return commands.Misuse("invalid number of lines %q: must be at least 1", args[0])
		}
	}
	var words strings.Builder
	g := render.Grid{Header: []string{"number", "line"}}
	if long {
		g.Header = []string{"number", "time", "status", "place", "line"}
	}
	var list []listedLine
	for _, e := range s.lines.Last(count) {
		l := listedLine{Number: e.Number, Line: history.Redacted(e.Line)}
		row := []string{strconv.Itoa(e.Number), l.Line}
		if long {
			typed, status := time.Unix(e.Time, 0), "-"
			l.lineDetails = &lineDetails{Time: typed.Format(time.RFC3339), Place: e.Place}
			if e.Status != history.UnknownStatus {
				l.Status, status = &e.Status, strconv.Itoa(e.Status)
			}
			when := typed.Format(time.DateTime)
			fmt.Fprintf(&words, "%d - %s %s %s  %s\n", e.Number, when, status, render.Safe(e.Place), l.Line)
			row = []string{row[0], when, status, e.Place, l.Line}
		} else {
			fmt.Fprintf(&words, "%d - %s\n", e.Number, l.Line)
		}
		list, g.Rows = append(list, l), append(g.Rows, row)
	}
	return env.Screen.Print(render.Answer{Words: words.String(), Grid: g, JSON: list})
}

func (s *Shell) redo(ctx context.Context, env *commands.Env, args []string) error {
	n, err := javaDecode(args[0])
	if err != nil {
		return commands.Misuse("%q is not a line number", args[0])
	}
	e, ok := s.lines.Get(n)
	line := e.Line
	if !ok || n >= s.number {
		return errors.New("Command index out of range")
	}
	command, _, _ := syntax.CutRedirection(line)
	if words, err := syntax.Split(command); err == nil && len(words) > 0 && words[0].Text == "redo" {
		return errors.New("No redoing redos")
	}
	s.lines.Replace(s.number, line)
	s.policy.redoing(line)
	if err := s.confirmElsewhere(ctx, env, n, e); err != nil {
		return err
	}
	_, err = s.runText(ctx, env, line)
	return err
}

// javaDecode parses a number like Java's Integer.decode: as hexadecimal after 0x, 0X or #, as
// octal after 0, and otherwise as decimal.
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

// eventForm is the value of the printwatches setting. It determines whether events are printed,
// and in which form.
type eventForm int32

const (
	eventsOff eventForm = iota
	eventsOn
	eventsShort
	eventsTimed // like eventsShort, with the time of day
)

var eventForms = [...]string{eventsOff: "off", eventsOn: "on", eventsShort: "short", eventsTimed: "time"}

// printwatches runs the printwatches command, which prints or changes the form of events. Before a
// change, it prints the events received so far in the old form.
func (s *Shell) printwatches(_ context.Context, env *commands.Env, args []string) error {
	var words string
	if len(args) == 0 {
		words = "printwatches is " + eventForms[s.watches.Load()] + "\n"
	} else {
		if err := s.showEvents(); err != nil {
			return err
		}
		s.watches.Store(int32(slices.Index(eventForms[:], strings.ToLower(args[0]))))
	}
	var facts any
	switch form := eventForm(s.watches.Load()); form {
	case eventsOff, eventsOn:
		facts = form == eventsOn
	default:
		facts = eventForms[form]
	}
	return env.Screen.Print(render.Answer{Words: words, JSON: render.Facts{"printwatches", facts}})
}
