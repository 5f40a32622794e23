package manual

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zktest"
)

var update = flag.Bool("update", false, "write the files that the sample is compared with")

func sample(t *testing.T) *Page {
	t.Helper()
	source, err := os.ReadFile("testdata/sample.md")
	zktest.Must(t, err)
	return parse("sample", source)
}

func referForTest(topic string) string {
	if topic == "locks" { // also the name of a command
		return "help -t locks"
	}
	return "help " + topic
}

func source(t *testing.T, p *Page) []byte {
	t.Helper()
	text, err := files.ReadFile(p.Topic + ".md")
	zktest.Must(t, err)
	return text
}

// A sample page with all the Markdown that pages use is laid out as in the golden files.
func TestSample(t *testing.T) {
	p := sample(t)
	for name, got := range map[string]string{
		"plain":  p.Text(Layout{Columns: 78, Refer: referForTest}),
		"narrow": p.Text(Layout{Columns: 40, Bold: func(text string) string { return "<" + text + ">" }, Refer: referForTest}),
		"roff":   p.Roff(true, referForTest),
		"part":   p.Roff(false, nil),
	} {
		file := "testdata/sample." + name
		if *update {
			zktest.Must(t, os.WriteFile(file, []byte(got), 0o644))
		}
		want, err := os.ReadFile(file)
		zktest.Must(t, err)
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s differs; look at it, and run go test -update (-want +have):\n%s", file, diff)
		}
	}
	if p.Title != "Sample of a page" || p.Summary != "Show every kind of formatting that a page can contain" {
		t.Errorf("title %q, summary %q", p.Title, p.Summary)
	}
}

// Pages fit into the window, except for code, and contain no control characters.
func TestPagesFit(t *testing.T) {
	fence := regexp.MustCompile("(?ms)^ *```[^\n]*\n(.*?)^ *```$")
	for _, p := range Pages() {
		code := map[string]bool{}
		for _, block := range fence.FindAllSubmatch(source(t, p), -1) {
			for line := range strings.Lines(string(block[1])) {
				code[strings.TrimSpace(line)] = true
			}
		}
		for _, columns := range []int{60, 80, 200} {
			for line := range strings.Lines(p.Text(Layout{Columns: columns, Refer: referForTest})) {
				line = strings.TrimRight(line, "\n")
				if render.Width(line) > columns && !code[strings.TrimSpace(line)] {
					t.Errorf("%s in %d columns: %q has %d", p.Topic, columns, line, render.Width(line))
				}
				if render.Safe(line) != line {
					t.Errorf("%s: %q", p.Topic, line)
				}
			}
			bold := p.Text(Layout{Columns: columns, Bold: render.Bold, Refer: referForTest})
			if on, off := strings.Count(bold, "\x1b[1m"), strings.Count(bold, "\x1b[0m"); on == 0 || on != off || strings.ContainsAny(bold, boldOn+boldOff) {
				t.Errorf("%s: bold begins %d times, and ends %d times", p.Topic, on, off)
			}
		}
	}
}

func TestPages(t *testing.T) {
	for _, p := range Pages() {
		if Find(p.Topic) != p {
			t.Errorf("%s is not found", p.Topic)
		}
		if p.Title == "" || p.Summary == "" || strings.Contains(p.Summary, "\n") {
			t.Errorf("%s: title %q, summary %q", p.Topic, p.Title, p.Summary)
		}
		for _, m := range regexp.MustCompile("`(help (?:-t )?[a-z]+)`").FindAllStringSubmatch(p.Text(Layout{Refer: referForTest}), -1) {
			if topic := m[1][strings.LastIndex(m[1], " ")+1:]; strings.Contains(string(source(t, p)), "("+topic+".md") && Find(topic) == nil {
				t.Errorf("%s: there is no page %s", p.Topic, topic)
			}
		}
	}
	if Find("none") != nil {
		t.Error("there is a page none")
	}
}

func TestAbout(t *testing.T) {
	for word, want := range map[string]struct{ first, last string }{ // topics of the pages
		"lockdem":   {"lockdemo", "lockdemo"}, // in a topic
		"deadlocks": {"queues", "queues"},     // in a title; pages that mention the word do not count
		"GSSAPI":    {"kerberos", "kerberos"}, // only in texts
		"zyx":       {},
	} {
		found, mentioned := About(word)
		if found == nil {
			found = mentioned
		}
		for _, topic := range []string{want.first, want.last} {
			if topic == "" && len(found) > 0 || topic != "" && !slices.Contains(found, Find(topic)) {
				t.Errorf("%s: %d pages, and %q is wanted", word, len(found), topic)
			}
		}
		if want.first == want.last && len(found) > 1 {
			t.Errorf("%s: %d pages", word, len(found))
		}
	}
}
