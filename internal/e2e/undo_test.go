//go:build unix

package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

func TestUndoInteractive(t *testing.T) {
	t.Parallel()
	server, home := zktest.Sandbox(t, sandbox.Options{}).Addr(), t.TempDir()
	c := openConsoleIn(t, home, "-q", "-server", server)
	c.expect(connected)
	c.run("create /app old", `^Created /app\n`)
	c.run("create /app/x x", `^Created /app/x\n`)
	c.run("create -e /app/e", `^Created /app/e\n`)
	c.run("set /app new", "")
	c.run("deleteall -y /app", "")
	d := openConsoleIn(t, home, "-q", "-server", server) // another shell, with the same undo log
	d.expect(connected)
	d.run("undo 5", `^undid operation 5 \(deleteall /app\): 2 created\n`)
	c.typeIn("undo\r")
	c.expect(`the latest change, operation 5 \(deleteall /app\), was undone already\. Undo operation 4 \(set /app\), \d+s ago, instead\? \[y/N\] `)
	c.typeIn("y\r")
	c.expect(`undid operation 4 \(set /app\): 1 changed\n`)
	c.run("get /app", `^old\n`)
	d.run("undo 7", `^undid operation 7 \(undo 4 /app\): 1 changed\n`)
	d.run("get /app", `^new\n`)

	// undo shows the changes made since, and undoes transactions.
	c.run("delete /app/x", "")
	c.run("begin", "")
	c.run("create /app/x other", "")
	c.run("create /app/y y", "")
	c.run("commit", `Committed 2\n`)
	c.run("undo 9", `^/app/x has changed since the operation: the data is now 5 bytes \(version 0\), and undo would restore the saved 1 byte:\n- other\n\+ x\nnothing was done: 1 of 1 znode has changed since operation 9; `)
	c.run("undo", `^undid operation 10 \(commit /app/x\): 2 deleted\n`)
	c.run("undo 9", `^undid operation 9 \(delete /app/x\): 1 created\n`)

	// undo undoes a line as a whole, even if the line ran many commands.
	c.run("create /app/x2 2", `\n`)
	c.run("find /app -name x* -- delete {}", "")
	c.run("undo", `^undid operation 14 \(delete /app/x to delete /app/x2\): 2 created\n`)
	for _, c := range []*console{c, d} {
		c.typeIn("\x04")
		c.wantStatus(0)
	}
	files, err := filepath.Glob(filepath.Join(home, "state/zksh/undo/*"))
	if err != nil || len(files) != 46 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range append(files, filepath.Dir(files[0])) {
		wantPrivate(t, file)
	}
}

// If a shell is killed while it deletes or writes, the next shell can undo the operation.
func TestUndoAfterKill(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	p := zktest.NewProxy(t, box.Addr())
	home := t.TempDir()
	var tree strings.Builder
	tree.WriteString("create /app\n")
	for i := range 30 {
		fmt.Fprintf(&tree, "create /app/%02d\n", i)
		for j := range 4 {
			fmt.Fprintf(&tree, "create /app/%02d/%d data\n", i, j)
		}
	}
	runLinesAt(t, box.Addr(), tree.String())
	all := runAt(t, box.Addr(), "ls", "-R", "/app")
	for _, line := range []string{"deleteall -y -b 20 /app", "set /app/03 other"} {
		for _, cut := range []func(int32, int) <-chan struct{}{p.CutBeforeSkipping, p.CutAfterSkipping} {
			c := openConsoleIn(t, home, "-q", "-server", p.Addr())
			c.expect(connected)
			op, skip := int32(jute.OpMulti), 3
			if strings.HasPrefix(line, "set") {
				op, skip = jute.OpSetData, 0
			}
			over := cut(op, skip)
			c.typeIn(line + "\r")
			<-over
			zktest.Must(t, c.cmd.Process.Kill())
			_ = c.cmd.Wait() // reports the kill
			c = openConsoleIn(t, home, "-q", "-server", p.Addr())
			c.expect(connected)
			// The connection loss may have been reported before the end of the list.
			c.run("undo -l", `\n +\d+ +\d+s  (deleteall|set) +\d+ +\d+  \S+ +/app(/03)?( \(maybe\))?\n`)
			refusal := c.run("undo", `nothing left to undo from this shell; the latest change from another shell is operation \d+ \((deleteall|set) /app(/03)?\), \d+s ago, by the shell (in pts/\d+ )?\(pid \d+\); to undo it, run: undo \d+\n`)
			number := regexp.MustCompile(`run: (undo \d+)`).FindStringSubmatch(refusal)[1]
			c.run(number, `undid operation \d+ \((deleteall|set) /app`)
			c.typeIn("\x04")
			c.wantStatus(0)
			if got := runAt(t, box.Addr(), "ls", "-R", "/app"); got != all {
				t.Errorf("%s: there is\n%s", line, got)
			}
			if got := runAt(t, box.Addr(), "get", "/app/03/2"); got != "data\n" {
				t.Errorf("%s: %q", line, got)
			}
		}
	}
}

