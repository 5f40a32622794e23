package shell

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/transfer"
	"github.com/zksh/zksh/commands/undo"
	"github.com/zksh/zksh/lockcmd"
	"github.com/zksh/zksh/shell/manual"
)

func newHelper() *Shell {
	return New(Config{Commands: [][]*commands.Command{commands.All(), {undo.Command(undo.Log{})}, transfer.Commands(), lockcmd.New().Commands()}})
}

// Each topic in the table has a page, and each command in the table exists and belongs to one
// topic.
func TestTopicsOfCommands(t *testing.T) {
	r := newHelper().Registry()
	for topic, names := range topics {
		if manual.Find(topic) == nil {
			t.Errorf("there is no page %s", topic)
		}
		for name := range strings.FieldsSeq(names) {
			switch c := r.Find(name); {
			case c == nil || c.Name != name:
				t.Errorf("%s: there is no command %s", topic, name)
			case topicOf(c) != topic:
				t.Errorf("%s belongs to %s, too", name, topicOf(c))
			}
		}
	}
	for topic, want := range map[string]string{"": "", "locks": "help -t locks", "trees": "help trees"} {
		if got := Reference(r, topic); got != want {
			t.Errorf("%q: %q, want %q", topic, got, want)
		}
	}
}

// help without arguments lists commands that exist, and fits on a screen of 80 columns and 24 lines
// with the next prompt.
func TestEverydayHelp(t *testing.T) {
	h := newHelper().everyday()
	if i := slices.Index(h, nil); i >= 0 {
		t.Fatalf("%s is no command", everyday[i])
	}
	var b strings.Builder
	if err := h.FitText(&b, 80); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\n"); n > 23 {
		t.Errorf("%d lines, want at most 23:\n%s", n, b.String())
	}
}

// Help for a word lists the pages and commands that are about it, and names the others that mention
// it in their text.
func TestSearch(t *testing.T) {
	s := newHelper()
	for _, test := range []struct {
		word       string
		topicsOnly bool
		want       string
	}{
		{"stop", false, `^Topics of the manual\n  guarantee .*\n  stage .*\nOther commands that mention it: .*\block\b.*\nOther topics that mention it: .*\boptions, .*\bscripts\b`},
		{"stop", true, `^Topics of the manual\n  guarantee .*\n  stage .*\nOther topics that mention it: `},
		{"holder", false, `(?s)^Locks\n  revoke .*Other commands that mention it: .*\blocks\b`},
		{"kerberos", false, `(?s)^Topics of the manual\n  kerberos .*Other commands that mention it: connect`},
	} {
		var b strings.Builder
		if err := s.search(test.word, test.topicsOnly).Text(&b); err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(b.String(), ",\n  ", ", ")
		if !regexp.MustCompile(test.want).MatchString(text) {
			t.Errorf("%s: %s", test.word, text)
		}
	}
}
