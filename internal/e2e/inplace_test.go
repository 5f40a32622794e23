//go:build unix

package e2e

import (
	"strings"
	"testing"
)

// Text that is typed while a command redraws a line in place appears once, at the prompt that it
// is for.
func TestTypeAheadDuringRepeat(t *testing.T) {
	t.Parallel()
	s := openScreen(t, 100, 30)
	s.line("create /n data")
	s.wantEnd("Created /n", s.prompt(1))
	s.line("repeat -n 3 -i 1s ls /n")
	s.want(`^every 1s, run 1, `)
	s.text("get /n")
	s.keys("Enter")
	s.text("get /no")
	if shown := s.want(`^every 1s, run 3, `); strings.Contains(shown, "get /n") && !strings.Contains(shown, s.prompt(2)) {
		t.Errorf("it was shown too early: %s", shown)
	}
	s.wantEnd("[]", s.prompt(2)+" get /n", "data", s.prompt(3)+" get /no")
}

// A question that is wider than the terminal is wrapped between words.
func TestLongQuestion(t *testing.T) {
	t.Parallel()
	s := openScreen(t, 80, 30)
	s.line("create /n data")
	s.wantEnd("Created /n", s.prompt(1))
	s.line("setAcl /n world:anyone:r")
	s.wantEnd("with this ACL, you will not be able to change the ACL of /n again, and undo", "cannot restore it. Continue? [y/N]")
	s.line("n")
	s.wantEnd("the command was not run", s.prompt(2))
}
