//go:build unix

package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// modes is how the terminal is set.
func (s *screen) modes() string {
	s.t.Helper()
	out, err := exec.Command("stty", "-F", strings.TrimSpace(s.tmux("display-message", "-p", "#{pane_tty}")), "-a").CombinedOutput()
	if err != nil {
		s.t.Fatalf("stty: %v: %s", err, out)
	}
	return string(out)
}

// wantModes waits until the terminal is set as it was.
func (s *screen) wantModes(before string) {
	s.t.Helper()
	s.until("the terminal is set in another way", func(string) bool { return s.modes() == before })
}

// TestCd goes about in windows of several widths, by Tab, and among Chinese names.
func TestCd(t *testing.T) {
	for _, columns := range []int{60, 80, 200} {
		s := openScreen(t, columns, 24)
		s.line("create /app")
		s.line("create /app/配置 1")
		s.want(`^Created /app/配置$`)
		s.text("cd ap")
		s.keys("Tab")
		s.until("the only child is not taken", func(shown string) bool { return strings.HasSuffix(bare(shown), "2]cdapp") })
		s.keys("Enter")
		want := func(folder, n string) {
			t.Helper()
			s.until("no prompt with "+folder, func(shown string) bool {
				return strings.HasSuffix(bare(shown), bare("[zk: "+s.server+"(CONNECTED)"+folder+n+"]"))
			})
		}
		want("/app", "3")
		s.text("get ")
		s.keys("Tab")
		s.until("the only child is not taken", func(shown string) bool { return strings.HasSuffix(bare(shown), "3]get配置") })
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

// TestOutletsByHand sends answers to programs that have the terminal, and to those that
// do not heed anything.
func TestOutletsByHand(t *testing.T) {
	for _, columns := range []int{60, 200} {
		s := openScreen(t, columns, 24)
		s.line("create /文件")
		s.want(`^Created /文件$`)
		before := s.modes()
		s.line("ls / | tr -d '[]' | cat -n")
		s.want(`^ +1\s+zookeeper, 文件$`)
		s.wantModes(before)

		// less reads keys, and Ctrl-C is its own; what happens meanwhile waits.
		s.line("get -w /文件")
		s.line("history | LESS= less -P ready")
		s.want("^ready")
		oneShot(t, s.server, "set", "/文件", "2")
		s.keys("C-c")
		s.want("^ready")
		s.keys("q")
		s.until("the event is not shown", func(shown string) bool {
			return strings.Contains(bare(shown), "type:NodeDataChangedpath:/文件")
		})
		s.wantModes(before)

		// Ctrl-C ends the program, and not the shell.
		s.line("get /文件 | sh -c 'echo started; stty -echo < /dev/tty; sleep 1000'")
		s.want("^started$")
		s.keys("C-c")
		s.want("^interrupted$")
		s.wantModes(before)

		// It ends a command that goes on as well.
		s.line("locks -f / | cat")
		s.wantCommand()
		s.keys("C-c")
		s.until("the command goes on", func(shown string) bool { return strings.HasSuffix(bare(shown), "^Cinterrupted"+bare(s.prompt(6))) })
		file := filepath.Join(s.dir, "out")
		s.line("get /文件 > " + file)
		s.line("get /文件 >> " + file)
		s.line("get / | cat")
		s.until("no prompt", func(shown string) bool { return strings.HasSuffix(bare(shown), "cat"+bare(s.prompt(9))) })
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
