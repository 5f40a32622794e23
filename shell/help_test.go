package shell

import (
	"strings"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/transfer"
	"github.com/zksh/zksh/commands/undo"
	"github.com/zksh/zksh/lockcmd"
	"github.com/zksh/zksh/shell/manual"
)

// Help refers to pages that there are, from commands that there are.
func TestTopicsOfCommands(t *testing.T) {
	r := New(Config{Commands: [][]*commands.Command{commands.All(), {undo.Command(undo.Log{})}, transfer.Commands(), lockcmd.New().Commands()}}).Registry()
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
