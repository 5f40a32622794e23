package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

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
			Help:    "A word that is no command's name lists the commands that are about it.",
			Example: "help create",
			Params:  []commands.Param{{Name: "command", Kind: commands.CommandName, Optional: true}},
			Offline: true, Aside: true, Flags: commands.NoFlags(s.help),
		},
		{
			Name: "echo", Group: group, Args: "[word…]",
			Summary: "answer with these words",
			Help:    "Whoever talks to zksh through pipes knows by the answer that all before it is done.",
			Example: `echo "half of it is done"`,
			Params:  []commands.Param{{Name: "word", Kind: commands.Data, Optional: true, Many: true}},
			Offline: true, Aside: true, Flags: commands.NoFlags(func(_ context.Context, env *commands.Env, args []string) error {
				words := append([]string{}, args...) // an empty list, not null
				return env.Screen.Print(render.Answer{Words: strings.Join(words, " ") + "\n", JSON: render.Facts{"echo", words}})
			}),
		},
		{
			Name: "history", Group: group, Args: "[count]",
			Summary: "print the last eleven lines, or so many, with their numbers",
			Help:    "Credentials are not shown.",
			Example: "history 50",
			Params:  []commands.Param{{Name: "count", Kind: commands.Data, Optional: true}},
			Offline: true, Aside: true, Flags: commands.NoFlags(s.history),
		},
		{
			Name: "redo", Group: group, Args: "cmdno",
			Quota:   true, // as the line may be that runs again
			Summary: "run a line of the history again",
			Help:    "The history then shows that line in place of the redo.",
			Example: "redo 3",
			Params:  []commands.Param{{Name: "cmdno", Kind: commands.LineNumber}},
			Offline: true, Aside: true, Flags: commands.NoFlags(s.redo),
		},
		{
			Name: "printwatches", Group: group, Args: "on|off|short",
			Summary: "tell whether events are printed, or turn that on or off; short is one line each",
			Example: "printwatches off",
			Params:  []commands.Param{{Name: "on|off|short", Kind: commands.Choice, Words: []string{"on", "off", "short"}, Optional: true}},
			Offline: true, Aside: true, Flags: commands.NoFlags(s.printwatches),
		},
		{
			Name: "quit", Aliases: []string{"exit"}, Group: group,
			Summary: "close the session and leave",
			Example: "quit",
			Offline: true, Aside: true, Flags: commands.NoFlags(func(context.Context, *commands.Env, []string) error { return errQuit }),
		},
	}
}

// shownLines is how many lines history prints unless told otherwise, itself included, as
// zkCli does.
const shownLines = 11

func (s *Shell) history(_ context.Context, env *commands.Env, args []string) error {
	count := shownLines
	if len(args) > 0 {
		var err error
		if count, err = strconv.Atoi(args[0]); err != nil || count < 1 {
			return commands.Misuse("%q is no number of lines", args[0])
		}
	}
	last := s.lines.Last(count)
	var words strings.Builder
	g := render.Grid{Header: []string{"number", "line"}}
	for i := range last {
		last[i].Line = history.Redacted(last[i].Line)
		fmt.Fprintf(&words, "%d - %s\n", last[i].Number, last[i].Line)
		g.Rows = append(g.Rows, []string{strconv.Itoa(last[i].Number), last[i].Line})
	}
	return env.Screen.Print(render.Answer{Words: words.String(), Grid: g, JSON: last})
}

