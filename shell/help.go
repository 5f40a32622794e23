package shell

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/shell/exit"
	"github.com/zksh/zksh/shell/manual"
)

// help lists the commands and the topics of the manual, explains one, or lists those about a
// word.
func (s *Shell) help(fs *pflag.FlagSet) commands.Run {
	pages := fs.BoolP("topic", "t", false, "print the manual page with that name, even if a command has the same name")
	return func(_ context.Context, env *commands.Env, args []string) error {
		o := overview{topics: manual.Pages()}
		if len(args) == 0 {
			if !*pages {
				o.commands = s.registry.All()
			}
			return env.Screen.Print(o)
		}
		name := args[0]
		if c := s.registry.Find(name); c != nil && !*pages {
			topic := topicOf(c)
			return env.Screen.Print(commandHelp{c, topic, Reference(s.registry, topic)})
		}
		if p := manual.Find(name); p != nil {
			return env.Screen.Print(manualPage{p, s.registry})
		}
		if o = s.search(name, *pages); o.empty() {
			var topics []string
			for _, p := range manual.Pages() {
				topics = append(topics, p.Topic)
			}
			return exit.UnknownCommand{Name: name, Hint: s.registry.Hint(name, topics...)}
		}
		return env.Screen.Print(o)
	}
}

// search lists the commands and the topics that a word is about, or only topics, and names those
// that mention it. If it is about none, it lists those.
func (s *Shell) search(word string, topicsOnly bool) overview {
	var o, mention overview
	o.topics, mention.topics = manual.About(word)
	if !topicsOnly {
		o.commands, mention.commands = s.registry.About(word)
	}
	if o.empty() {
		return mention
	}
	for _, c := range mention.commands {
		o.alsoCommands = append(o.alsoCommands, c.Name)
	}
	for _, p := range mention.topics {
		o.alsoTopics = append(o.alsoTopics, p.Topic)
	}
	return o
}

// isHelp reports whether a value is an answer of help, which has a pager of its own.
func isHelp(v render.Value) bool {
	switch v.(type) {
	case overview, manualPage, commandHelp:
		return true
	}
	return false
}

// topics names the pages that commands belong to, besides those that have their own name.
var topics = map[string]string{
	"configuration": "config connect",
	"keyboard":      "cd clear edit history pwd redo",
	"dumps":         "export import log",
	"locks":         "lock revoke rlock unlock wlock",
	"queues":        "session",
	"scripts":       "echo source",
	"security":      "addauth getAcl setAcl whoami",
	"transactions":  "abort begin check commit",
	"trees":         "cp deleteall diff du find getAllChildrenNumber mirror mv rmr tree",
	"waiting":       "addWatch printwatches removewatches wait watch",
}

// topicOf returns the topic that a command belongs to, or "".
func topicOf(c *commands.Command) string {
	if manual.Find(c.Name) != nil {
		return c.Name
	}
	for topic, names := range topics {
		if slices.Contains(strings.Fields(names), c.Name) {
			return topic
		}
	}
	return ""
}

// Reference returns the line that prints the page of a topic; "" is no topic.
func Reference(r *commands.Registry, topic string) string {
	switch {
	case topic == "":
		return ""
	case r.Find(topic) != nil:
		return "help -t " + topic
	}
	return "help " + topic
}

// helpNames proposes commands and topics. After a flag, which is -t, it proposes topics alone.
func (c *completer) helpNames(p *partial) choices {
	var list []choice
	found := choices{}
	if len(p.words) < 2 {
		found = c.commandNames(p)
	}
	for _, page := range manual.Pages() {
		if len(p.words) > 1 || c.registry.Find(page.Topic) == nil {
			list = append(list, choice{word: page.Topic, about: page.Summary})
		}
	}
	found.list = append(found.list, fitting(p.text, list).list...)
	return found
}

