//go:build unix

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// walkSteps lists lines that the test types, each with a pattern of the answer and perhaps a key
// to press when the pattern matches. A command that waits for such a key must wait in the shell
// that zksh started, not in a child: sh may lose a signal while it starts a program, and a child
// may end later and read the next line. EDITOR appends a line to the data. FILE and SOURCE stand
// for file names; SOURCE contains lines to run.
var walkSteps = []struct{ line, want, key string }{
	{"create /應用 x", `Created /應用`, ""},
	{"cd /應用", ``, ""},
	{"create 配置 $'值\\n'", `Created /應用/配置`, ""},
	{"create 很長的名字-一二三四五六七八九十 1", `Created`, ""},
	{"create 另一個很長的名字-一二三四五六七八九十 2", `Created`, ""},
	{"pwd", `/應用`, ""},
	{"ls .", `很長`, ""},
	{"ls -l .", `很長`, ""},
	{"tree /", `配置`, ""},
	{"find . -name 配*", `/應用/配置`, ""},
	{"find . -name 配* -- get {}", `值`, ""},
	{"du -L 1 /", `應用`, ""},
	{"edit 配置", `\+ 新`, ""},
	{"get 配置 | cat -n", `2\s+新`, ""},
	{"get 配置 | sh -c 'kill -9 $$'", ``, ""},
	{"get 配置 | sh -c 'stty raw -echo < /dev/tty; kill -TERM $$'", ``, ""},
	{"get 配置 > FILE", ``, ""},
	{"get 配置 >> FILE", ``, ""},
	{"source SOURCE", `does\s+not\s+exist:\s+/none`, ""},
	{"wait -w 5s 配置", ``, ""},
	{"wait -w 1ms --gone 配置", `time`, ""},
	{"get 配置 | stty raw -echo isig < /dev/tty; echo begun; read x < /dev/tty", `begun\r?\n`, "\x03"},
	{"get 配置 | stty -echo < /dev/tty; echo begun; read x < /dev/tty", `begun\r?\n`, "\x1c"},
	{"lock /鎖/三 -- sh -c 'stty -echo; echo begun; read x'", `begun\r?\n`, "\x03"},
	{"find . -name 配* -- source FOREVER", `begun\r?\n`, "\x03"},
	{"begin", ``, ""},
	{"set 配置 1", ``, ""},
	{"check 配置 99", ``, ""},
	{"commit", `(?i)version`, ""},
	{"begin", ``, ""},
	{"abort", ``, ""},
	{"lock -m '很長的說明，一二三四五六七八九十一二三四五六七八九十' /鎖/作業", `locked /鎖`, ""},
	{"locks", `/鎖/作業`, ""},
	{"locks /鎖/作業", `holds`, ""},
	{"locks -R /鎖", `1 hold`, ""},
	{"unlock", `unlocked`, ""},
	{"lock /鎖/二 -- sh -c 'stty raw -echo; exit 7'", ``, ""},
	{"lock /鎖/二 -- sh -c 'kill -9 $$'", ``, ""},
	{"lock /鎖/二 --no-such-flag", `see: help lock`, ""},
	{"setquota /應用", `see: help setquota`, ""},
	{"no-such-command", `help`, ""},
	{"help", `help all +list all commands`, ""},
	{"help all", `help COMMAND and COMMAND --help explain a command`, ""},
	{"help lock", `Example`, ""},
	{"help find", `Example`, ""},
	{"help config", `help configuration`, ""},
	{"printwatches short", ``, ""},
	{"get -w 配置", `新`, ""},
	{"set 配置 再", `NodeDataChanged`, ""},
	{"session", `0x`, ""},
	{"servers", `answer`, ""},
	{"history 3", `servers`, ""},
	{"cd ..", ``, ""},
	{"clear", ``, ""},
	{"deleteall -y 應用", ``, ""},
}

// TestWalk types most commands in windows of several widths, without colours and on a terminal
// without escape sequences. Formatted output fits the window, and after each line the terminal
// has the same settings as before it.
func TestWalk(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{60, 80, 200} {
		for _, env := range []string{"TERM=dumb", "NO_COLOR=1"} {
			t.Run(fmt.Sprintf("%d %s", columns, env), func(t *testing.T) {
				t.Parallel()
				walkThrough(t, columns, env)
			})
		}
	}
}

func walkThrough(t *testing.T, columns int, env string) {
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	zktest.Must(t, os.WriteFile(source, []byte("# 註解\nset /none 1\nget /應用\n"), 0o600))
	forever := filepath.Join(dir, "forever")
	zktest.Must(t, os.WriteFile(forever, []byte("echo begun\nwait -w 1h /none\n"), 0o600))
	r := startRich(t, exec.Command("zksh", "-q", "-server", server), env, "EDITOR=sh -c 'stty raw -echo; echo 新 >> \"$1\"' ed")
	r.expect(`\(CONNECTED\) 0\] `)
	r.setSize(uint16(columns), 50)
	files := strings.NewReplacer("FILE", filepath.Join(dir, "out"), "SOURCE", source, "FOREVER", forever)
	var before string // read after the editor has restarted for the new size
	zktest.Eventually(t, "the editor has the terminal", func() bool {
		before = r.terminalModes()
		return env == "TERM=dumb" || strings.Contains(before, "-icanon")
	})
	for n, step := range walkSteps {
		begun := len(r.shown())
		r.typeIn(files.Replace(step.line) + "\r")
		if step.want != "" {
			r.expect(files.Replace(step.want))
		}
		if step.key != "" {
			r.typeIn(step.key)
		}
		r.expect(fmt.Sprintf(`CONNECTED\b[^\n\x1b]* %d\] `, n+1))
		zktest.Eventually(t, "the terminal is set as before "+step.line, func() bool { return r.terminalModes() == before })
		wantFit(t, files.Replace(step.line), r.shown()[begun:], columns)
	}
	r.typeIn("quit\r")
	wantExit(t, r.cmd, 0)
	escapes := regexp.MustCompile(`\x1b\[[0-9;]*m`)
	if env == "TERM=dumb" {
		escapes = regexp.MustCompile(`\x1b.*`)
	}
	for _, found := range escapes.FindAllString(r.shown(), -1) {
		if found != "\x1b[0m" && found != "\x1b[0;7m" { // plain text, and the selected proposal
			t.Errorf("%q", found)
		}
	}
}

// controlSequence matches a control controlSequence of a terminal.
var controlSequence = regexp.MustCompile(`\x1b\[[0-9;?]*[a-zA-Z]`)

// wantFit checks that the output of a line fits the window. It ignores the line itself, prompts,
// and the output of ls -l, which prints long names in full.
func wantFit(t *testing.T, line, shown string, columns int) {
	t.Helper()
	for _, l := range strings.FieldsFunc(controlSequence.ReplaceAllString(shown, ""), func(r rune) bool { return r == '\r' || r == '\n' }) {
		if width := runewidth.StringWidth(l); width > columns && !strings.HasSuffix(l, line) && !strings.Contains(l, "[zk: ") && !strings.HasPrefix(line, "ls -l") {
			t.Errorf("%s: %d columns: %q", line, width, l)
		}
	}
}
