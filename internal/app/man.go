package app

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/shell"
	"github.com/zksh/zksh/shell/manual"
)

// variables lists the environment variables that zksh reads, and those that it sets for the
// programs that it runs.
var variables = []struct{ name, about string }{
	{"ZKSH_SERVER", "the servers, instead of those in the configuration file"},
	{"ZK_HOST", "Solr's variable for the servers, which zksh reads if ZKSH_SERVER is not set"},
	{"XDG_CONFIG_HOME", "the folder of zksh/config, instead of ~/.config; ignored unless it is an absolute path"},
	{"XDG_STATE_HOME", "the folder of zksh/history, zksh/undo and zksh/sandbox, instead of ~/.local/state; " +
		"ignored unless it is an absolute path"},
	{"ZKSH_KEYSTORE_PASSWORD, ZKSH_TRUSTSTORE_PASSWORD",
		"the passwords of the stores given by --key, --cert and --cacert"},
	{"PAGER", "the program that shows output that is longer than the screen"},
	{"VISUAL, EDITOR", "the editor that the edit command starts"},
	{"NO_COLOR", "if this is set, zksh uses no colour"},
	{"TERM", "if this is dumb, zksh offers no line editing, completion, colour or default pager"},
	{"ZK_LOCK_PATH, ZK_LOCK_NODE, ZK_LOCK_TOKEN", "set for a program that runs under a lock: the path of the lock, " +
		"its znode and its fencing token"},
	{"ZK_LOCK_SESSION, ZK_LOCK_MODE, ZK_LOCK_HELD", "set for such a program: the session that holds the lock, " +
		"the kind of the lock, and all locks that parent processes hold"},
	{"ZK_LOCK_FENCE", "set for such a program: the locks without which no zksh below it writes; each line contains " +
		"the servers, the path of the lock's znode, and data that identifies the ensemble; zksh also reads this " +
		"variable, unless --no-fence is given"},
	{"ZK_EVENT, ZK_PATH, ZK_VERSION", "set for a program that watch runs: the event, the path and the version"},
}

// userFiles lists the files of the user that zksh writes, or reads by default.
var userFiles = []struct{ name, about string }{
	{"~/.config/zksh/config", "the configuration"},
	{"~/.local/state/zksh/history", "the lines that were typed, without those that contain credentials; " +
		"only the user can read this file"},
	{"~/.local/state/zksh/undo", "the undo log, which saves overwritten and deleted znodes; only the user can read it"},
	{"~/.local/state/zksh/sandbox", "the file through which shells with a sandbox find each other; " +
		"only the user can read it"},
}

// A roff is a document in the input format of groff and mandoc, with the macros of man(7).
type roff struct{ strings.Builder }

// manPage returns the source of the manual page zksh(1).
func manPage(version string, registry *commands.Registry) string {
	var r roff
	fmt.Fprintf(&r, ".TH ZKSH 1 \"\" \"zksh %s\" \"User Commands\"\n", manual.EscapeRoff(version))
	r.section("NAME")
	r.text(`zksh - a shell for ZooKeeper`)
	r.section("SYNOPSIS")
	forms := []string{"[options] [@cluster] [command args…]"}
	for _, p := range pages {
		forms = append(forms, p.usage())
	}
	for i, form := range forms {
		if i > 0 {
			r.WriteString(".br\n")
		}
		fmt.Fprintf(&r, ".B zksh\n%s\n", manual.EscapeRoff(form))
	}
	r.section("DESCRIPTION")
	r.text("With a command, zksh runs that command. Otherwise, it reads commands from a file, a pipe or the " +
		"keyboard. It has the commands of zkCli and more. Options come before the command. Long options can have one " +
		"dash or two.")
	for _, p := range pages {
		r.entry("zksh "+p.usage(), p.about)
	}
	refer := func(topic string) string { return shell.Reference(registry, topic) }
	page := func(topic string) {
		if p := manual.Find(topic); p != nil {
			r.WriteString(p.Roff(false, refer))
		}
	}
	r.section("OPTIONS")
	page("options")
	for _, o := range AllOptions() {
		r.entry(o.Name, o.About)
	}
	r.section("COMMANDS")
	page("commands")
	group := ""
	for _, c := range registry.All() {
		if c.Group != group {
			group = c.Group
			fmt.Fprintf(&r, ".SS %s\n", manual.EscapeRoff(group))
		}
		r.command(c)
	}
	for _, p := range manual.Pages() {
		if !slices.Contains([]string{"options", "commands", "statuses"}, p.Topic) {
			r.WriteString(p.Roff(true, refer))
		}
	}
	r.section("EXIT STATUS")
	page("statuses")
	for _, s := range commands.Statuses {
		r.entry(fmt.Sprint(s.Status), s.Meaning)
	}
	r.section("ENVIRONMENT")
	for _, v := range variables {
		r.entry(v.name, v.about)
	}
	r.section("FILES")
	for _, f := range userFiles {
		r.entry(f.name, f.about)
	}
	text := r.String()
	title, rest, _ := strings.Cut(text, "\n")
	return title + "\n" + fallbacks(text) + rest
}