// On a full disk, which a limit on file sizes simulates, zksh destroys nothing without asking.
// undo -l prints a table that fits a narrow window.
func TestUndoInWindows(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{60, 80} {
		server := zktest.Sandbox(t, sandbox.Options{}).Addr()
		s := openBash(t, columns, 24)
		s.server = server
		runLinesAt(t, server, "create /应用\ncreate /应用/大 "+strings.Repeat("x", 3000)+"\ncreate /应用/小 一")
		s.line("trap '' XFSZ; ulimit -f 1")
		s.start()
		s.line("delete /应用/大")
		asked := func(shown string) bool {
			shown = withoutSpaces(shown)
			return strings.Contains(shown, withoutSpaces("zksh cannot save the whole subtree /应用/大 for undo: write")) &&
				strings.HasSuffix(shown, withoutSpaces("1.part: file too large. Continue? [y/N]"))
		}
		s.until("nothing is asked", asked)
		s.line("n")
		s.want(`^the command was not run$`)
		s.line("delete /应用/大")
		s.until("nothing is asked again", asked)
		s.line("y")
		s.until("it was not deleted", func(shown string) bool { return strings.HasSuffix(withoutSpaces(shown), withoutSpaces(s.prompt(2))) })
		s.line("set /应用/小 二")
		s.line("delete /应用/小")
		s.line("clear")
		s.line("undo -l")
		s.want(`^ no   age  command    znodes   bytes  by       path\n +2 +\d+s  delete +1 +3  here     /应用/小\n +1 +\d+s  set +1 +3  here     /应用/小$`)
		s.line("undo")
		s.want(`^undid operation 2 \(delete /应用/小\): 1 created$`)
		s.line("undo 1")
		s.want(`^undid operation 1 \(set /应用/小\): 1 changed$`)
		s.line("ls /应用 | cat")
		s.want(`^\[小\]$`)
		s.line("get /应用/小")
		s.want(`^一$`)
	}
}

// Examples of the prompt show exactly the text that zksh prints on a terminal.
func TestDocInteractive(t *testing.T) {
	t.Parallel()
	eachDoc(t, "zksh hand", func(t *testing.T, blocks []fenced) {
		t.Parallel()
		for _, b := range blocks {
			typeInteractively(t, b.text)
		}
	})
}

func typeInteractively(t *testing.T, text string) {
	lines := promptPattern.FindAllStringSubmatch(text, -1)
	c := openConsole(t, "-server", zktest.Sandbox(t, sandbox.Options{}).Addr())
	c.expect(connected)
	for _, l := range lines {
		c.run(l[1], "")
	}
	c.typeIn("\x04")
	c.wantStatus(0)
	_, shown, _ := strings.Cut(c.shown(), "path:null\n")
	shown, _, _ = strings.Cut(shown, fmt.Sprintf("(CONNECTED) %d] ", len(lines)))
	shown = shown[:strings.LastIndex(shown, "[")]
	if diff := cmp.Diff(normalize(text), normalize(shown)); diff != "" {
		t.Errorf("example differs (-document +zksh):\n%s", diff)
	}
}
