//go:build linux

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// A one-shot command typed in bash saves the data it destroys, prints how to undo it, and asks
// no question. zksh undo undoes the commands of the same terminal, never those of an interactive
// shell.
func TestUndoOfCommands(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	runLinesAt(t, server, "create /one\ncreate /one/大 一\ncreate /b 1\ncreate /c 1")
	for _, columns := range []int{60, 100} {
		s := openBash(t, columns, 40)
		s.line("export ZKSH_SERVER=" + server + "; clear")
		s.line("zksh deleteall /one; echo status $?")
		s.until("it does not say how to undo it", func(shown string) bool {
			return strings.HasSuffix(withoutSpaces(shown), withoutSpaces("deleteall /one: 2 znodes are saved; to restore them, run zksh undo status 0 $"))
		})
		s.line("zksh undo")
		s.want(`^undid operation 1 \(deleteall /one\): 2 created$`)
		// A script that runs in the terminal belongs to the same session and continues.
		s.line("sh -c 'zksh -q set /b 2; zksh set /b 3 2>/dev/null; zksh get /b'")
		s.want(`^3$`)
		s.line("zksh undo -l; clear; zksh undo; zksh undo --overwrite 3; zksh get /b")
		s.until("the set with -q is not undone", func(shown string) bool {
			return strings.Contains(withoutSpaces(shown), withoutSpaces("nothing was done: 1 of 1 znode has changed since operation 3; to overwrite the changes, run: undo --overwrite 3;")) &&
				strings.Contains(withoutSpaces(shown), withoutSpaces("undid operation 3 (set /b): 1 changed undo 3 /b: the old data is saved; to restore it, run zksh undo 4")) && strings.HasSuffix(shown, "\n1\n$")
		})

		// An interactive shell with the same undo log: each of the two undoes only its own
		// commands.
		home := s.home
		d := openConsoleIn(t, home, "-q", "-server", server)
		d.expect(connected)
		s.line("clear; zksh -server " + server + " delete /one/大")
		s.until("it is not deleted", func(shown string) bool {
			return strings.HasSuffix(withoutSpaces(shown), withoutSpaces("delete /one/大: 1 znode is saved; to restore it, run zksh -server "+server+" undo $"))
		})
		d.run("set /c 2", "")
		s.line("clear; zksh undo")
		s.want(`^undid operation 5 \(delete /one/大\): 1 created$`)
		s.line("clear; zksh undo")
		s.until("it undoes what is not its own", func(shown string) bool {
			return strings.Contains(withoutSpaces(shown), withoutSpaces("nothing left to undo from this terminal; the latest change from another shell is operation 6 (set /c),"))
		})
		d.run("undo", `^undid operation 6 \(set /c\): 1 changed\n`)
		d.typeIn("\x04")
		d.wantStatus(0)
	}
}

// A one-shot command that cannot save the data it destroys reports that, even with -q, and
// continues. It cannot ask, because scripts that run in a terminal rely on it.
func TestCommandThatCannotSave(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	runLinesAt(t, server, "create /a 1\ncreate /shut 1\nsetAcl /shut world:anyone:cdwa")
	s := openBash(t, 100, 24)
	s.line("export ZKSH_SERVER=" + server + "; clear")
	s.line("zksh -q delete /shut; echo status $?")
	s.want(`^no permission to read /shut, so undo will not be able to restore it; continuing anyway$\nstatus 0$`)
	undo := filepath.Join(s.home, "state/zksh/undo")
	zktest.Must(t, os.RemoveAll(undo))
	zktest.Must(t, os.Symlink(t.TempDir(), undo))
	s.line("clear; zksh delete /a; echo status $?")
	s.until("the link is not named", func(shown string) bool {
		return strings.HasSuffix(withoutSpaces(shown), withoutSpaces("zksh cannot save the whole subtree /a for undo: "+undo+" is a symbolic link; continuing anyway status 0 $"))
	})
	if got := runAt(t, server, "ls", "/"); strings.Contains(got, "a,") || strings.Contains(got, "shut") {
		t.Errorf("there is %s", got)
	}
}

// Scripts save nothing for undo, whether they run with source, with -f or from a pipe, and their
// transactions work.
func TestScriptsInTerminalsSaveNothing(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	runLinesAt(t, server, "create /a 1\ncreate /b 1")
	s := openBash(t, 100, 24)
	file := filepath.Join(s.dir, "script")
	zktest.Must(t, os.WriteFile(file, []byte("begin\nset /a 2\ndelete /b\ncreate /b 2\ncommit\nset /a 3\n"), 0o600))
	sourced := filepath.Join(s.dir, "sourced")
	zktest.Must(t, os.WriteFile(sourced, []byte("set /a 2\ndelete /b\ncreate /b 2\n"), 0o600))
	s.line("export ZKSH_SERVER=" + server + "; clear")
	for run, answer := range map[string]string{"zksh source " + sourced: "Created /b", "zksh -f " + file: "Committed 3", "zksh <" + file: "Committed 3"} {
		s.line("clear; " + run + "; echo status $?; zksh undo -l")
		s.wantEnd(answer, "status 0", " no   age  command    znodes   bytes  by       path", "$")
	}
	cmd := exec.Command("zksh", "set", "/a", "4") // without a terminal
	cmd.Env = append(homeEnv(s.home), "ZKSH_SERVER="+server)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
	s.line("clear; zksh undo -l")
	s.wantEnd(" no   age  command    znodes   bytes  by       path", "$")
}
