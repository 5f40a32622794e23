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

// On a terminal, a list that is longer than one line is laid out in columns.
func TestColumns(t *testing.T) {
	t.Parallel()
	s := openScreen(t, 60, 30)
	createTree(t, s.server, 9)
	runAt(t, s.server, "create", "/tree/中文中文")
	s.line("ls /")
	s.want(`^\[tree, zookeeper\]$`)
	s.line("ls /tree")
	s.want(`^n0000000000  n0000000003  n0000000006  中文中文\n` +
		`n0000000001  n0000000004  n0000000007\nn0000000002  n0000000005  n0000000008\n\[zk`)
	s.line("ls -s /tree")
	s.want(`^n0000000002  n0000000005  n0000000008\ncZxid = `)
	if got := zksh(t, "-server", s.server, "ls", "/tree"); !strings.HasPrefix(got, "[n0000000000, n0000000001, ") {
		t.Errorf("in a pipe: %q", got)
	}
}

// Output that is longer than the screen goes to the pager, if the user has set one.
func TestPager(t *testing.T) {
	t.Parallel()
	s := openBash(t, 60, 10)
	s.server = zktest.Sandbox(t, sandbox.Options{}).Addr()
	createTree(t, s.server, 40)
	s.line(`export PAGER='sed "s/^/paged: /"'`)
	s.start()
	s.line("ls -R /tree")
	s.want(`^paged: /tree/n0000000039\n\[zk: \S+ 1\]$`)
	s.line("ls /")
	s.wantEnd("[tree, zookeeper]", s.prompt(2))
	s.keys("C-d")
	s.wantEnd("$")
	s.line(`export PAGER=no-such-pager`)
	s.start()
	s.line("ls -R /tree")
	s.want(`^/tree/n0000000039\ncannot run the pager: exit status 127$`)
	s.want(`\(CONNECTED\) 1\]$`)
	s.keys("C-d")
	s.wantEnd("$")
	s.line(`export PAGER=less`)
	s.start()
	s.line("ls -R /tree")
	s.want(`^:$`)
	s.keys("C-c") // goes to the pager
	s.until("its end is not shown", func(shown string) bool {
		s.keys("G") // less drops keys typed while it handles the signal
		return strings.Contains("\n"+shown+"\n", "\n/tree/n0000000039\n")
	})
	s.keys("q")
	s.wantEnd(s.prompt(1))
	s.keys("C-d")
	s.wantEnd("$")
	s.line("stty -a | tr ' ' '\\n' | grep -x -e icanon -e echo")
	s.want(`^icanon\necho$`)
}

// Interactively, deleting a subtree first shows what would be deleted, and asks. It does not ask
// with -y or in a pipe.
func TestDeletingAsks(t *testing.T) {
	t.Parallel()
	s := openScreen(t, 100, 40)
	n := 0
	line := func(text, answer string) {
		t.Helper()
		s.line(text)
		n++
		s.want(answer + `[\s\S]*CONNECTED\) ` + fmt.Sprint(n) + `\]$`)
	}
	clear := func() { // otherwise the next pattern may match this question
		t.Helper()
		s.keys("C-l")
		zktest.Eventually(t, "the screen is cleared", func() bool { return !strings.Contains(s.shown(), "[y/N]") })
	}
	line("create /tree", `^Created /tree$`)
	line("create /tree/a", `^Created /tree/a$`)
	line("create -e /tree/a/e", `^Created /tree/a/e$`)
	for _, answer := range []string{"", "n", "no", "x"} {
		s.line("deleteall /tree")
		s.want(`^delete /tree and the 2 znodes below it \(1 ephemeral\)\? \[y/N\]$`)
		line(answer, "")
		clear()
	}
	for _, key := range []string{"C-c", "C-d"} {
		s.line("rmr /tree")
		s.want(`\[y/N\]$`)
		s.keys(key)
		n++
		s.want(`CONNECTED\) ` + fmt.Sprint(n) + `\]$`)
		clear()
	}
	s.line("deleteall /none")
	n++
	s.want(`^Node does not exist: /none\n\[zk`)
	line("ls /tree/a", `^\[e\]$`)
	s.line("deleteall /tree")
	s.want(`\[y/N\]$`)
	line("y", "")
	s.keys("Up") // the history does not contain answers
	s.want(`\] deleteall /tree$`)
	s.keys("C-c")
	line("create /tree", `^Created /tree$`)
	s.keys("C-l")
	line("rmr -y /tree", "")
	if shown := s.shown(); strings.Contains(shown, "[y/N]") {
		t.Error("-y asks")
	}
	line("ls /", regexp.QuoteMeta("[zookeeper]"))
	zksh(t, "-server", s.server, "create", "/piped")
	zksh(t, "-server", s.server, "deleteall", "/piped")
}
