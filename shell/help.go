package shell

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
)

// help lists the commands or explains one.
func (s *Shell) help(_ context.Context, env *commands.Env, args []string) error {
	if len(args) == 0 {
		return env.Screen.Print(overview(s.registry))
	}
	c := s.registry.Find(args[0])
	if c == nil {
		return unknownCommand{args[0], s.registry.Hint(args[0])}
	}
	return env.Screen.Print(manual{c})
}

// overview is the answer of help: a heading for each group, whose commands are
// registered one after the other, and a line for each command.
func overview(r *commands.Registry) render.Answer {
	width := 0
	manuals := []manual{}
	for _, c := range r.All() {
		width = max(width, len(names(c)))
		manuals = append(manuals, manual{c})
	}
	var b strings.Builder
	group := ""
	for _, c := range r.All() {
		if c.Group != group {
			group = c.Group
			b.WriteString(group + "\n")
		}
		fmt.Fprintf(&b, "  %-*s  %s\n", width, names(c), c.Summary)
	}
	b.WriteString("\nhelp COMMAND explains one, and so does COMMAND --help. Blanks separate words; \"…\" and '…' keep them,\n" +
		"and $'…' also takes \\n \\t \\' \\\\ \\xHH \\uHHHH.\n")
	return render.Answer{Words: b.String(), JSON: manuals}
}

func names(c *commands.Command) string {
	return strings.Join(append([]string{c.Name}, c.Aliases...), ", ")
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
	var lines []string
	for word := range strings.FieldsSeq(text) {
		if n := len(lines); n > 0 && utf8.RuneCountInString(lines[n-1]+" "+word) <= commands.HelpWidth {
			lines[n-1] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return strings.Join(lines, "\n")
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
	}{m.c.Name, m.c.Aliases, m.c.Group, m.c.Usage(), m.c.Summary, m.c.Help, m.c.Example, flags})
}
