//go:build unix

package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// nextLine matches the line that the tutorial asks the user to type.
var nextLine = regexp.MustCompile(`(?m)^    (\S.*)\n\n`)

// tutorialStep waits for the n-th prompt. It returns the text between the line typed before and that
// prompt, and the line to type next, which is empty at the end of the tutorial. Background
// output may make zksh show the prompt again.
func (s *screen) tutorialStep(n int) (text, next string) {
	s.t.Helper()
	s.until(fmt.Sprintf("nothing is said before prompt %d", n), func(shown string) bool {
		prompt := strings.LastIndex(shown, "[zk: ")
		if prompt < 0 || !strings.HasSuffix(shown, fmt.Sprintf(" %d]", n)) {
			return false
		}
		line := strings.LastIndex(shown[:prompt], fmt.Sprintf(" %d] ", n-1))
		text, next = shown[max(0, line):prompt], ""
		if found := nextLine.FindStringSubmatch(text); found != nil {
			next = found[1]
		}
		return next != "" || strings.Contains(text, "You have finished the tutorial.")
	})
	return text, next
}

// TestTutorial types exactly the lines that the tutorial asks for, in windows of several widths,
// with and without line editing.
func TestTutorial(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		columns int
		env     string
	}{{60, "NO_COLOR=1"}, {200, "TERM=dumb"}} {
		s := openBash(t, c.columns, 50)
		s.line("clear; " + c.env + " zksh -q --sandbox")
		s.want(`\(CONNECTED\) 0\]$`)
		before := s.modes()
		line, steps, seen := "tutorial", 0, ""
		for n := 1; line != ""; n++ {
			s.line(line)
			if strings.HasPrefix(line, "deleteall /") {
				s.want(`\[y/N\]`)
				s.line("y")
			}
			shown, next := s.tutorialStep(n)
			seen += shown
			if regexp.MustCompile(fmt.Sprintf(`(?m)^Step %d of 10: `, steps+1)).MatchString(shown) {
				steps++
			}
			if strings.Contains(shown, "Tutorial: ") {
				t.Fatalf("%q was not enough:\n%s", line, shown)
			}
			line = next
		}
		if steps != 10 || !strings.Contains(seen, "You have finished the tutorial.") {
			t.Errorf("%d steps; the end:\n%s", steps, s.shown())
		}
		patterns := []string{`1 +lock +holds`, `2 +lock +waits`, `(?m)^waiting `, `(?m)^locked /tutorial/lock `, `NodeDataChanged`}
		if c.columns > 100 { // wide enough for the notes of the locks
			patterns = append(patterns, `lock +holds .*learning`, `lock +waits .*Ben`, `lock +holds .*Ben`)
		}
		for _, pattern := range patterns {
			if !regexp.MustCompile(pattern).MatchString(seen) {
				t.Errorf("%d columns: nothing has shown %s", c.columns, pattern)
			}
		}
		s.wantModes(before)
		s.line("ls /")
		s.want(`^\[zookeeper\]$`)
		s.line("getEphemerals")
		s.want(`^\[\]$`)
		s.line("quit")
		s.want(`^\$$`)
	}
}

// The tutorial answers other lines with a hint, and they do no harm. The user can show the
// current step again, continue, end the tutorial, and start it again although its znodes exist.
func TestTutorialAnswersOtherLines(t *testing.T) {
	t.Parallel()
	c := openConsole(t, "--sandbox")
	c.expect(`For a guided tour, type\s+tutorial`)
	c.expect(connected)
	c.run("tutorial --end", `^no tutorial is running; to start one, type: tutorial\n`)
	c.run("tutorial", `^Step 1 of 10: create a znode\n(.*\n)*    create /tutorial "hello"\n`)
	c.run("ls /", `^\[zookeeper\]\n\nTutorial: there is no /tutorial yet\. \(To skip this line, type:\s+tutorial\s+--skip\)\n\n    create /tutorial "hello"\n`)
	c.run("gte /", `^Tutorial: there is no /tutorial yet`)
	c.run("tutorial", `^Step 1 of 10`)
	c.typeIn("sandbox pause\r")
	const hint, event = `Tutorial: the sandbox does not answer(.*\n)*`, `WatchedEvent state:Disconnected(.*\n)*`
	c.expect(`^(` + hint + event + `|` + event + hint + `)\[zk: \S+ 6\] `) // in either order
	c.typeIn("sandbox resume\r")
	c.expect(`^WatchedEvent state:SyncConnected`)
	c.expect(`\(CONNECTED\) 7\] `)
	for _, line := range []string{"", "clear"} {
		if got := c.run(line, ``); strings.Contains(got, "Tutorial") {
			t.Errorf("after %q: %s", line, got)
		}
	}
	c.run("create /tutorial", `^Created /tutorial\n\nStep 2 of 10`)
	c.run("tutorial --skip", `^Step 3 of 10`)
	c.run("set /tutorial x", `^Now write again and expect version 0`) // a different line that has the same effect
	c.run("set -v 1 /tutorial y", `^Tutorial: this step needs a write that expects version 0, which\s+ZooKeeper\s+rejects\.`)
	c.run("set -v 0 /tutorial z", `^version No is not valid : /tutorial \(expected dataVersion 0, is \d\)\n\nStep 4 of 10`)
	for range 6 {
		c.run("tutorial --skip", `^    \S.*\n`)
	}
	c.run("tutorial", `^Step 7 of 10`)
	c.run("tutorial --skip", `^Step 8 of 10`) // Ben holds the lock alone
	c.run("locks /tutorial/lock", `holds .*Ben deploys(.*\n)*Step 9 of 10`)
	if got := c.run("tutorial --end", `^The tutorial has ended\.`); strings.Contains(got, "Step") {
		t.Error(got)
	}
	c.run("locks /tutorial/lock", `\n`)
	if got := c.run("ls /tutorial/lock", `^\[\]\n`); strings.Contains(got, "Tutorial") {
		t.Error(got)
	}
	c.run("tutorial", `^    create /tutorial-2 "hello"\n`)

	c.run("close", `Tutorial: there is no connection to the sandbox\. To connect again, type:\n\n    connect\n`)
	c.run("connect", `SyncConnected(.*\n)*Tutorial: `)

	// On another server the tutorial is silent, and its command tells the user how to return.
	other := zktest.Sandbox(t, sandbox.Options{}).Addr()
	c.typeIn("connect " + other + "\r")
	c.expect(connected)
	if got := c.run("create /tutorial-2", `^Created /tutorial-2\n`); strings.Contains(got, "Step") || strings.Contains(got, "Tutorial") {
		t.Error(got)
	}
	c.run("tutorial", `^the tutorial runs only in the sandbox; to return to it, run: connect 127\.0\.0\.1:\d+\n`)
	c.typeIn("\x04")
	c.wantStatus(1)

	c = openConsole(t, "-server", other)
	c.expect(connected)
	c.run("tutorial", `^the tutorial creates and changes znodes, so it runs only in an empty sandbox: quit, start zksh --sandbox, and type tutorial at its prompt\n`)
	c.run("ls /", `^\[tutorial-2, zookeeper\]\n`)
}