// An overview lists commands, then topics: a heading for each group and a line for each entry.
// The commands of a group follow one another.
type overview struct {
	commands []*commands.Command
	topics   []*manual.Page

	alsoCommands, alsoTopics []string // names of those that only have the word in their text
}

var _ render.Fitter = overview{}

func (o overview) empty() bool { return len(o.commands)+len(o.topics) == 0 }

// Text writes the list without wrapping lines.
func (o overview) Text(w io.Writer) error { return o.FitText(w, 0) }

// FitText writes the list for a terminal of that many columns.
func (o overview) FitText(w io.Writer, columns int) error {
	width := 0
	for _, c := range o.commands {
		width = max(width, len(names(c)))
	}
	for _, p := range o.topics {
		width = max(width, len(p.Topic))
	}
	var b strings.Builder
	group := ""
	line := func(of, name, about string) {
		if of != group {
			group = of
			b.WriteString(group + "\n")
		}
		fmt.Fprintf(&b, "  %-*s  %s\n", width, name, about)
	}
	for _, c := range o.commands {
		line(c.Group, names(c), c.Summary)
	}
	for _, p := range o.topics {
		line("Topics of the manual", p.Topic, p.Summary)
	}
	also := func(about string, names []string) {
		if len(names) > 0 {
			b.WriteString(render.Wrap(about+" that mention it: "+strings.Join(names, ", "), commands.HelpWidthIn(columns), "  ") + "\n")
		}
	}
	also("Other commands", o.alsoCommands)
	also("Other topics", o.alsoTopics)
	b.WriteString("\n" + render.Wrap("help COMMAND and COMMAND --help explain a command, and help TOPIC prints a page of the manual. "+
		"Spaces separate words, unless they are in \"…\" or '…'. $'…' also accepts \\n \\t \\' \\\\ \\xHH \\uHHHH.", commands.HelpWidthIn(columns), "") + "\n")
	_, err := io.WriteString(w, render.WrapText(b.String(), columns))
	return err
}

// MarshalJSON returns the help of each command, and the summary of each topic.
func (o overview) MarshalJSON() ([]byte, error) {
	all := []any{}
	for _, c := range o.commands {
		all = append(all, commandHelp{c: c, topic: topicOf(c)})
	}
	for _, p := range o.topics {
		all = append(all, render.Facts{"topic", p.Topic, "title", p.Title, "summary", p.Summary})
	}
	return render.Marshal(all)
}

// A manualPage is a page of the manual.
type manualPage struct {
	page     *manual.Page
	registry *commands.Registry
}

var _ render.Styled = manualPage{}

// Text writes the page for a terminal of the usual width.
func (m manualPage) Text(w io.Writer) error { return m.StyledText(w, 0, nil) }

// StyledText writes the page for a terminal of that many columns. Lines of text are never
// longer than on a terminal of the usual width.
func (m manualPage) StyledText(w io.Writer, columns int, bold func(string) string) error {
	_, err := io.WriteString(w, m.page.Text(m.layout(columns, bold)))
	return err
}

func (m manualPage) layout(columns int, bold func(string) string) manual.Layout {
	refer := func(topic string) string { return Reference(m.registry, topic) }
	return manual.Layout{Columns: commands.HelpWidthIn(columns), Bold: bold, Refer: refer}
}

// MarshalJSON returns the text as it is written to a file.
func (m manualPage) MarshalJSON() ([]byte, error) {
	return render.Facts{"topic", m.page.Topic, "title", m.page.Title, "text", m.page.Text(m.layout(0, nil))}.MarshalJSON()
}

func names(c *commands.Command) string {
	return strings.Join(append([]string{c.Name}, c.Aliases...), ", ")
}

// commandHelp is the help of one command.
type commandHelp struct {
	c     *commands.Command
	topic string // of the manual; may be empty
	more  string // the line that prints its page; may be empty
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
	if h.more != "" {
		fmt.Fprintf(&b, "\nMore: %s\n", h.more)
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
