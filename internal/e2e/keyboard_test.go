//go:build unix

package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// While nothing is typed, the prompt shows the current state of the connection, in red while
// disconnected.
func TestLivePrompt(t *testing.T) {
	t.Parallel()
	proxy := zktest.NewProxy(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	s := openScreenOn(t, proxy.Addr(), 100, 24)
	s.line("printwatches off")
	s.wantEnd(s.prompt(1))
	s.text("ls /so-far")
	s.want(`CONNECTED\) 1\] ls /so-far$`)
	red := regexp.MustCompile(`\x1b\[31m\[zk: \S+\(CONNECTING\) 1\] `)
	if red.MatchString(s.tmux("capture-pane", "-p", "-e")) {
		t.Error("the prompt is red while connected")
	}
	proxy.Refuse(true)
	proxy.Cut()
	s.want(`\(CONNECTING\) 1\] ls /so-far$`)
	if colored := s.tmux("capture-pane", "-p", "-e"); !red.MatchString(colored) {
		t.Errorf("the prompt is not red: %q", colored)
	}
	proxy.Refuse(false)
	s.want(`\(CONNECTED\) 1\] ls /so-far$`)
}

// Events are printed above the line being typed. The line and its cursor stay as they are, even
// if the line wraps and contains double-width characters that do not fit at the end of a row.
func TestEventsAboveTheLine(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{60, 61, 80, 200} {
		t.Run(fmt.Sprint(columns), func(t *testing.T) {
			t.Parallel()
			s := openScreen(t, columns, 30)
			runAt(t, s.server, "create", "/w")
			s.line("addWatch /w")
			s.wantEnd(s.prompt(1))
			const typed = "create /数据 你好世界一二三四五六七八九十甲乙丙丁"
			s.text(typed)
			s.want(`丙丁$`)
			s.keys("Home", "M-f", "Right", "Right")
			runAt(t, s.server, "set", "/w", "1")
			s.want(`type:NodeDataChanged path:\s*/\s*w$`)
			runAt(t, s.server, "delete", "/w")
			shown := s.want(`type:NodeDeleted path:\s*/\s*w$`)
			if n := strings.Count(shown, "(CONNECTED) 1]"); n != 1 {
				t.Errorf("the prompt is there %d times:\n%s", n, shown)
			}
			s.text("X")
			s.until("the line is not intact", func(shown string) bool {
				_, line, _ := strings.Cut(shown, s.prompt(1)+" ")
				return withoutSpaces(line) == withoutSpaces(strings.Replace(typed, "/", "/X", 1))
			})
			s.keys("Enter")
			s.want(`^Created /X数据$`)
			if got := runAt(t, s.server, "get", "/X数据"); got != "你好世界一二三四五六七八九十甲乙丙丁\n" {
				t.Errorf("stored %q", got)
			}
		})
	}
}

func TestEditing(t *testing.T) {
	t.Parallel()
	s := openScreen(t, 100, 30)
	n := 0
	for _, c := range []struct {
		typed string
		keys  []string
		more  string
		want  string
	}{
		{"create /ab x", []string{"Left", "Left", "Left"}, "Z", "create /aZb x"},
		{"create /ab x", []string{"Home", "Delete", "End"}, "y", "reate /ab xy"},
		{"create /ab x", []string{"C-a", "M-f", "C-f", "C-f"}, "q", "create /qab x"},
		{"create /one/two x", []string{"M-b", "M-b"}, "Q", "create /one/Qtwo x"},
		{"create /one/two x", []string{"C-Left", "C-Left", "C-Right"}, "Q", "create /one/twoQ x"},
		{"create /one two", []string{"C-w", "C-w"}, "/", "create /"},
		{"create /one two", []string{"C-w", "C-w", "C-y"}, "!", "create /one two!"},
		{"/x ls", []string{"C-w", "C-a", "C-y", "C-e", "BSpace"}, "", "ls/x"},
		{"/x get ", []string{"C-b", "C-b", "C-b", "C-b", "C-u", "C-e", "C-y"}, "", "get /x "},
		{"get /x /y", []string{"M-b", "C-b", "C-b", "C-k"}, "/", "get /x/"},
		{"get /one/two", []string{"M-BSpace"}, "", "get /one/"},
		{"get /one/two", []string{"C-a", "M-d", "M-d"}, "X", "X/two"},
		{"你好世界", []string{"Left", "Left", "BSpace"}, "们", "你们世界"},
		{"你好世界", []string{"Home", "Delete", "C-f", "C-k"}, "", "好"},
		{"a😀b", []string{"Left", "BSpace"}, "é", "aéb"},
		{"ab", []string{"F5", "M-x", "S-Up", "PageUp"}, "c", "abc"},
		{"ab cd", []string{"C-Left", "C-d", "C-d", "C-h"}, "", "ab"},
	} {
		s.text(c.typed)
		s.keys(c.keys...)
		if c.more != "" {
			s.text(c.more)
		}
		s.until(fmt.Sprintf("%q %q: not %q", c.typed, c.keys, c.want), func(shown string) bool {
			return strings.HasSuffix(shown, strings.TrimRight(s.prompt(n)+" "+c.want, " ")) || strings.Contains(shown, s.prompt(n)+" "+c.want+"\n")
		})
		s.keys("C-c")
		s.wantEnd(s.prompt(n))
	}
}

// waitForGet waits until a getData request is in flight. Completion never sends one.
func waitForGet(t *testing.T, proxy *zktest.Proxy) {
	t.Helper()
	zktest.Eventually(t, "the data is asked for", func() bool { return slices.Contains(proxy.Requests(), jute.OpGetData) })
}

// Ctrl-C clears the line being typed or cancels a command; the shell continues.
func TestCtrlCAtTheKeyboard(t *testing.T) {
	t.Parallel()
	proxy := zktest.NewProxy(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	s := openScreenOn(t, proxy.Addr(), 100, 30)
	s.text("create /never")
	s.want(`/never$`)
	s.keys("C-c")
	s.wantEnd(s.prompt(0)+" create /never", s.prompt(0))
	proxy.HoldReplies(true)
	s.line("get /")
	waitForGet(t, proxy)
	s.keys("C-c")
	s.want(`^interrupted$`)
	proxy.HoldReplies(false)
	s.line("ls /")
	s.wantEnd("[zookeeper]", s.prompt(2))
	s.keys("C-d")
	s.wantEnd("$")
	s.line("echo status $?")
	s.want(`^status 0$`)
}

// If a command ignores its cancellation, a second Ctrl-C exits the shell without waiting for the
// command.
func TestSecondCtrlCExits(t *testing.T) {
	t.Parallel()
	s := openScreen(t, 100, 30)
	command, begun := stubbornCommand(t, s.server)
	s.line(command)
	begun()
	s.keys("C-c")
	s.want(`^the command has not stopped for 3 seconds; press Ctrl-C again to exit zksh$`)
	s.keys("C-c")
	s.want(`the outcome of the command is unknown`)
	s.want(`^\$$`)
	s.line("echo status $?")
	s.want(`^status 130$`)
}

// historyLines returns the exit status and the text of each line in a history file. It removes the
// time and the place.
func historyLines(file string) (lines []string) {
	for line := range strings.Lines(file) {
		lines = append(lines, entryHead.ReplaceAllString(strings.TrimSuffix(line, "\n"), "$1 "))
	}
	return lines
}

var entryHead = regexp.MustCompile(`^#\d{10} (\d+) [^\t]+\t`)

// Arrow keys recall earlier lines, or those that begin with the typed text, and Ctrl-R searches
// them. Lines with credentials are never recalled.
func TestRecallOverSessions(t *testing.T) {
	t.Parallel()
	s := openScreen(t, 100, 40)
	for i, line := range []string{"create /a 1", "get /a", "addauth digest user:secret", " set /a 2", "ls /"} {
		s.line(line)
		s.want(`CONNECTED\) ` + fmt.Sprint(i+1) + `\]$`)
	}
	s.keys("Up", "Up")
	s.want(`5\]  set /a 2$`) // a line with a leading space is kept for this session only
	s.keys("C-c", "C-d")
	s.wantEnd("$")
	if lines := historyLines(readFile(t, s.home+"/state/zksh/history")); !slices.Equal(lines, []string{"0 create /a 1", "0 get /a", "0 ls /"}) {
		t.Errorf("the history is %q", lines)
	}
	s.start()
	s.keys("Up")
	s.want(`0\] ls /$`)
	s.keys("Up", "Up", "Up", "Up")
	s.want(`0\] create /a 1$`)
	s.keys("Down")
	s.want(`0\] get /a$`)
	s.keys("Down", "Down")
	s.wantEnd(s.prompt(0))
	s.text("g")
	s.keys("Up")
	s.want(`0\] get /a$`)
	s.keys("Up")
	s.want(`0\] get /a$`)
	s.keys("Down")
	s.want(`0\] g$`)
	s.keys("BSpace")

	s.keys("C-r")
	s.want(`^\(search: \)`)
	s.text("/a")
	s.want(`^\(search: /a; \S+; [-0-9]+ [:0-9]+\) get /a$`)
	s.keys("C-r")
	s.want(`^\(search: /a; \S+; [-0-9]+ [:0-9]+\) create /a 1$`)
	s.text("x")
	s.want(`^\(not found: /ax\) `)
	s.keys("BSpace", "C-r")
	s.want(`^\(search: /a; \S+; [-0-9]+ [:0-9]+\) create /a 1$`)
	s.keys("C-a")
	s.want(`0\] create /a 1$`)
	s.keys("C-c", "C-r")
	s.text("get")
	s.want(`^\(search: get; \S+; [-0-9]+ [:0-9]+\) get /a$`)
	s.keys("Enter")
	s.wantEnd("2", s.prompt(1))
	s.text("ls /zoo")
	s.keys("C-r")
	s.text("get")
	s.want(`^\(search: get; `)
	s.keys("C-g")
	s.want(`1\] ls /zoo$`)
}

// A multi-line command is one entry of the history: it can be recalled, edited and run again,
// also in a later session.
func TestRecallOfManyLines(t *testing.T) {
	t.Parallel()
	s := openScreen(t, 100, 40)
	s.line(`create /many "it's`)
	s.want(`^">$`)
	s.line("中 文")
	s.line(`end"`)
	s.wantEnd("Created /many", s.prompt(1))
	s.keys("Up")
	s.want(`1\] create /many \$'it\\'s\\n中 文\\nend'$`)
	s.keys("C-c", "C-d")
	s.wantEnd("$")
	s.start()
	s.keys("Up", "C-a", "M-d")
	s.text("set")
	s.keys("C-e", "BSpace")
	s.text(".'")
	s.want(`0\] set /many \$'it\\'s\\n中 文\\nend\.'$`)
	s.keys("Enter")
	s.wantEnd(s.prompt(1))
	if got := runAt(t, s.server, "get", "/many"); got != "it's\n中 文\nend.\n" {
		t.Errorf("stored %q", got)
	}
	s.line("history")
	s.want(`^0 - set /many \$'it\\'s\\n中 文\\nend\.'$`)
}

// NO_COLOR removes only colours; the selected proposal is still highlighted.
func TestNoColor(t *testing.T) {
	t.Parallel()
	s := openBash(t, 100, 30)
	s.server = zktest.Sandbox(t, sandbox.Options{}).Addr()
	s.line("export NO_COLOR=1")
	s.start()
	s.text("printwatches ")
	s.want(`^ +on\n +off\n +short$`)
	s.keys("Tab")
	s.want(`\] printwatches on$`)
	shown := s.tmux("capture-pane", "-p", "-e")
	if !regexp.MustCompile(`\x1b\[7m +on `).MatchString(shown) {
		t.Errorf("the choice cannot be seen: %q", shown)
	}
	if regexp.MustCompile(`\x1b\[[0-9;]*[34][0-7]m`).MatchString(shown) {
		t.Errorf("a colour: %q", shown)
	}
}

// A terminal without a size, as in some containers, counts as 80 columns wide.
func TestNoSize(t *testing.T) {
	t.Parallel()
	c := openRich(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	c.setSize(0, 0)
	c.typeIn("create /sizeless\r")
	c.expect(`Created /sizeless\r\n`)
	c.typeIn("ls /\r")
	c.expect(`\[sizeless, zookeeper\]\r\n`)
	c.expect(`CONNECTED\) 2\] `)
	c.setSize(100, 24)
	c.typeIn("quit\r") // Ctrl-D would be lost while the editor restarts for the new size
	c.wantRestored(0)
}

// Ctrl-C during a pasted command also drops the rest of the paste.
func TestCtrlCEndsAPaste(t *testing.T) {
	t.Parallel()
	proxy := zktest.NewProxy(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	s := openScreenOn(t, proxy.Addr(), 100, 30)
	proxy.HoldReplies(true)
	s.paste("get /\ncreate /never\ncreate /neither\n")
	waitForGet(t, proxy)
	s.keys("C-c")
	s.want(`interrupted$`)
	proxy.HoldReplies(false)
	s.line("ls /")
	s.wantEnd("[zookeeper]", s.prompt(2))
}

// Ambiguous-width characters such as “, ” and … occupy one cell, as on the terminal, whatever
// the locale.
func TestCellsInAChineseLocale(t *testing.T) {
	t.Parallel()
	s := openBash(t, 100, 30)
	s.server = zktest.Sandbox(t, sandbox.Options{}).Addr()
	s.line("export LC_ALL=zh_CN.UTF-8")
	s.start()
	s.text("create /a “中…”")
	s.want(`”$`)
	want := fmt.Sprint(len(s.prompt(0)+" create /a ")+1+2+1+1, ",")
	s.until("the cursor is elsewhere", func(string) bool { return strings.HasPrefix(s.cursor(), want) })
}
