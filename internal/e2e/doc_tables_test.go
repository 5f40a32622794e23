//go:build unix

package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/app"
	"github.com/zksh/zksh/internal/zktest"
)

var update = flag.Bool("update", false, "write the generated parts of the documents")

const readme = "../../README.md"

// docs returns the README and the pages of the manual.
func docs(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("../../shell/manual/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no page of the manual: %v", err)
	}
	return append([]string{readme}, pages...)
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	zktest.Must(t, err)
	return string(b)
}

// fence matches a fenced block of a document that has an info string.
var fence = regexp.MustCompile("(?ms)^```([a-z0-9 ]+)\n(.*?)^```$")

// A fenced is a fenced block: its info string and its text.
type fenced struct{ info, text string }

// fences returns the blocks of a document whose info string matches a pattern.
func fences(t *testing.T, file, pattern string) (list []fenced) {
	t.Helper()
	info := regexp.MustCompile(`\A(?:` + pattern + `)\z`)
	for _, m := range fence.FindAllStringSubmatch(readFile(t, file), -1) {
		if info.MatchString(m[1]) {
			list = append(list, fenced{m[1], m[2]})
		}
	}
	return list
}

// eachDoc runs a test for each document that has blocks whose info string matches a pattern.
func eachDoc(t *testing.T, pattern string, test func(t *testing.T, blocks []fenced)) {
	t.Helper()
	found := false
	for _, file := range docs(t) {
		if blocks := fences(t, file, pattern); len(blocks) > 0 {
			found = true
			t.Run(filepath.Base(file), func(t *testing.T) { test(t, blocks) })
		}
	}
	if !found {
		t.Errorf("no document has a block %s", pattern)
	}
}

// table formats rows as a Markdown table. The first row is the header.
func table(rows ...[]string) string {
	var b strings.Builder
	for i, cells := range rows {
		for _, cell := range cells {
			b.WriteString("| " + strings.ReplaceAll(cell, "|", `\|`) + " ")
		}
		b.WriteString("|\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(cells)) + "|\n")
		}
	}
	return b.String()
}

func code(text string) string { return "`" + text + "`" }

// generated returns the parts of documents that are generated from the program, by the names of
// their marks.
func generated() map[string]string {
	var names strings.Builder
	rows := [][]string{}
	flush := func(group string) {
		if len(rows) > 0 {
			names.WriteString("## " + group + "\n\n" + table(append([][]string{{"command", "what it does"}}, rows...)...) + "\n")
		}
		rows = nil
	}
	group := ""
	for _, c := range registry().All() {
		if c.Group != group {
			flush(group)
			group = c.Group
		}
		name := code(c.Usage())
		for _, a := range c.Aliases {
			name += ", " + code(a)
		}
		rows = append(rows, []string{name, c.Summary})
	}
	flush(group)
	options := [][]string{{"option", "effect"}}
	for _, o := range app.AllOptions() {
		options = append(options, []string{code(o.Name), o.About})
	}
	settings := [][]string{{"key", "value", "meaning"}}
	for _, s := range app.Settings() {
		settings = append(settings, []string{code(s.Key), code(s.Value), s.About})
	}
	statuses := [][]string{{"status", "meaning", "code in JSON"}}
	for _, s := range commands.Statuses {
		statuses = append(statuses, []string{fmt.Sprint(s.Status), s.Meaning, s.Codes})
	}
	return map[string]string{
		"commands": "\n" + names.String(),
		"options":  table(options...),
		"settings": table(settings...),
		"statuses": table(statuses...),
	}
}

// A block is a generated part of a document.
type block struct{ file, before, text, after string }

// findBlock returns the generated part with the given name. It must occur exactly once in all
// documents together.
func findBlock(t *testing.T, name string) (b block) {
	t.Helper()
	part := regexp.MustCompile(`(?s)\A(.*<!-- ` + name + `(?:: [^\n]*)? -->\n)(.*?)(<!-- end -->\n.*)\z`)
	for _, file := range docs(t) {
		m := part.FindStringSubmatch(readFile(t, file))
		switch {
		case m == nil:
			continue
		case b.file != "", strings.Count(m[1], "<!-- "+name) > 1:
			t.Fatalf("%s has the mark %s a second time", file, name)
		}
		b = block{file, m[1], m[2], m[3]}
	}
	if b.file == "" {
		t.Fatalf("no document has <!-- %s --> … <!-- end -->", name)
	}
	return b
}

// write replaces the text of the block.
func (b block) write(t *testing.T, text string) {
	t.Helper()
	zktest.Must(t, os.WriteFile(b.file, []byte(b.before+text+b.after), 0o644))
}

// Every fenced block of a document is of a known kind: a test runs it, or it cannot be run.
func TestDocFences(t *testing.T) {
	const known = `console( tls| sasl| kerberos| rescue)?|zksh( \d| hand)?|stage \d|go|ini|golang|sh|text`
	for _, file := range docs(t) {
		if all, ours := fences(t, file, ".*"), fences(t, file, known); len(all) != len(ours) {
			t.Errorf("%s: of the blocks %q these alone are known: %q", file, all, ours)
		}
	}
}

// The tables in the documents match the program's own tables.
func TestDocTables(t *testing.T) {
	for name, want := range generated() {
		b := findBlock(t, name)
		if *update {
			b.write(t, want)
		} else if diff := cmp.Diff(want, b.text); diff != "" {
			t.Errorf("run make docs; %s differs (-want +have):\n%s", b.file, diff)
		}
	}
}
