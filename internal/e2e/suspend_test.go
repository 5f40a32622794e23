//go:build unix

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// Ctrl-Z suspends zksh at the prompt, even after a program under a lock, during which it must
// not. fg returns to the line being typed.
func TestSuspend(t *testing.T) {
	t.Parallel()
	s := openScreen(t, 100, 30)
	s.line("lock /l -- echo under it")
	s.want(`^under it$`)
	s.line("clear")
	s.until("the screen is not cleared", func(shown string) bool { return withoutSpaces(shown) == withoutSpaces(s.prompt(2)) })
	s.text("create /half")
	s.want(`/half$`)
	s.keys("C-z")
	s.want(`^\[1\]\+ +Stopped`)
	s.line("stty -a | tr ' ' '\\n' | grep -x -e icanon -e echo")
	s.want(`^icanon\necho$`)
	s.line("fg")
	s.want(`^\[zk: \S+ 2\] create /half$`)
	s.text("way")
	s.keys("Enter")
	s.want(`^Created /halfway$`)
}

// If the window changes size while zksh is suspended, the menu fits the new size.
func TestResizeWhileSuspended(t *testing.T) {
	t.Parallel()
	s := openScreen(t, 100, 20)
	s.keys("C-z")
	s.want(`^\[1\]\+ +Stopped`)
	s.resize(52, 20)
	s.line("fg")
	s.wantEnd(s.prompt(0))
	s.text("get -")
	s.want(`^ -s +also print.*\n -w +set a watch`) // wrapped to the width that go-prompt assumes
}

// If the window changes size at any time, the line is redrawn with its text and cursor.
func TestResize(t *testing.T) {
	t.Parallel()
	s := openScreen(t, 100, 30)
	const data = "一二三四五六七八九十一二三四五六七八九十"
	s.text("create /wide " + data)
	s.want(`九十$`)
	at := s.cursor()
	s.keys("Left")
	s.until("the cursor does not move", func(string) bool { return s.cursor() != at })
	for _, columns := range []int{60, 47, 130, 48, 100} {
		intact := func(data string) {
			s.until(fmt.Sprintf("not intact in %d columns", columns), func(shown string) bool {
				_, line, _ := strings.Cut(shown, s.prompt(0)+" ")
				// A prompt from before the connection may be on the screen, too, if connecting
				// was slow.
				return strings.Count(shown, s.prompt(0)) == 1 && strings.Count(shown, "CONNECTED) ") == 1 && withoutSpaces(line) == withoutSpaces("create /wide "+data)
			})
		}
		s.resize(columns, 30)
		intact(data)
		s.text("y") // makes zksh redraw the line, which so far only tmux has rewrapped
		intact(strings.TrimSuffix(data, "十") + "y十")
		s.keys("BSpace")
		intact(data)
	}
	s.text("X")
	s.want(`九X十$`)
	s.resize(45, 12)
	s.keys("Enter")
	s.want(`^Created /wide$`)
	s.resize(3, 3)
	s.text("ls /w")
	s.resize(80, 24)
	s.want(`\] ls /w$`)
	s.text("ide")
	s.keys("Enter")
	s.want(`^\[\]$`)
}

// Ctrl-Z does not stop zksh without job control, because nothing could continue it.
func TestSuspendWithoutJobControl(t *testing.T) {
	t.Parallel()
	c := openRich(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	c.typeIn("create /ha")
	c.expect("/ha")
	c.typeIn("\x1alf\r")
	c.expect(`Created /half\r\n`)
	c.expect(anyPrompt) // before the prompt, the terminal itself would handle Ctrl-D
	c.typeIn("\x04")
	c.wantRestored(0)
}
