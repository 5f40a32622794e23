package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
)

// variables are what zksh takes from its environment, and gives to programs.
var variables = []struct{ name, about string }{
	{"ZKSH_SERVER", "the servers, instead of those of the configuration file"},
	{"XDG_CONFIG_HOME", "the folder of zksh/config, instead of ~/.config"},
	{"XDG_STATE_HOME", "the folder of zksh/history, zksh/undo and zksh/sandbox, instead of ~/.local/state"},
	{"ZKSH_KEYSTORE_PASSWORD, ZKSH_TRUSTSTORE_PASSWORD", "the passwords of the stores that --key, --cert and --cacert name"},
	{"PAGER", "the program that shows answers longer than the screen"},
	{"VISUAL, EDITOR", "the editor of the command edit"},
	{"NO_COLOR", "if it is set, zksh uses no colour"},
	{"TERM", "if it is dumb, zksh reads lines without editing, completion and colour"},
	{"ZK_LOCK_PATH, ZK_LOCK_NODE, ZK_LOCK_TOKEN", "set for a program that runs under a lock: the path of the lock, its znode and its fencing token"},
	{"ZK_LOCK_SESSION, ZK_LOCK_MODE, ZK_LOCK_HELD", "set for such a program: the session that holds the lock, its kind, and all locks that parent processes hold"},
	{"ZK_LOCK_FENCE", "set for such a program: the locks without which no zksh below it writes, one per line: the servers, the path of the " +
		"lock's znode, and data that identifies the ensemble; zksh reads it, too; --no-fence ignores it"},
	{"ZK_EVENT, ZK_PATH, ZK_VERSION", "set for a program that watch runs: the event, the path and the version"},
}

// userFiles are those that zksh keeps, or reads unasked.
var userFiles = []struct{ name, about string }{
	{"~/.config/zksh/config", "the configuration"},
	{"~/.local/state/zksh/history", "the typed lines, without those that have credentials; only the user can read it"},
	{"~/.local/state/zksh/undo", "the undo log: saved data that commands destroyed; only the user can read it"},
	{"~/.local/state/zksh/sandbox", "where shells with a sandbox find each other; only the user can read it"},
}

// roff is text for groff and mandoc, with the macros of man(7).
type roff struct{ strings.Builder }

// manual is zksh(1).
func manual(version string, registry *commands.Registry) string {
	var r roff
	fmt.Fprintf(&r, ".TH ZKSH 1 \"\" \"zksh %s\" \"User Commands\"\n", inRoff(version))
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
		fmt.Fprintf(&r, ".B zksh\n%s\n", inRoff(form))
	}
	r.section("DESCRIPTION")
	r.text("With a command zksh runs that one, else it reads commands from a file, a pipe or the keyboard. They are zkCli's, and more." +
		" Options end at the first word of the command; long ones may have one dash or two.")
	for _, p := range pages {
		r.entry("zksh "+p.usage(), p.about)
	}
	r.section("OPTIONS")
	o := defaults()
	set, _ := declare(&o)
	r.flags(set)
	r.section("COMMANDS")
	group := ""
	for _, c := range registry.All() {
		if c.Group != group {
			group = c.Group
			fmt.Fprintf(&r, ".SS %s\n", inRoff(group))
		}
		r.command(c)
	}
	r.section("CONFIGURATION")
	r.literal(ConfigHelp())
	r.section("EXIT STATUS")
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
	return r.String()
}

func (r *roff) section(name string) { fmt.Fprintf(r, ".SH %s\n", name) }

// text is a paragraph.
func (r *roff) text(text string) { fmt.Fprintf(r, "%s\n", inRoff(text)) }

// entry is a word with what it is about.
func (r *roff) entry(word, about string) {
	fmt.Fprintf(r, ".TP\n\\fB%s\\fR\n%s\n", inRoff(word), inRoff(about))
}

// literal keeps lines as they are.
func (r *roff) literal(text string) {
	r.WriteString(".nf\n")
	for line := range strings.Lines(text) {
		r.text(strings.TrimRight(line, "\n"))
	}
	r.WriteString(".fi\n")
}

func (r *roff) flags(set *pflag.FlagSet) {
	set.VisitAll(func(f *pflag.Flag) {
		value, about := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if value != "" {
			name += " " + value
		}
		if !slices.Contains([]string{"", "false", "0", "[]"}, f.DefValue) {
			about += " (default " + f.DefValue + ")"
		}
		r.entry(name, about)
	})
}

func (r *roff) command(c *commands.Command) {
	summary := c.Summary
	if len(c.Aliases) > 0 {
		summary += "; also: " + strings.Join(c.Aliases, ", ")
	}
	r.entry(c.Usage(), summary)
	if set := c.FlagSet(); set.HasFlags() {
		r.WriteString(".RS\n")
		r.flags(set)
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
		fmt.Fprintf(r, ".IP \\(bu 2\n%s\n", inRoff(limit))
	}
	if len(c.Limits) > 0 {
		r.WriteString(".IP\n")
	}
	r.literal("Examples:\n" + strings.Join(c.Examples, "\n"))
}

// inRoff is text that roff prints as it is: also a dash, or a quote, which may be typed.
func inRoff(text string) string {
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			b.WriteString(`\&`)
		}
		for _, c := range line {
			switch known := roffNames[c]; {
			case known != "":
				b.WriteString(known)
			case c > '~':
				fmt.Fprintf(&b, `\[u%04X]`, c)
			default:
				b.WriteRune(c)
			}
		}
	}
	return b.String()
}

// roffNames are how roff has characters that mean something to it, or that it would print
// as others.
var roffNames = map[rune]string{'\\': `\e`, '-': `\-`, '\'': `\(aq`, '`': `\(ga`, '^': `\(ha`, '~': `\(ti`, '…': "..."}
