//go:build unix

package e2e

import (
	"regexp"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// hintScreens contains the terminals on which TestTyping types. suggestion matches the suggestion,
// and command a known command, in the output of capture-pane -e.
var hintScreens = []struct {
	columns             int
	env                 string
	suggestion, command string
}{
	{60, "", `\x1b\[38;5;244meate /配置 中文`, `\x1b\[1m\x1b\[38;5;64mget`},
	{80, "", `\x1b\[38;5;244meate /配置 中文`, `\x1b\[1m\x1b\[38;5;64mget`},
	{120, "TERM=xterm COLORTERM=", `\x1b\[90meate /配置 中文`, `\x1b\[1mget`},
	{120, "NO_COLOR=1", "", `\] get `},
	{200, "COLORTERM=truecolor", `\x1b\[38;5;244meate /配置 中文`, `\x1b\[1m\x1b\[38;5;64mget`},
	{200, "TERM=dumb", "", `\] get `},
}

// Users type, accept suggestions and leave in windows of several widths, with Chinese names, with
// all colors, with 16 colors and with none. Afterwards, the terminal is set as before.
func TestTyping(t *testing.T) {
	t.Parallel()
	for _, c := range hintScreens {
		s := openBash(t, c.columns, 24)
		s.server = zktest.Sandbox(t, sandbox.Options{}).Addr()
		before := s.modes()
		s.line("clear; env " + c.env + " zksh -q -server " + s.server)
		s.want(`CONNECTED\) 0\]$`)
		s.line("create /配置 中文")
		s.wantEnd("Created /配置", s.prompt(1))
		s.text("cr")
		s.want(`1\] cr$`)
		if c.suggestion != "" {
			s.wantStyled(c.suggestion)
			s.keys("Right")
			s.until("the suggestion is not accepted", func(shown string) bool {
				return strings.HasSuffix(withoutSpaces(shown), "1]create/配置中文")
			})
			s.keys("Enter")
			s.want(`already exists: /配置`)
		} else {
			s.keys("C-u")
			s.line("ls /")
		}
		s.want(` 2\]$`)
		s.text("get /配置")
		s.wantStyled(c.command)
		if styled := s.styled(); c.suggestion == "" && regexp.MustCompile(`\x1b\[[0-9;]*[349][0-7]m`).MatchString(styled) {
			t.Errorf("%d columns, %s: a color: %q", c.columns, c.env, styled)
		}
		s.keys("Enter")
		s.wantEnd("中文", s.prompt(3))
		s.line("quit")
		s.want(`^\$$`)
		s.wantModes(before)
	}
}

// styled returns what the screen shows, with its styles.
func (s *screen) styled() string {
	s.t.Helper()
	return s.tmux("capture-pane", "-e", "-p")
}

// wantStyled waits until the screen matches pattern, with its styles.
func (s *screen) wantStyled(pattern string) {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	s.until("no "+pattern, func(string) bool { return re.MatchString(s.styled()) })
}
