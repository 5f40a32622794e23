package shell

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
)

// help lists the commands, explains one, or lists those about a word.
func (s *Shell) help(_ context.Context, env *commands.Env, args []string) error {
	if len(args) == 0 {
		return env.Screen.Print(overview(s.registry.All()))
	}
	if c := s.registry.Find(args[0]); c != nil {
		return env.Screen.Print(commandHelp{c, s.cfg.Topics[c.Name]})
	}
	if found := s.registry.About(args[0]); len(found) > 0 {
		return env.Screen.Print(overview(found))
	}
	return unknownCommand{args[0], s.registry.Hint(args[0])}
}

// An overview lists commands: a heading for each group and a line for each command.
// The commands of a group follow one another.
type overview []*commands.Command

var _ render.Fitter = overview(nil)

// Text writes the list without wrapping lines.
func (o overview) Text(w io.Writer) error { return o.FitText(w, 0) }

// FitText writes the list for a terminal of that many columns.
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

// MarshalJSON returns the help of each command.
func (o overview) MarshalJSON() ([]byte, error) {
	all := []commandHelp{}
	for _, c := range o {
		all = append(all, commandHelp{c: c})
	}
	return render.Marshal(all)
}

func names(c *commands.Command) string {
	return strings.Join(append([]string{c.Name}, c.Aliases...), ", ")
}

// commandHelp is the help of one command.
type commandHelp struct {
	c     *commands.Command
	topic string // more text, printed last; may be empty
}

var _ render.Fitter = commandHelp{}

// Text writes the help for a terminal of the usual width.
func (h commandHelp) Text(w io.Writer) error { return h.FitText(w, 0) }

// FitText writes the help for a terminal of that many columns. Lines of text are never
// longer than on a terminal of the usual width.
func (h commandHelp) FitText(w io.Writer, columns int) error {
	width := commands.HelpWidthIn(columns)
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  %s\n", h.c.Usage(), h.c.Summary)
	if len(h.c.Aliases) > 0 {
		fmt.Fprintf(&b, "  also: %s\n", strings.Join(h.c.Aliases, ", "))
	}
	for _, paragraph := range h.c.Paragraphs() {
		fmt.Fprintf(&b, "\n%s\n", render.Wrap(paragraph, width, ""))
	}
	if usages := h.c.FlagSet().FlagUsagesWrapped(width); usages != "" {
		b.WriteString("\nFlags\n" + usages)
	}
	b.WriteString("\nExamples\n")
	for _, example := range h.c.Examples {
		fmt.Fprintf(&b, "  %s\n", example)
	}
	if len(h.c.Limits) > 0 {
		b.WriteString("\nLimits\n")
	}
	for _, limit := range h.c.Limits {
		fmt.Fprintf(&b, "  - %s\n", render.Wrap(limit, width-4, "    "))
	}
	if h.topic != "" {
		b.WriteString("\n" + render.WrapText(h.topic, width))
	}
	_, err := io.WriteString(w, render.WrapText(b.String(), columns))
	return err
}

// MarshalJSON returns the same facts.
func (h commandHelp) MarshalJSON() ([]byte, error) {
	type flag struct {
		Short string `json:"short,omitempty"`
		Long  string `json:"long"`
		Usage string `json:"usage"`
	}
	flags := []flag{}
	h.c.FlagSet().VisitAll(func(f *pflag.Flag) { flags = append(flags, flag{f.Shorthand, f.Name, f.Usage}) })
	return render.Marshal(struct {
		Name     string   `json:"name"`
		Aliases  []string `json:"aliases,omitempty"`
		Group    string   `json:"group"`
		Usage    string   `json:"usage"`
		Summary  string   `json:"summary"`
		Help     string   `json:"help,omitempty"`
		Example  string   `json:"example"`
		Examples []string `json:"examples"`
		Limits   []string `json:"limits,omitempty"`
		Flags    []flag   `json:"flags"`
		Topic    string   `json:"topic,omitempty"`
	}{h.c.Name, h.c.Aliases, h.c.Group, h.c.Usage(), h.c.Summary, strings.Join(h.c.Paragraphs(), "\n\n"), h.c.Examples[0], h.c.Examples, h.c.Limits, flags, h.topic})
}
