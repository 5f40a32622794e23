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

// help defines the flags of the help command and returns the function that runs it.
func (s *Shell) help(fs *pflag.FlagSet) commands.Run {
	topicsOnly := fs.BoolP("topic", "t", false, "print the manual page with that name, "+
		"even if a command has the same name")
	return func(_ context.Context, env *commands.Env, args []string) error {
		name := ""
		if len(args) > 0 {
			name = args[0]
		}
		switch {
		case name == "" && *topicsOnly:
			return env.Screen.Print(overview{topics: manual.Pages()})
		case name == "":
			return env.Screen.Print(s.everyday())
		case name == everything && !*topicsOnly:
			return env.Screen.Print(overview{commands: s.registry.All(), topics: manual.Pages()})
		}
		if c := s.registry.Find(name); c != nil && !*topicsOnly {
			topic := topicOf(c)
			return env.Screen.Print(commandHelp{c, topic, Reference(s.registry, topic)})
		}
		if p := manual.Find(name); p != nil {
			return env.Screen.Print(manualPage{p, s.registry})
		}
		o := s.search(name, *topicsOnly)
		if o.empty() {
			var topics []string
			for _, p := range manual.Pages() {
				topics = append(topics, p.Topic)
			}
			return exit.UnknownCommand{Name: name, Hint: s.registry.Hint(name, topics...)}
		}
		return env.Screen.Print(o)
	}
}

// search returns the commands and topics that are about a word, and the names of others that only
// mention it. If no command or topic is about the word, those that mention it become the main
// result. If topicsOnly is true, search ignores commands.
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

// isHelp reports whether v is output of the help command. The pager for manuals shows such output.
func isHelp(v render.Value) bool {
	switch v.(type) {
	case everydayHelp, overview, manualPage, commandHelp:
		return true
	}
	return false
}

// topics maps each topic of the manual to the names of its commands. A command whose name is also a
// topic belongs to that topic and need not be listed.
var topics = map[string]string{
	"configuration": "config connect",
	"keyboard":      "cd clear edit history pwd redo",
	"dumps":         "export import log",
	"locks":         "lock revoke rlock unlock wlock",
	"queues":        "session",
	"scripts":       "echo source",
	"security":      "addauth digest getAcl setAcl whoami",
	"transactions":  "abort begin check commit",
	"trees":         "cp deleteall diff du find getAllChildrenNumber mirror mv rmr tree",
	"waiting":       "addWatch printwatches removewatches wait watch",
}

// topicOf returns the manual topic to which a command belongs, or an empty string if there is
// none.
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

// Reference returns the command line that prints the page of a topic, such as "help locks". It
// returns an empty string if topic is empty.
func Reference(r *commands.Registry, topic string) string {
	switch {
	case topic == "":
		return ""
	case r.Find(topic) != nil:
		return "help -t " + topic
	}
	return "help " + topic
}

// helpNames proposes names of commands and topics as arguments of help. After the flag -t, it
// proposes only topics.
func (c *completer) helpNames(p *partial) choices {
	var list []choice
	found := choices{}
	if len(p.words) < 2 {
		found = c.commandNames(p)
		list = append(list, choice{word: everything, about: "All commands and topics"})
	}
	for _, page := range manual.Pages() {
		if len(p.words) > 1 || c.registry.Find(page.Topic) == nil {
			list = append(list, choice{word: page.Topic, about: page.Summary})
		}
	}
	found.list = append(found.list, withPrefix(p.text, list).list...)
	return found
}

// everything is the argument with which help lists all commands and topics.
const everything = "all"

// everyday lists the commands that help without arguments shows.
var everyday = strings.Fields("ls get stat find create set edit delete deleteall undo watch lock unlock locks connect")

// everyday returns the output of help without arguments.
func (s *Shell) everyday() everydayHelp {
	var list everydayHelp
	for _, name := range everyday {
		list = append(list, s.registry.Find(name))
	}
	return list
}

// everydayHelp is the output of help without arguments: the commands of every day, and how to get
// more help. It fits on a screen of 80 columns and 24 lines.
type everydayHelp []*commands.Command

var _ render.Fitter = everydayHelp{}

// Text writes the list without wrapping lines.
func (h everydayHelp) Text(w io.Writer) error { return h.FitText(w, 0) }

