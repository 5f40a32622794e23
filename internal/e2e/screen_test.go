//go:build unix

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// A screen is a zksh on a terminal whose screen tmux keeps. tmux handles wide characters,
// resizing and job control. A bash on that terminal starts zksh.
type screen struct {
	t      *testing.T
	dir    string // directory of the tmux server's socket
	home   string
	server string
}

// openScreen starts zksh with a sandbox of its own.
func openScreen(t *testing.T, columns, rows int) *screen {
	t.Helper()
	return openScreenOn(t, zktest.Sandbox(t, sandbox.Options{}).Addr(), columns, rows)
}

func openScreenOn(t *testing.T, server string, columns, rows int, args ...string) *screen {
	t.Helper()
	s := openBash(t, columns, rows)
	s.server = server
	s.start(args...)
	return s
}

// start starts zksh and waits for its prompt.
func (s *screen) start(args ...string) {
	s.t.Helper()
	s.line("clear; zksh -q -server " + s.server + " " + strings.Join(args, " "))
	s.want(`SyncConnected type:None path:\s*null\n\[zk: \S+\(CONNECTED\) 0\]$`)
}

// openBash opens a terminal with a bash in it.
func openBash(t *testing.T, columns, rows int) *screen {
	t.Helper()
	zktest.NeedProgram(t, "tmux", "tmux")
	dir, err := os.MkdirTemp("", "zksh-screen-") // the path of t.TempDir is too long for a socket
	zktest.Must(t, err)
	s := &screen{t: t, dir: dir, home: filepath.Join(dir, "home")}
	s.tmux("-f", "/dev/null", "new-session", "-d", "-x", strconv.Itoa(columns), "-y", strconv.Itoa(rows),
		"PS1='$ ' exec bash --norc --noprofile")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the screen shows:\n%s", s.shown())
		}
		s.tmux("kill-server")
		zktest.Eventually(t, "zksh writes no more", func() bool { return os.RemoveAll(dir) == nil })
	})
	s.want(`^\$$`)
	return s
}

// tmux runs a tmux command and returns its output.
func (s *screen) tmux(args ...string) string {
	s.t.Helper()
	cmd := zktest.Command(zktest.Within(s.t), s.t, "tmux", append([]string{"-u", "-S", filepath.Join(s.dir, "socket")}, args...)...)
	for _, v := range homeEnv(s.home) {
		if !strings.HasPrefix(v, "TERM=") && !strings.HasPrefix(v, "TMUX") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

// keys presses keys by tmux's names.
func (s *screen) keys(names ...string) {
	s.t.Helper()
	s.tmux(append([]string{"send-keys"}, names...)...)
}

// text types text.
func (s *screen) text(text string) {
	s.t.Helper()
	s.tmux("send-keys", "-l", text)
}

// line types a line.
func (s *screen) line(text string) {
	s.t.Helper()
	s.text(text)
	s.keys("Enter")
}

// paste pastes text, with the marks of a terminal that has bracketed paste.
func (s *screen) paste(text string) {
	s.t.Helper()
	name := filepath.Join(s.dir, "paste")
	zktest.Must(s.t, os.WriteFile(name, []byte(text), 0o600))
	s.tmux("load-buffer", name)
	s.tmux("paste-buffer", "-p")
}

var (
	dimText  = regexp.MustCompile(`\x1b\[(?:38;5;244|90)m(?:\x1b\[49m)?[^\x1b\n]*`)
	anyStyle = regexp.MustCompile(`\x1b\[[0-9;]*m`)
)

// shown returns the text on the screen, without suggestions, spaces at the ends of lines and empty
// lines at the bottom.
func (s *screen) shown() string {
	s.t.Helper()
	var b strings.Builder
	all := dimText.ReplaceAllString(s.tmux("capture-pane", "-e", "-p"), "")
	for line := range strings.Lines(anyStyle.ReplaceAllString(all, "")) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

// cursor returns the position of the cursor as "x,y".
func (s *screen) cursor() string {
	s.t.Helper()
	return s.tmux("display-message", "-p", "#{cursor_x},#{cursor_y}")
}

// want waits until the screen matches pattern, where ^ and $ match at line breaks, and returns
// the screen's text.
func (s *screen) want(pattern string) string {
	s.t.Helper()
	re := regexp.MustCompile("(?m)" + pattern)
	return s.until("no "+strconv.Quote(pattern), re.MatchString)
}

// wantEnd waits until the screen ends with these lines.
func (s *screen) wantEnd(lines ...string) {
	s.t.Helper()
	want := "\n" + strings.Join(lines, "\n")
	s.until("the end is not "+strconv.Quote(want), func(shown string) bool {
		return strings.HasSuffix("\n"+shown, want)
	})
}

// until waits until ok reports true for the screen's text, and returns that text.
func (s *screen) until(problem string, ok func(shown string) bool) string {
	s.t.Helper()
	var shown string
	pause := time.Duration(0) // grows, because each look starts a tmux process
	zktest.Eventually(s.t, problem, func() bool {
		time.Sleep(pause)
		pause = min(pause+5*time.Millisecond, 50*time.Millisecond)
		shown = s.shown()
		return ok(shown)
	})
	return shown
}

// resize changes the window's size and waits until the terminal has it.
func (s *screen) resize(columns, rows int) {
	s.t.Helper()
	s.tmux("resize-window", "-x", strconv.Itoa(columns), "-y", strconv.Itoa(rows))
	want := fmt.Sprintf("%d %d\n", rows, columns)
	s.until("the terminal does not get the size "+want, func(string) bool { return s.stty("size") == want })
}

// stty returns what stty prints about the terminal for the given argument.
func (s *screen) stty(what string) string {
	s.t.Helper()
	tty := strings.TrimSpace(s.tmux("display-message", "-p", "#{pane_tty}"))
	out, err := zktest.Command(zktest.Within(s.t), s.t, "stty", "-F", tty, what).CombinedOutput()
	if err != nil {
		s.t.Fatalf("stty: %v: %s", err, out)
	}
	return string(out)
}

// wantCommand waits until a command runs, during which Ctrl-C sends a signal.
func (s *screen) wantCommand() {
	s.t.Helper()
	isig := regexp.MustCompile(`(?m)(^|\s)isig\b`)
	s.until("no command runs", func(string) bool { return isig.MatchString(s.stty("-a")) })
}

// withoutSpaces returns text without spaces and newlines, which a screen adds and drops.
func withoutSpaces(text string) string { return strings.NewReplacer(" ", "", "\n", "").Replace(text) }

// prompt returns the prompt of line n as the screen shows it before anything is typed.
func (s *screen) prompt(n int) string {
	return "[zk: " + s.server + "(CONNECTED) " + strconv.Itoa(n) + "]"
}
