//go:build unix

package e2e

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// waiting matches the line that shows how long a command has waited for a lock.
var waiting = regexp.MustCompile(`(?m)^waiting for /l, (\d+)s: `)

// waited returns the number of seconds in that line, or -1 if it is not on the screen.
func waited(shown string) int {
	m := waiting.FindStringSubmatch(shown)
	if m == nil {
		return -1
	}
	n, _ := strconv.Atoi(m[1]) // the pattern matches only digits
	return n
}

// Text that is typed while a command redraws a line in place appears once, at the prompt that it
// is for.
func TestTypeAheadDuringRedraws(t *testing.T) {
	t.Parallel()
	s := openScreen(t, 100, 30)
	s.line("create /n data")
	s.wantEnd("Created /n", s.prompt(1))
	oneShot(t, s.server, "lock", "--owner", "other", "/l")
	s.line("lock /l")
	first := waited(s.want(`^waiting for /l, \d+s: place 2 `))
	s.text("get /n")
	s.keys("Enter")
	s.text("get /no")
	shown := s.until("the line is not redrawn", func(shown string) bool { return waited(shown) > first+1 })
	if strings.Contains(shown, "get /n") {
		t.Errorf("it was shown too early: %s", shown)
	}
	oneShot(t, s.server, "unlock", "--owner", "other", "/l")
	prompt := strings.NewReplacer("(CONNECTED)", "(CONNECTED, 1 lock)")
	s.wantEnd(prompt.Replace(s.prompt(2))+" get /n", "data", prompt.Replace(s.prompt(3))+" get /no")
	if shown = s.shown(); strings.Count(shown, "get /n") != 2 || strings.Contains(shown, "waiting for") {
		t.Errorf("it was not drawn in place: %s", shown)
	}
}

// clear clears the screen.
func TestClear(t *testing.T) {
	t.Parallel()
	s := openScreen(t, 100, 30)
	s.line("create /n data")
	s.wantEnd("Created /n", s.prompt(1))
	s.line("clear")
	s.until("the screen is not cleared", func(shown string) bool { return shown == s.prompt(2) })
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
