//go:build unix

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// modes returns the settings of the terminal, as stty prints them.
func (s *screen) modes() string {
	s.t.Helper()
	return s.stty("-a")
}

// wantModes waits until the terminal's settings equal before.
func (s *screen) wantModes(before string) {
	s.t.Helper()
	s.until("the terminal is set in another way", func(string) bool { return s.modes() == before })
}

// cd works in windows of several widths, with Tab and with Chinese names.
func TestCd(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{60, 80, 200} {
		s := openScreen(t, columns, 24)
		s.line("create /app")
		s.line("create /app/配置 1")
		s.want(`^Created /app/配置$`)
		s.text("cd ap")
		s.keys("Tab")
		s.until("the only child is not taken", func(shown string) bool { return strings.HasSuffix(withoutSpaces(shown), "2]cdapp") })
		s.keys("Enter")
		want := func(folder, n string) {
			t.Helper()
			s.until("no prompt with "+folder, func(shown string) bool {
				return strings.HasSuffix(withoutSpaces(shown), withoutSpaces("[zk: "+s.server+"(CONNECTED)"+folder+n+"]"))
			})
		}
		want("/app", "3")
		s.text("get ")
		s.keys("Tab")
		s.until("the only child is not taken", func(shown string) bool { return strings.HasSuffix(withoutSpaces(shown), "3]get配置") })
		s.keys("Enter")
		want("/app", "4")
		s.line("cd 配置")
		want("/app/配置", "5")
		s.line("cd -")
		want("/app", "6")
		s.line("cd ~")
		want("", "7")
		s.line("pwd")
		s.want(`^/$`)
	}
}

// Interactively, answers can be piped into programs that use the terminal, and into programs
// that ignore their input.
func TestPipesInteractive(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{60, 200} {
		s := openScreen(t, columns, 24)
		s.line("create /文件")
		s.wantEnd("Created /文件", s.prompt(1))
		before := s.modes()
		s.line("ls / | tr -d '[]' | cat -n")
		s.want(`^ +1\s+zookeeper, 文件$`)
		s.wantModes(before)

		// less reads keys and handles Ctrl-C itself. Events that arrive meanwhile are shown
		// afterwards.
		s.line("get -w /文件")
		s.line("history | LESS= less -P ready")
		s.want("^ready")
		oneShot(t, s.server, "set", "/文件", "2")
		s.keys("C-c")
		s.until("less has ended", func(shown string) bool { // less may drop a key that arrives with the signal
			s.keys("=")
			return strings.Contains(shown, "lines 1-")
		})
		s.keys("q")
		s.until("the event is not shown", func(shown string) bool {
			return strings.Contains(withoutSpaces(shown), "type:NodeDataChangedpath:/文件")
		})
		s.wantModes(before)

		// Ctrl-C terminates the program, not the shell.
		s.line("get /文件 | stty -echo < /dev/tty; echo started; read x < /dev/tty")
		s.want("^started$")
		s.keys("C-c")
		s.want("^interrupted$")
		s.wantModes(before)

		// Ctrl-C also ends a command that would continue.
		forever := filepath.Join(s.dir, "forever")
		zktest.Must(t, os.WriteFile(forever, []byte("echo begun\nwait -w 1h /none\n"), 0o600))
		s.line("source " + forever + " | cat")
		s.want(`^begun$`)
		s.keys("C-c")
		s.until("the command goes on", func(shown string) bool {
			return strings.HasSuffix(withoutSpaces(shown), "beguninterrupted"+withoutSpaces(s.prompt(6)))
		})
		file := filepath.Join(s.dir, "out")
		s.line("get /文件 > " + file)
		s.line("get /文件 >> " + file)
		s.line("get / | cat")
		s.until("no prompt", func(shown string) bool {
			return strings.HasSuffix(withoutSpaces(shown), "cat"+withoutSpaces(s.prompt(9)))
		})
		s.line("quit")
		s.want(`^\$$`)
		s.line("cat " + file)
		s.wantEnd("2", "2", "$")
	}
}

