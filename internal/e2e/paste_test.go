//go:build unix

package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// While a command runs, the terminal edits lines and truncates long ones. zksh rejects a
// truncated line and reads the next one normally.
func TestLongLineTypedAhead(t *testing.T) {
	t.Parallel()
	r := openRich(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	r.typeIn("lock /l -- sh -c 'echo begun; read x; echo over'\r")
	r.expect(`begun\r\n`)
	r.typeIn("\n") // the input of read
	r.expect(`over`)
	r.expect(`CONNECTED\) 1\] `)
	r.typeIn("lock /l -- sh -c 'echo begun; sleep 5'\r")
	r.expect(`begun\r\n`)
	r.typeIn("create /long " + strings.Repeat("x", 5000) + "\n")
	r.expect(`the terminal truncates lines at 4095 bytes`)
	r.expect(`CONNECTED\) 2\] `)
	r.typeIn("ls /\r")
	r.expect(`\[l, zookeeper\]\r\n`)
}

// Names without any width get no menu, because go-prompt cannot draw it.
func TestNamesWithoutWidth(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	runAt(t, server, "create", "/w")
	for n := range 11 {
		runAt(t, server, "create", "/w/"+strings.Repeat("\u0301", n+1))
	}
	r := openRich(t, server)
	r.typeIn("ls /w/")
	r.expect(`ls /w/`)
	r.expect(`ls /w/`) // redrawn after the server's answer
	for range 10 {     // the menu scrolls
		r.typeIn("\t")
	}
	r.typeIn("\x15quit\r")
	r.wantRestored(0)
}

// A pasted multi-line value in quotes is one value, including its tabs, also in a narrow window.
func TestPastedValueOfManyLines(t *testing.T) {
	t.Parallel()
	const value = "{\n  \"名字\": \"一二三四五六七八九十一二三四五六七八九十一二三四五六七八九十\",\n\t\"list\": [1,\n\n  2]\n}"
	for _, columns := range []int{60, 100} {
		s := openScreen(t, columns, 40)
		s.paste("create /json '" + value + "'\nls /\nget /json\n")
		s.want("^'> +2\\]\n'> }'\nCreated /json\n")
		s.want(`^ +2\]\n}\n\[zk: \S+ 3\]$`)
		if got := runAt(t, s.server, "get", "/json"); got != value+"\n" {
			t.Errorf("stored %q, want %q", got, value)
		}
	}
}

// A multi-line value in quotes also works on a terminal that edits its own lines.
func TestValueOfManyLinesOnAPlainTerminal(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	c := openConsole(t, "-server", server)
	c.expect(connected)
	c.typeIn("create /json \"{\r 'a': [1,\r 2]}\"\rls /\r")
	c.expect(`Created /json\n`)
	c.expect(`\[json, zookeeper\]\n`)
	c.expect(`\(CONNECTED\) 2\] `)
	if got := runAt(t, server, "get", "/json"); got != "{\n 'a': [1,\n 2]}\n" {
		t.Errorf("stored %q", got)
	}
	c.typeIn("create /never 'x\r")
	c.expect(`^'> `)
	c.typeIn("y\r")
	c.expect(`^'> `)
	c.typeIn("\x03")
	c.expect(`\(CONNECTED\) 2\] `)
	c.typeIn("create /never $'x\r")
	c.expect(`^\$'> `)
	c.typeIn("\x04")
	c.expect(`\(CONNECTED\) 2\] `)
	c.run("ls /", `^\[json, zookeeper\]\n`)
	c.run("redo 0", `^Node already exists: /json\n`)
	c.typeIn("\x04")
	c.wantStatus(1)
	want := []string{`0 create /json $'{\n \'a\': [1,\n 2]}'`, "0 ls /", "1 redo 0"}
	if lines := historyLines(readFile(t, c.home+"/state/zksh/history")); !slices.Equal(lines, want) {
		t.Errorf("the history is %q, want %q", lines, want)
	}
}

// Ctrl-C in the middle of a pasted multi-line value drops the complete paste and runs none of
// its lines.
func TestCtrlCInAPastedValue(t *testing.T) {
	t.Parallel()
	r := openRich(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	r.typeIn("\x1b[200~create /a 'x\rcreate /b\rcreate /c")
	r.expect(`'> create /b\r\n`)
	r.expect(`'> create /c`)
	r.typeIn("\x03")
	r.expect(`\(CONNECTED\) 0\] `)
	r.typeIn("\x1b[200~create /a 'x\rcreate /b\r'\rcreate /c\r\x1b[201~\x03")
	r.typeIn("ls /\r")
	r.expect(`\[zookeeper\]\r\n`)
	r.typeIn("\x04")
	r.wantRestored(0)
}

// zksh reads the lines of a long paste directly. go-prompt, which pauses three times per line,
// gets only lines that had not arrived completely. The screen shows each line after its prompt,
// then its answer. Without paste marks, the terminal also echoes text that arrives while a line
// runs. make bench measures how long a paste takes.
func TestLongPaste(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ begin, end, echoed string }{
		"bracketed": {begin: "\x1b[200~", end: "\x1b[201~"},
		"plain":     {echoed: `[^\x1b]*`},
	} {
		t.Run(name, func(t *testing.T) {
			r := openRich(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
			const lines = 1000
			var paste strings.Builder
			for n := range lines {
				fmt.Fprintf(&paste, "echo v%d\r", n)
			}
			go func() { _, _ = r.tty.WriteString(c.begin + paste.String() + c.end) }() // ends when zksh has read all of it
			for n := range lines {
				r.expect(fmt.Sprintf(`echo v%d\D`, n))
				r.expect(fmt.Sprintf(`2004l%sv%d\r\n`, c.echoed, n))
				r.expect(fmt.Sprintf(`CONNECTED\) %d\] `, n+1))
			}
			// go-prompt hides the cursor before it draws.
			whole := regexp.MustCompile(`2004h(?:[^\x1b]|\x1b\[[0-9;]*m)*CONNECTED\) \d+\] echo v\d+\x1b`).FindAllString(r.shown(), -1)
			if len(whole) < lines*9/10 {
				t.Errorf("%d of %d lines were taken whole", len(whole), lines)
			}
			r.typeIn("create /\x7f/after\r")
			r.expect(`Created /after\r\n`)
			r.typeIn("\x04")
			r.wantRestored(0)
		})
	}
}

// If a command's output lacks a final newline, the next prompt starts on a new line and marks
// the end of the output, also if the output fills a row. Other output gets no mark.
func TestPromptAfterUnfinishedLine(t *testing.T) {
	t.Parallel()
	s := openScreen(t, 60, 24)
	s.line("lock -n /l -- printf hello")
	s.want(`^hello%\n\[zk: \S+ 1\]$`)
	s.line("create /v abcdef")
	s.want(`^Created /v\n\[zk: \S+ 2\]$`)
	s.line("get /v | head -c 4")
	s.want(`^abcd%\n\[zk: \S+ 3\]$`)
	s.line("get /v | printf %060d 7")
	s.want(`^0{59}7\n\[zk: \S+ 4\]$`)
	s.line("get /v")
	s.want(`^abcdef\n\[zk: \S+ 5\]$`)
}

// Text that is typed while a command runs appears once, at the next prompt, whether it is half a
// line or several lines, and whether the command prints or draws anything in the meantime.
func TestTypedAheadIsShownOnce(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{60, 80, 200} {
		s := openScreen(t, columns, 40)
		s.line("create /a")
		s.want(` 1\]$`)
		s.contender("lock", "-m", "Ben deploys", "/locks/deploy", "--", "sleep", "600")
		s.until("nobody holds the lock", func(string) bool { return s.waiting() > 0 })
		s.line("lock -w 3 /locks/deploy") // shows its progress
		s.want(`waiting`)
		s.text("echo 中文 ahead")
		s.want(` 2\] echo 中文 ahead$`)
		if n := strings.Count(s.shown(), "ahead"); n != 1 {
			t.Errorf("%d columns: the text is on the screen %d times:\n%s", columns, n, s.shown())
		}
		s.keys("Enter")
		s.want(`^中文 ahead\n\[zk: \S+ 3\]$`)
		s.line("wait -w 2s /never") // draws nothing
		s.text("echo uno")
		s.keys("Enter")
		s.text("echo dos")
		s.keys("Enter")
		s.text("half")
		s.want(` 6\] half$`)
		shown := s.shown()
		for text, want := range map[string]int{"uno": 2, "dos": 2, "half": 1} { // typed and printed
			if n := strings.Count(shown, text); n != want {
				t.Errorf("%d columns: %q is on the screen %d times:\n%s", columns, text, n, shown)
			}
		}
	}
}