// FitText writes the list for a terminal with the given number of columns.
func (h everydayHelp) FitText(w io.Writer, columns int) error {
	var b strings.Builder
	line := func(name, about string) { fmt.Fprintf(&b, "  %-12s  %s\n", name, about) }
	b.WriteString("Everyday commands\n")
	for _, c := range h {
		line(c.Name, c.Summary)
	}
	b.WriteString("More help\n")
	line("help "+everything, "list all commands and the topics of the manual")
	line("help COMMAND", "explain a command, for example: help lock")
	line("help TOPIC", "print a page of the manual, for example: help scripts")
	line("help WORD", "find commands and topics, for example: help quota")
	_, err := io.WriteString(w, render.WrapText(b.String(), columns))
	return err
}

// MarshalJSON returns a list with the help of each command.
func (h everydayHelp) MarshalJSON() ([]byte, error) { return overview{commands: h}.MarshalJSON() }

// An overview is a list of commands and topics, with a heading for each group and a line for each
// entry.
type overview struct {
	commands []*commands.Command // sorted by group
	topics   []*manual.Page

	alsoCommands, alsoTopics []string // names of other commands and topics that mention the searched word
}

var _ render.Fitter = overview{}

func (o overview) empty() bool { return len(o.commands)+len(o.topics) == 0 }

// Text writes the list without wrapping lines.
func (o overview) Text(w io.Writer) error { return o.FitText(w, 0) }

// FitText writes the list for a terminal with the given number of columns.
func (o overview) FitText(w io.Writer, columns int) error {
	width := 0
	for _, c := range o.commands {
		width = max(width, len(nameAndAliases(c)))
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
		line(c.Group, nameAndAliases(c), c.Summary)
	}
	for _, p := range o.topics {
		line("Topics of the manual", p.Topic, p.Summary)
	}
	also := func(about string, names []string) {
		if len(names) > 0 {
			b.WriteString(render.Wrap(about+" that mention it: "+strings.Join(names, ", "),
				commands.HelpWidthIn(columns), "  ") + "\n")
		}
	}
	also("Other commands", o.alsoCommands)
	also("Other topics", o.alsoTopics)
	b.WriteString("\n" + render.Wrap("help COMMAND and COMMAND --help explain a command, and help TOPIC prints a page "+
		"of the manual. Spaces separate words, unless they are in \"…\" or '…'. $'…' also accepts \\n \\t \\' \\\\ "+
		"\\xHH \\uHHHH.",
		commands.HelpWidthIn(columns), "") + "\n")
	_, err := io.WriteString(w, render.WrapText(b.String(), columns))
	return err
}

// MarshalJSON returns a list with the help of each command and the summary of each topic.
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

// A manualPage is the output of the help command for a topic of the manual.
type manualPage struct {
	page     *manual.Page
	registry *commands.Registry
}

var _ render.Styled = manualPage{}

// Text writes the page for a terminal of the default width.
func (m manualPage) Text(w io.Writer) error { return m.StyledText(w, 0, nil) }

// StyledText writes the page for a terminal with the given number of columns. Paragraphs are never
// wider than on a terminal of the default width.
func (m manualPage) StyledText(w io.Writer, columns int, bold func(string) string) error {
	_, err := io.WriteString(w, m.page.Text(m.layout(columns, bold)))
	return err
}

func (m manualPage) layout(columns int, bold func(string) string) manual.Layout {
	refer := func(topic string) string { return Reference(m.registry, topic) }
	return manual.Layout{Columns: commands.HelpWidthIn(columns), Bold: bold, Refer: refer}
}

// MarshalJSON returns the page as plain text, in the default width.
func (m manualPage) MarshalJSON() ([]byte, error) {
	return render.Facts{"topic", m.page.Topic, "title", m.page.Title, "text",
		m.page.Text(m.layout(0, nil))}.MarshalJSON()
}

func nameAndAliases(c *commands.Command) string {
	return strings.Join(append([]string{c.Name}, c.Aliases...), ", ")
}

// commandHelp is the help of one command.
type commandHelp struct {
	c     *commands.Command
	topic string // topic of the manual to which the command belongs, or empty if there is none
	more  string // command line that prints the page of that topic, or empty if there is none
}

var _ render.Fitter = commandHelp{}

// Text writes the help for a terminal of the default width.
func (h commandHelp) Text(w io.Writer) error { return h.FitText(w, 0) }

// FitText writes the help for a terminal with the given number of columns. Paragraphs are never
// wider than on a terminal of the default width.
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

// MarshalJSON returns a JSON object with the same content as the text.
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
	}{h.c.Name, h.c.Aliases, h.c.Group, h.c.Usage(), h.c.Summary, strings.Join(h.c.Paragraphs(), "\n\n"),
		h.c.Examples[0], h.c.Examples, h.c.Limits, flags, h.topic})
}
