package app

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
)

// optionGroups lists the names of all options in the order in which --help prints them. Each option
// belongs to one group.
var optionGroups = []struct{ heading, options string }{
	{"Connection", "server proxy timeout max-request readonly waitforconnection sandbox load listen as"},
	{"TLS and authentication", "auth-file tls cacert cert key tls-name tls-insecure client-configuration jaas " +
		"kerberos"},
	{"Commands", "file command errexit keep-going no-write yes undo no-fence output trace quiet version help"},
}

// nameWidth is the width, in characters, of the column in which --help prints the names of options.
const nameWidth = 26

// unbroken is a non-breaking space, at which render.Wrap does not wrap lines.
const unbroken = "\u00a0"

// Help returns the text of --help for a terminal with the given number of columns. 0 means that the
// output is not a terminal.
func Help(columns int) string {
	o := defaults()
	set, _ := declare(&o)
	width := commands.HelpWidthIn(columns)
	var b strings.Builder
	b.WriteString("usage: zksh [options] [@cluster] [command args…]\n")
	for _, p := range pages {
		fmt.Fprintf(&b, "       zksh %-25s %s\n", p.usage(), p.about)
	}
	b.WriteString("\n" + render.Wrap("Without a command, zksh reads commands from a file, a pipe or the keyboard."+
		" See also: zksh help, zksh help options, zksh help statuses.", width, "") + "\n\n")
	for _, g := range optionGroups {
		fmt.Fprintf(&b, "%s\n", g.heading)
		for name := range strings.FieldsSeq(g.options) {
			name, about := brief(set.Lookup(name))
			fmt.Fprintf(&b, "  %-*s  %s\n", nameWidth, name, about)
		}
	}
	var statuses []string
	for _, s := range commands.Statuses {
		statuses = append(statuses, strings.ReplaceAll(fmt.Sprintf("%d %s", s.Status, s.Brief), " ", unbroken))
	}
	list := render.Wrap("Exit status: "+strings.Join(statuses, ", "), width, "  ")
	b.WriteString(strings.ReplaceAll(list, unbroken, " ") + "\n")
	return render.WrapText(b.String(), columns)
}

// brief returns the name and the description of an option for --help. It indents the name if the
// option has no short form. The description ends at the first semicolon of the usage text, and is
// followed by the default value.
func brief(f *pflag.Flag) (name, about string) {
	o := describe(f, func(usage string) string { return strings.SplitN(usage, ";", 2)[0] })
	if f.Shorthand == "" {
		o.Name = "    " + o.Name
	}
	return o.Name, o.About
}
