//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/zksh/zksh/history"
	"github.com/zksh/zksh/internal/zktest"
)

// editorVariable is an environment variable that makes the test binary read lines with an editor.
// go-prompt needs a process with a controlling terminal.
const editorVariable = "ZKSH_TEST_EDITOR"

func TestMain(m *testing.M) {
	switch os.Getenv(editorVariable) {
	case "1":
		readLines()
		return
	case "steps":
		readLinesAndReport()
		return
	}
	os.Exit(m.Run())
}

// readLines reads lines with an editor, and prints them. SIGUSR1 stands for a server's answer, and
// SIGUSR2 for an event.
func readLines() {
	var answered atomic.Bool
	var recall history.Recall
	recall.Add(history.Entry{Line: "first"}, history.Entry{Line: "second \"quoted\""})
	e := New(os.Stdin, os.Stdout, os.Getenv, Assistant{
		Open:     openIfOdd,
		Complete: func(before string) Proposals { return propose(before, answered.Load()) },
		Recall:   &recall,
	}, nil)
	signals := make(chan os.Signal, 10)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() { // lives until the process exits
		for s := range signals {
			if s == syscall.SIGUSR2 {
				check(e.Notify("an event\n"))
				continue
			}
			answered.Store(true)
			e.Refresh()
		}
	}()
	for n := 0; ; n++ {
		ctx, alert := context.Background(), n == 0
		line, err := e.ReadLine(ctx, func() Prompt { return Prompt{Text: fmt.Sprint(n, "# "), Alert: alert} })
		switch {
		case errors.Is(err, ErrInterrupted):
			line = "interrupted"
		case err != nil:
			fmt.Println(err)
			check(e.Close())
			return
		case line == "ask":
			line, err = e.Ask(ctx, "sure? ")
			check(err)
		}
		fmt.Printf("read %q\n", line)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// propose returns completions of the last word of a line. A word with a slash is known only after
// the server has answered.
func propose(before string, answered bool) Proposals {
	p := Proposals{From: strings.LastIndex(before, " ") + 1}
	word := before[p.From:]
	for _, w := range []string{"alpine", "alpha", "beta", "slow/child", "two/a1", "two/a2"} {
		onServer := strings.Contains(w, "/") // known only to the server
		if !strings.HasPrefix(w, word) || word == "" || onServer && !answered {
			p.Pending = p.Pending || strings.HasPrefix(w, word) && word != ""
			continue
		}
		p.List = append(p.List, Proposal{Text: w, Label: w, About: "about " + w, Complete: !onServer})
		if p.CommonPrefix == "" {
			p.CommonPrefix = w
		}
		for !strings.HasPrefix(w, p.CommonPrefix) {
			p.CommonPrefix = p.CommonPrefix[:len(p.CommonPrefix)-1]
		}
	}
	p.Pending = p.Pending && p.List == nil
	if len(p.CommonPrefix) <= len(word) {
		p.CommonPrefix = ""
	}
	return p
}

// A person types into an editor, which runs in another process, and looks at its screen.
type person struct {
	t        *testing.T
	cmd      *exec.Cmd
	keyboard *os.File
	vt       *vt
}

func openEditor(t *testing.T, columns, rows int, env ...string) *person {
	t.Helper()
	return openEditorWith(t, nil, columns, rows, env...)
}

// openEditorWith is like openEditor. The editor inherits the files.
func openEditorWith(t *testing.T, files []*os.File, columns, rows int, env ...string) *person {
	t.Helper()
	p := &person{t: t, cmd: exec.Command(os.Args[0]), vt: newVT(columns, rows)}
	p.cmd.Env = append(append(os.Environ(), editorVariable+"=1", "TERM=xterm", "NO_COLOR="), env...)
	p.cmd.ExtraFiles = files
	var err error
	if p.keyboard, err = pty.StartWithSize(p.cmd, &pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { // returns when the process has exited
		defer close(ended)
		buf := make([]byte, 4096)
		for {
			n, err := p.keyboard.Read(buf)
			_, _ = p.vt.Write(buf[:n]) // panics instead of returning an error
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // fails if the process has exited
		<-ended
		_ = p.cmd.Wait() // with any exit status
		_ = p.keyboard.Close()
		if t.Failed() {
			t.Logf("the screen shows\n%s", p.vt.shown())
		}
	})
	p.shows(`^0#$`)
	return p
}

func (p *person) types(keys string) {
	p.t.Helper()
	if _, err := p.keyboard.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

func (p *person) signals(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// shows waits until a pattern is on the screen; ^ and $ match at the ends of rows.
func (p *person) shows(pattern string) {
	p.t.Helper()
	re := regexp.MustCompile("(?m)" + pattern)
	zktest.Eventually(p.t, pattern, func() bool { return re.MatchString(p.vt.shown()) })
}

// Lines that leave a quote open are read as one line, typed or pasted. Ctrl-C discards them all.
func TestLinesThatGoOn(t *testing.T) {
	p := openEditor(t, 40, 40)
	p.types("set \"a\r")
	p.shows("^0# set \"a\n\">$")
	p.types("b\x1b[A\x12\tc\r") // recall, search and completion are off
	p.shows("^\"> bc\n\">$")
	p.signals(syscall.SIGUSR2)
	p.shows("^\"> bc\nan event\n\">$")
	p.types("\rd\" e\r")
	p.shows(`^read "set \\"a\\nbc\\n\\nd\\" e"\n1#$`)

	p.types("\x1b[200~one\rset \"中\r\r\t文\r  x\" y\rtwo\x1b[201~\r")
	p.shows("^1# one\nread \"one\"\n2# set \"中\n\">\n\">  文\n\">   x\" y\n" + `read "set \\"中\\n\\n\\t文\\n  x\\" y"` + "\n3# two\n" + `read "two"\n4#$`)

	p.types("x \"y\rz")
	p.shows("^4# x \"y\n\"> z$")
	p.types("\x03")
	p.shows("^4# x \"y\n\"> z\n4#$")
	p.types("x \"y\r")
	p.shows("^4# x \"y\n\">$")
	p.types("\x04")
	p.shows("^4# x \"y\n\">\n4#$")
	p.types("\x1b[200~x \"y\rz\r1\" 2\r3\r\x1b[201~\x03")
	p.shows(`^read "interrupted"\n5#$`)
	p.types("ask\r")
	p.shows(`^sure\?$`)
	p.types("\"no\r") // an answer is one line
	p.shows(`^sure\? "no\nread "\\"no"\n6#$`)
	p.types("\x1b[A")
	p.shows(`^6# second "quoted"$`)
	p.types("\x03\x04")
	p.shows(`^EOF$`)
}

// A long paste inside a quote is fast: it is not delayed for each line.
func TestLongValueIsPasted(t *testing.T) {
	p := openEditor(t, 40, 10)
	lines := strings.Repeat("line\r", 4000)
	p.types("\x1b[200~\"" + lines + "\"" + "\x1b[201~\r")
	p.shows(`^1#$`)
	p.types("end\r")
	p.shows(`^read "end"$`)
}

func TestMenuOnAScreen(t *testing.T) {
	for _, env := range []string{"NO_COLOR=", "NO_COLOR=1"} {
		p := openEditor(t, 60, 20, env)
		selected := "1;30;106"
		if env == "NO_COLOR=1" {
			selected = "7"
		}
		chosen := func(row string) {
			t.Helper()
			zktest.Eventually(t, row+" is selected", func() bool {
				text := p.vt.styled(selected)
				return strings.Contains(text, "{ "+row) && strings.Count(text, "{") == 1
			})
		}
		p.types("get al")
		p.shows("^0# get al\n +alpine +about alpine\n +alpha +about alpha$")
		p.types("\t") // the common prefix
		p.shows(`^0# get alp$`)
		p.types("\t")
		p.shows(`^0# get alpine$`)
		chosen("alpine")
		p.types("\t")
		p.shows(`^0# get alpha$`)
		chosen("alpha")
		p.signals(syscall.SIGUSR2)
		p.shows("^an event\n0# get alpha$")
		chosen("alpha")
		p.types("\x1b[Z")
		p.shows(`^0# get alpine$`)
		p.types("\x1b")
		p.shows(`^0# get alp$`)
		p.types("\x1b[B\t\t")
		p.shows(`^0# get alpha$`)
		p.types(" b\t") // the only proposal, followed by a space
		p.shows(`^0# get alpha beta$`)
		p.types("x\r")
		p.shows("^0# get alpha beta x\nread \"get alpha beta x\"\n1#$")
		for style := range p.vt.styles {
			if env == "NO_COLOR=1" && style != "0" && style != "0;7" {
				t.Errorf("the colour %q", style)
			}
		}
	}
}

// Tab takes effect when the server has answered, unless another key was typed in the meantime.
func TestTabBeforeTheAnswer(t *testing.T) {
	for _, c := range []struct{ typed, want string }{
		{"get slow/\t", `^0# get slow/child$`},
		{"get slow/\t\t", `^0# get slow/child$`},
		{"get two/\t", `^0# get two/a$`},
		{"get slow/\tc", `^0# get slow/c$`},
		{"get slow/\t\x1b[D\x1b[C", `^0# get slow/$`},
		{"get slow/", `^0# get slow/$`},
	} {
		t.Run(c.typed, func(t *testing.T) {
			p := openEditor(t, 60, 20)
			p.types(c.typed)
			p.shows(regexp.QuoteMeta(strings.TrimRight(strings.NewReplacer("\t", "", "\x1b[D", "", "\x1b[C", "").Replace(c.typed), " ")) + "$")
			p.signals(syscall.SIGUSR1)
			p.shows(`about `) // the menu is shown
			p.shows(c.want)
			if strings.HasSuffix(c.want, "child$") {
				return
			}
			p.types("\x15done\r")
			p.shows(`read "done"`)
		})
	}
}