// rare matches the characters that groff cannot print on the device ascii: U+00B2, and all
// characters from U+2500.
var rare = regexp.MustCompile(`\\\[u(00B2|2[5-9A-F]..|[3-9A-F]...|1....)\]`)

// fallbacks returns groff definitions for the rare characters in text. They determine what groff
// prints instead on a device that lacks such a character.
func fallbacks(text string) string {
	var b strings.Builder
	known := map[string]string{`\[u00B2]`: `\(ha2`, `\[u2500]`: `\-`, `\[u251C]`: "|", `\[u2502]`: "|", `\[u2514]`: `\(ga`}
	for _, c := range slices.Compact(slices.Sorted(slices.Values(rare.FindAllString(text, -1)))) {
		other := "?"
		if strings.HasPrefix(c, `\[u258`) { // a block character, which bar charts use
			other = "#"
		}
		fmt.Fprintf(&b, ".fchar %s %s\n", c, cmp.Or(known[c], other))
	}
	return b.String()
}

func (r *roff) section(name string) { fmt.Fprintf(r, ".SH %s\n", name) }

// text writes a paragraph.
func (r *roff) text(text string) { fmt.Fprintf(r, "%s\n", manual.EscapeRoff(text)) }

// entry writes word as a term in bold, and its description about below it.
func (r *roff) entry(word, about string) {
	fmt.Fprintf(r, ".TP\n\\fB%s\\fR\n%s\n", manual.EscapeRoff(word), manual.EscapeRoff(about))
}

// literal writes lines that groff prints as they are, without joining them to a paragraph.
func (r *roff) literal(text string) {
	r.WriteString(".nf\n")
	for line := range strings.Lines(text) {
		r.text(strings.TrimRight(line, "\n"))
	}
	r.WriteString(".fi\n")
}

// An Option describes an option of the program or a flag of a command in documents.
type Option struct {
	Name  string // short form, long form and value, such as "-f, --file file"
	About string // description, followed by the default value
}

// AllOptions returns the descriptions of all options of the program.
func AllOptions() []Option {
	o := defaults()
	set, _ := declare(&o)
	return options(set)
}

func options(set *pflag.FlagSet) (list []Option) {
	set.VisitAll(func(f *pflag.Flag) {
		list = append(list, describe(f, func(usage string) string { return usage }))
	})
	return list
}

// describe returns the description of an option, with its short form, its value and its default. It
// applies the function shorten to the usage text.
func describe(f *pflag.Flag, shorten func(usage string) string) Option {
	value, usage := pflag.UnquoteUsage(f)
	name, about := "--"+f.Name, shorten(usage)
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	if value != "" {
		name += " " + value
	}
	if !slices.Contains([]string{"", "false", "0", "[]"}, f.DefValue) {
		about += " (default " + f.DefValue + ")"
	}
	return Option{name, about}
}

func (r *roff) command(c *commands.Command) {
	summary := c.Summary
	if len(c.Aliases) > 0 {
		summary += "; also: " + strings.Join(c.Aliases, ", ")
	}
	r.entry(c.Usage(), summary)
	if set := c.FlagSet(); set.HasFlags() {
		r.WriteString(".RS\n")
		for _, o := range options(set) {
			r.entry(o.Name, o.About)
		}
		r.WriteString(".RE\n")
	}
	r.WriteString(".IP\n")
	for _, paragraph := range c.Paragraphs() {
		r.text(paragraph)
		r.WriteString(".IP\n")
	}
	if len(c.Limits) > 0 {
		r.literal("Limits:")
	}
	for _, limit := range c.Limits {
		fmt.Fprintf(r, ".IP \\(bu 2\n%s\n", manual.EscapeRoff(limit))
	}
	if len(c.Limits) > 0 {
		r.WriteString(".IP\n")
	}
	r.literal("Examples:\n" + strings.Join(c.Examples, "\n"))
}
