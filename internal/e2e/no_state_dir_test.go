//go:build unix

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// envWithout returns an environment without the given variables.
func envWithout(env []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(names, name)
	})
}

// If there is no directory for the undo log, the prompt asks before it destroys anything, and a
// single command on a terminal prints a warning.
func TestUndoWithoutStateDirectory(t *testing.T) {
	t.Parallel()
	const why = `XDG_STATE_HOME is not set, and \$HOME is not defined`
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	runLinesAt(t, server, "create /app old\ncreate /app/x x")
	open := func(args ...string) *console {
		cmd := exec.Command("zksh", append([]string{"-q", "-server", server}, args...)...)
		cmd.Dir = t.TempDir()
		cmd.Env = envWithout(homeEnv(cmd.Dir), "HOME", "XDG_STATE_HOME")
		return startConsole(t, cmd.Dir, cmd)
	}
	c := open()
	c.expect(`the history will not be saved: ` + why + `\n`)
	c.expect(connected)
	for line, path := range map[string]string{"set /app new": "/app", "delete /app/x": "/app/x", "deleteall -y /app": "/app", "rmr -y /app": "/app"} {
		c.typeIn(line + "\r")
		c.expect(`zksh cannot save the whole subtree ` + path + ` for undo: ` + why + `\. Continue\? \[y/N\] `)
		c.typeIn("n\r")
		c.expect(anyPrompt)
	}
	c.run("undo -l", `^nothing is saved for undo: `+why+`\n`)
	c.run("get /app", `^old\n`)
	c.run("get /app/x", `^x\n`)
	c.typeIn("set /app new\r")
	c.expect(`\[y/N\] `)
	c.typeIn("y\r")
	c.expect(anyPrompt)
	c.run("get /app", `^new\n`)
	c.typeIn("\x04")
	c.wantStatus(0)

	one := open("deleteall", "-y", "/app")
	one.wantStatus(0)
	if want := `zksh cannot save the whole subtree /app for undo: XDG_STATE_HOME is not set, and $HOME is not defined; continuing anyway`; !strings.Contains(one.shown(), want) {
		t.Errorf("the terminal shows %q, want %q", one.shown(), want)
	}
	if got := runAt(t, server, "ls", "/"); got != "[zookeeper]\n" {
		t.Errorf("ls / prints %q", got)
	}
}

// zksh ignores a relative XDG_STATE_HOME and a relative XDG_CONFIG_HOME, as the specification
// requires, and uses the directories below the home directory.
func TestRelativeDirectories(t *testing.T) {
	t.Parallel()
	server, home, dir := zktest.Sandbox(t, sandbox.Options{}).Addr(), t.TempDir(), t.TempDir()
	write := func(name, text string) {
		zktest.Must(t, os.MkdirAll(filepath.Dir(name), 0o700))
		zktest.Must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	write(filepath.Join(home, ".config/zksh/config"), "server = "+server+"\n")
	write(filepath.Join(dir, "rel/zksh/config"), "server = "+zktest.Refused(t)+"\n")
	cmd := exec.Command("zksh", "-q")
	cmd.Dir, cmd.Env = dir, append(homeEnv(home), "XDG_STATE_HOME=rel", "XDG_CONFIG_HOME=rel")
	c := startConsole(t, home, cmd)
	c.expect(connected)
	c.run("create /a one", `^Created /a\n`)
	c.run("set /a two", "")
	c.typeIn("\x04")
	c.wantStatus(0)
	if found, err := filepath.Glob(filepath.Join(dir, "rel/zksh/*")); err != nil || len(found) != 1 {
		t.Errorf("%q, %v; want only the configuration", found, err)
	}
	for _, name := range []string{"history", "undo/1.dump"} {
		wantPrivate(t, filepath.Join(home, ".local/state/zksh", name))
	}
}