func oneShot(t *testing.T, server string, args ...string) {
	t.Helper()
	if out, err := exec.Command("zksh", append([]string{"-server", server}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("zksh %q: %v: %s", args, err, out)
	}
}

// A credential that is typed at the question of addauth is shown nowhere: neither on the screen,
// in the history nor in a file.
func TestCredentialIsNeverShown(t *testing.T) {
	t.Parallel()
	for _, term := range []string{"tmux", "dumb"} {
		s := openBash(t, 80, 24)
		s.server = zktest.Sandbox(t, sandbox.Options{}).Addr()
		s.line("export TERM=" + term)
		s.start()
		before := s.modes()
		s.line("addauth digest")
		s.want(`^user:password \(not shown\):$`)
		s.text("hand:geheim")
		s.keys("Enter")
		s.until("no prompt", func(shown string) bool { return strings.HasSuffix(shown, s.prompt(1)) })
		s.wantModes(before)
		s.line("create /mine x auth::cdrwa")
		s.wantEnd("Created /mine", s.prompt(2))
		s.line("getAcl /mine")
		s.want(`^'digest,'hand:`)
		s.line("addauth digest")
		s.until("no question", func(shown string) bool { return strings.HasSuffix(shown, "(not shown):") })
		s.text("halb")
		s.keys("C-c")
		s.until("no prompt", func(shown string) bool { return strings.HasSuffix(shown, s.prompt(4)) })
		s.wantModes(before)
		s.line("addauth digest")
		s.until("no question", func(shown string) bool { return strings.HasSuffix(shown, "(not shown):") })
		s.keys("Enter")
		s.want("^missing auth$")
		s.line("history")
		s.want("^5 - history$")
		s.line("quit")
		s.want(`^\$$`)
		s.line("grep -r -e geheim -e halb " + s.home)
		s.wantEnd("$")
		if all := s.tmux("capture-pane", "-p", "-S", "-"); strings.Contains(strings.ReplaceAll(all, "-e geheim -e halb", ""), "geheim") {
			t.Errorf("%s: the credential shows:\n%s", term, all)
		}
	}
}

// The password of digest is shown nowhere either, at the prompt and as a single command. Only two
// equal passwords lead to a digest, and Ctrl-C at the question turns the echo on again.
func TestDigestIsAskedUnseen(t *testing.T) {
	t.Parallel()
	s := openBash(t, 80, 24)
	s.server = zktest.Sandbox(t, sandbox.Options{}).Addr()
	answer := func(question, password string) {
		s.until("no question", func(shown string) bool { return strings.HasSuffix(shown, question) })
		s.text(password)
		s.keys("Enter")
	}
	const first, second = "password of user (not shown):", "the same password again:"
	before := s.modes()
	s.line("zksh digest user")
	answer(first, "secret")
	answer(second, "secret")
	s.wantEnd("user:5w9W4eL3797Y4Wq8AcKUPPk8ha4=", "$")
	s.line("clear; zksh digest user")
	answer(first, "secret")
	answer(second, "secrets")
	s.wantEnd("the two passwords differ; run digest again", "$")
	s.wantModes(before)
	s.line("clear; zksh digest user; echo status $?")
	s.until("no question", func(shown string) bool { return strings.HasSuffix(shown, first) })
	s.text("sec")
	s.keys("C-c")
	s.want("^status 130$")
	s.wantModes(before)
	s.line("clear")
	s.start()
	s.line("digest user")
	answer(first, "secret")
	answer(second, "secret")
	s.wantEnd("user:5w9W4eL3797Y4Wq8AcKUPPk8ha4=", s.prompt(1))
	s.line("quit")
	s.want(`^\$$`)
	s.line("clear; grep -r -e secre " + s.home + "; echo searched")
	s.wantEnd("searched", "$")
	if strings.Contains(s.shown(), "secre") {
		t.Error("the password is in a file")
	}
}

// Tab completes the name of a held lock after unlock.
func TestHeldLockCompletes(t *testing.T) {
	t.Parallel()
	s := openScreen(t, 60, 24)
	s.line("lock --as k")
	s.want("^unknown family|^missing path")
	s.line("lock /锁/作业")
	s.want(`^locked /锁/作业 mode=\w+ node=…lock…0+\n  token=`)
	s.text("unlock ")
	s.keys("Tab")
	s.until("the lock is not completed", func(shown string) bool { return strings.HasSuffix(withoutSpaces(shown), "unlock/锁/作业") })
	s.keys("Enter")
	s.want("^unlocked")
}

// Ctrl-C or Ctrl-\ that ends a program also signals zksh. If the signal reaches zksh late, it
// does not interrupt the next line.
func TestLateInterrupt(t *testing.T) {
	t.Parallel()
	r := openRich(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	for n, key := range []string{"INT", "QUIT"} {
		r.typeIn("ls / | (sleep 0.3; kill -" + key + " $PPID) & kill -" + key + " $$\r")
		r.expect(fmt.Sprintf(`CONNECTED\) %d\] `, 2*n+1))
		r.typeIn("wait -w 1s /none\r")
		r.expect(`timed out waiting for /none`)
		r.expect(fmt.Sprintf(`CONNECTED\) %d\] `, 2*n+2))
	}
	r.typeIn("quit\r")
	wantExit(t, r.cmd, 75) // the status of the last line
}

// edit works with an editor that changes the terminal's modes and handles Ctrl-C itself.
func TestEditInteractive(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{60, 80} {
		s := openBash(t, columns, 24)
		s.server = zktest.Sandbox(t, sandbox.Options{}).Addr()
		editor := filepath.Join(s.dir, "ed.sh")
		const script = `trap 'echo no' INT; stty -echo; echo ready; until read b; do :; done; echo "$b" >> "$1"`
		zktest.Must(t, os.WriteFile(editor, []byte(script), 0o600))
		s.line("export EDITOR='sh " + editor + "' TMPDIR=" + s.dir)
		s.start()
		s.line("create /文 $'甲\\n'")
		s.want("^Created /文$")
		s.line("get -w /文")
		s.until("no prompt", func(shown string) bool { return strings.HasSuffix(shown, s.prompt(2)) })
		before := s.modes()
		s.line("edit /文")
		s.want("^ready$")
		s.keys("C-c")
		s.want("no$")
		s.line("乙")
		s.want(`^  甲$\n^\+ 乙$`)
		s.wantModes(before)
		s.until("the event is not shown", func(shown string) bool {
			return strings.HasSuffix(withoutSpaces(shown), withoutSpaces("type:NodeDataChanged path:/文 甲 + 乙"+s.prompt(3)))
		})
		s.line("quit")
		s.want(`^\$$`)
		s.line("clear; ls " + s.dir)
		s.want("^ed.sh  ?home")
		if shown := s.shown(); strings.Contains(shown, "zksh-") {
			t.Errorf("a file is left:\n%s", shown)
		}
	}
}
