package shell

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
)

// help lists the commands or explains one.
func (s *Shell) help(_ context.Context, env *commands.Env, args []string) error {
	if len(args) == 0 {
		return env.Screen.Print(overview{s.registry})
	}
	c := s.registry.Find(args[0])
	if c == nil {
		return unknownCommand{args[0], s.registry.Hint(args[0])}
	}
	return env.Screen.Print(manual{c})
}

// overview is the answer of help: the commands by group.
type overview struct{ registry *commands.Registry }

// Text has a heading for each group and a line for each command.
func (o overview) Text(w io.Writer) error {
	width := 0
	groups := map[string][]*commands.Command{}
	var order []string
	for _, c := range o.registry.All() {
		width = max(width, len(names(c)))
		if groups[c.Group] == nil {
			order = append(order, c.Group)
		}
		groups[c.Group] = append(groups[c.Group], c)
	}
	var b strings.Builder
	for _, g := range order {
		b.WriteString(g + "\n")
		for _, c := range groups[g] {
			fmt.Fprintf(&b, "  %-*s  %s\n", width, names(c), c.Summary)
		}
	}
	b.WriteString("\nhelp COMMAND explains one, and so does COMMAND --help. Blanks separate words; \"…\" and '…' keep them,\n" +
		"and $'…' also takes \\n \\t \\' \\\\ \\xHH \\uHHHH.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func names(c *commands.Command) string {
	return strings.Join(append([]string{c.Name}, c.Aliases...), ", ")
}

// MarshalJSON lists the manuals.
func (o overview) MarshalJSON() ([]byte, error) {
	all := []manual{}
	for _, c := range o.registry.All() {
		all = append(all, manual{c})
	}
	return render.Marshal(all)
}

// manual is the answer of help COMMAND.
type manual struct{ c *commands.Command }

// Text has the usage, what it does, its flags and an example.
func (m manual) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  %s\n", m.c.Usage(), m.c.Summary)
	if len(m.c.Aliases) > 0 {
		fmt.Fprintf(&b, "  also: %s\n", strings.Join(m.c.Aliases, ", "))
	}
	if m.c.Help != "" {
		fmt.Fprintf(&b, "\n%s\n", wrap(m.c.Help))
	}
	if usages := m.c.FlagSet().FlagUsagesWrapped(commands.HelpWidth); usages != "" {
		b.WriteString("\nFlags\n" + usages)
	}
	fmt.Fprintf(&b, "\nExample\n  %s\n", m.c.Example)
	_, err := io.WriteString(w, b.String())
	return err
}

// wrap breaks a paragraph into lines.
func wrap(text string) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		n := len([]rune(word))
		switch {
		case column == 0:
		case column+1+n > commands.HelpWidth:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// MarshalJSON gives the same facts.
func (m manual) MarshalJSON() ([]byte, error) {
	type flag struct {
		Short string `json:"short,omitempty"`
		Long  string `json:"long"`
		Usage string `json:"usage"`
	}
	flags := []flag{}
	for _, f := range flagsOf(m.c) {
		flags = append(flags, flag{f.Shorthand, f.Name, f.Usage})
	}
	return render.Marshal(struct {
		Name    string   `json:"name"`
		Aliases []string `json:"aliases,omitempty"`
		Group   string   `json:"group"`
		Usage   string   `json:"usage"`
		Summary string   `json:"summary"`
		Help    string   `json:"help,omitempty"`
		Example string   `json:"example"`
		Flags   []flag   `json:"flags"`
	}{m.c.Name, m.c.Aliases, m.c.Group, m.c.Usage(), m.c.Summary, m.c.Help, m.c.Example, flags})
}
