//go:build unix

package e2e

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/app"
)

// foreignFlags lists the flags in the documents that belong to other programs.
var foreignFlags = []string{"--allow-untrusted", "--ignore-missing"} // of apk and sha256sum

// documented matches a flag in a text. A shell's own options and words such as zk-1 do not match.
var documented = regexp.MustCompile("(?m)(?:^|[\\s`(\\[|])(--[a-z][a-z0-9-]*)")

// The manual, the README, help all and the help of every command name only flags and options that
// exist. In a code span that begins with a command, each flag belongs to that command or to zksh.
func TestDocFlags(t *testing.T) {
	options := slices.Clone(foreignFlags)
	for _, m := range documented.FindAllStringSubmatch(app.Help(0), -1) {
		options = append(options, m[1])
	}
	commands, all := map[string][]string{}, slices.Clone(options)
	texts := map[string]string{"the options of zksh": app.Help(0), "help all": zksh(t, "help", "all")}
	for _, c := range registry().All() {
		var flags []string
		c.FlagSet().VisitAll(func(f *pflag.Flag) {
			flags = append(flags, "--"+f.Name)
			if f.Shorthand != "" {
				flags = append(flags, "-"+f.Shorthand)
			}
		})
		all = append(all, flags...)
		for _, name := range append([]string{c.Name}, c.Aliases...) {
			commands[name] = flags
		}
		texts["help "+c.Name] = strings.Join(append([]string{c.Summary, c.Help, c.Usage()}, append(c.Examples, c.Limits...)...), "\n")
	}
	for _, file := range docs(t) {
		texts[file] = readFile(t, file)
	}
	for where, text := range texts {
		for _, m := range documented.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(all, m[1]) {
				t.Errorf("%s names %s, which neither zksh nor any of its commands has", where, m[1])
			}
		}
		for _, span := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(text, -1) {
			command, _, _ := strings.Cut(span[1], " -- ")
			words := strings.Fields(command)
			flags, is := commands[words[0]]
			if !is {
				continue
			}
			for _, word := range words[1:] {
				name := regexp.MustCompile(`\A\[?(-[a-zA-Z]|--[a-z][a-z0-9-]*)\]?(=.*)?\z`).FindStringSubmatch(word)
				if name != nil && !slices.Contains(flags, name[1]) && !slices.Contains(options, name[1]) {
					t.Errorf("%s names %s of %s, which has no such flag: %s", where, name[1], words[0], span[1])
				}
			}
		}
	}
}