func (s *Shell) redo(ctx context.Context, env *commands.Env, args []string) error {
	n, err := javaDecode(args[0])
	if err != nil {
		return commands.Misuse("%q is no number of a line", args[0])
	}
	line, ok := s.lines.Get(n)
	if !ok || n >= s.number {
		return errors.New("Command index out of range")
	}
	command, _, _ := cutOutlet(line)
	if words, err := split(command); err == nil && len(words) > 0 && words[0].Text == "redo" {
		return errors.New("No redoing redos")
	}
	s.lines.Replace(s.number, line)
	s.policy.redoing(line)
	_, err = s.runText(ctx, env, line)
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

// eventForm is how events are printed, as printwatches names it.
type eventForm int32

const (
	eventsOff eventForm = iota
	eventsOn
	eventsShort
)

var eventForms = []string{"off", "on", "short"}

// printwatches shows or drops first what came in under the old setting.
func (s *Shell) printwatches(_ context.Context, env *commands.Env, args []string) error {
	var words string
	if len(args) == 0 {
		words = "printwatches is " + eventForms[s.watches.Load()] + "\n"
	} else {
		if err := s.showEvents(); err != nil {
			return err
		}
		s.watches.Store(int32(slices.Index(eventForms, strings.ToLower(args[0]))))
	}
	var facts any = "short"
	if form := eventForm(s.watches.Load()); form != eventsShort {
		facts = form == eventsOn
	}
	return env.Screen.Print(render.Answer{Words: words, JSON: render.Facts{"printwatches", facts}})
}

// help lists the commands or explains one.
func (s *Shell) help(_ context.Context, env *commands.Env, args []string) error {
	if len(args) == 0 {
		return env.Screen.Print(overview(s.registry.All()))
	}
	if c := s.registry.Find(args[0]); c != nil {
		return env.Screen.Print(manual{c, s.cfg.Topics[c.Name]})
	}
	if found := s.registry.About(args[0]); len(found) > 0 {
		return env.Screen.Print(overview(found))
	}
	return unknownCommand{args[0], s.registry.Hint(args[0])}
}

// overview is the answer of help: a heading for each group, whose commands are
// registered one after the other, and a line for each command.
type overview []*commands.Command

// Text has all the lines as wide as they are.
func (o overview) Text(w io.Writer) error { return o.FitText(w, 0) }

// FitText is part of render.Fitter.
func (o overview) FitText(w io.Writer, columns int) error {
	width := 0
	for _, c := range o {
		width = max(width, len(names(c)))
	}
	var b strings.Builder
	group := ""
	for _, c := range o {
		if c.Group != group {
			group = c.Group
			b.WriteString(group + "\n")
		}
		fmt.Fprintf(&b, "  %-*s  %s\n", width, names(c), c.Summary)
	}
	b.WriteString("\n" + render.Wrap("help COMMAND explains one, and so does COMMAND --help. Blanks separate words; \"…\" and '…' keep them, "+
		"and $'…' also takes \\n \\t \\' \\\\ \\xHH \\uHHHH.", commands.HelpWidthIn(columns), "") + "\n")
	_, err := io.WriteString(w, render.WrapText(b.String(), columns))
	return err
}

// MarshalJSON gives what help says of each.
func (o overview) MarshalJSON() ([]byte, error) {
	manuals := []manual{}
	for _, c := range o {
		manuals = append(manuals, manual{c: c})
	}
	return render.Marshal(manuals)
}

func names(c *commands.Command) string {
	return strings.Join(append([]string{c.Name}, c.Aliases...), ", ")
}

// manual is the answer of help COMMAND.
type manual struct {
	c     *commands.Command
	topic string // more than its own help; may be empty
}

// Text has the usage, what it does, its flags and an example.
func (m manual) Text(w io.Writer) error { return m.FitText(w, 0) }

// FitText is part of render.Fitter. On a wide terminal the lines are no longer than
// elsewhere, but for those that are one piece.
func (m manual) FitText(w io.Writer, columns int) error {
	width := commands.HelpWidthIn(columns)
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  %s\n", m.c.Usage(), m.c.Summary)
	if len(m.c.Aliases) > 0 {
		fmt.Fprintf(&b, "  also: %s\n", strings.Join(m.c.Aliases, ", "))
	}
	if m.c.Help != "" {
		fmt.Fprintf(&b, "\n%s\n", render.Wrap(strings.Join(strings.Fields(m.c.Help), " "), width, ""))
	}
	if usages := m.c.FlagSet().FlagUsagesWrapped(width); usages != "" {
		b.WriteString("\nFlags\n" + usages)
	}
	fmt.Fprintf(&b, "\nExample\n  %s\n", m.c.Example)
	if m.topic != "" {
		b.WriteString("\n" + render.WrapText(m.topic, width))
	}
	_, err := io.WriteString(w, render.WrapText(b.String(), columns))
	return err
}

// MarshalJSON gives the same facts.
func (m manual) MarshalJSON() ([]byte, error) {
	type flag struct {
		Short string `json:"short,omitempty"`
		Long  string `json:"long"`
		Usage string `json:"usage"`
	}
	flags := []flag{}
	m.c.FlagSet().VisitAll(func(f *pflag.Flag) { flags = append(flags, flag{f.Shorthand, f.Name, f.Usage}) })
	return render.Marshal(struct {
		Name    string   `json:"name"`
		Aliases []string `json:"aliases,omitempty"`
		Group   string   `json:"group"`
		Usage   string   `json:"usage"`
		Summary string   `json:"summary"`
		Help    string   `json:"help,omitempty"`
		Example string   `json:"example"`
		Flags   []flag   `json:"flags"`
		Topic   string   `json:"topic,omitempty"`
	}{m.c.Name, m.c.Aliases, m.c.Group, m.c.Usage(), m.c.Summary, m.c.Help, m.c.Example, flags, m.topic})
}
