//go:build unix

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// An auth-command runs once per process, for the session's own cluster, for connect and for other
// ensembles. Its output and arguments never appear.
func TestAuthCommand(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	dir := filepath.Join(home, "config", "zksh")
	zktest.Must(t, os.MkdirAll(dir, 0o700))
	runs := filepath.Join(home, "runs")
	here, far := zktest.Sandbox(t, sandbox.Options{}).Addr(), zktest.Sandbox(t, sandbox.Options{}).Addr()
	section := func(name, server, command string) string {
		return "[" + name + "]\nserver = " + server + "\nauth-command = " + command + "\n"
	}
	config := section("prod", here, "echo run >>"+runs+"; echo digest ann:sesame; echo digest eve:sesame") +
		section("far", far, "echo far >>"+runs+"; echo digest bob:sesame") +
		section("fails", here, "SECRET=sesame false sesame; echo digest ann:sesame; exit 3") +
		section("empty", here, "true sesame") +
		section("malformed", here, "echo sesame") +
		section("missing", here, "no-such-sesame sesame") +
		section("folder", here, home+" sesame") +
		section("slow", here, "sleep 60") +
		section("quoted", here, "PW='my sesame' false") +
		section("comment", here, "printf '# comment\\ndigest ann:sesame\\n'") +
		section("long", here, "printf 'digest ann:sesame%070000d\\n' 1") +
		section("agent", here, "echo digest ann:sesame; sleep 30 &") +
		section("cut", here, "printf 'digest ann:sesame'; sleep 30 &")
	zktest.Must(t, os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600))
	file := filepath.Join(home, "auth")
	zktest.Must(t, os.WriteFile(file, []byte("digest max:sesame\n"), 0o600))
	run := func(stdin string, args ...string) (r programResult, ran string) {
		t.Helper()
		cmd := exec.CommandContext(zktest.Within(t), "zksh", args...)
		cmd.Env = homeEnv(home)
		r = runCommand(t, stdin, cmd)
		if strings.Contains(r.out+r.err, "sesame") {
			t.Errorf("%q shows the credential: %+v", args, r)
		}
		log, err := os.ReadFile(runs)
		if err == nil {
			zktest.Must(t, os.Remove(runs))
		}
		return r, string(log)
	}
	r, ran := run("create /mine data auth::cdrwa\nget /mine\nconnect @far\nwhoami\nconnect @prod\nget /mine\nclose\nconnect\nget /mine\nconnect "+far+"\nwhoami\n", "@prod")
	if r.status != 0 || strings.Count(r.out, "data\n") != 3 || strings.Count(r.out, "digest: bob\n") != 1 || ran != "run\nfar\n" {
		t.Errorf("connect: %+v, ran %q", r, ran)
	}
	r, ran = run("", "@prod", "cp", "/mine", "@far:/copy")
	if r.status != 0 || ran != "run\nfar\n" {
		t.Errorf("cp: %+v, ran %q", r, ran)
	}
	if r, ran = run("", "@prod", "whoami"); strings.Contains(r.out, "eve") || !strings.Contains(r.out, "digest: ann\n") || ran != "run\n" {
		t.Errorf("only the first line is a credential: %+v", r)
	}
	if r, ran = run("", "--auth-file", file, "@prod", "whoami"); !strings.Contains(r.out, "digest: max\n") || strings.Contains(r.out, "ann") || ran != "" {
		t.Errorf("--auth-file: %+v, ran %q", r, ran)
	}
	if r, _ = run("", "@agent", "whoami"); r.status != 0 || !strings.Contains(r.out, "digest: ann\n") || r.err != "" {
		t.Errorf("a command that leaves an agent running: %+v", r)
	}
	if got := proposed(t, homeEnv(home), "zksh @prod ls /", "zsh"); got == "" {
		t.Log("completion was too slow to answer")
	}
	if _, err := os.Stat(runs); err == nil {
		t.Error("completion ran the command")
	}
	const none = "the first line of its output contains no credential; expected SCHEME CREDENTIAL, for example digest user:password\n"
	for name, want := range map[string]string{
		"fails":     "zksh: auth-command of @fails: exit status 3\n",
		"quoted":    "zksh: auth-command of @quoted: exit status 1\n",
		"empty":     "zksh: auth-command of @empty: " + none,
		"comment":   "zksh: auth-command of @comment: " + none,
		"malformed": "zksh: auth-command of @malformed:1: expected SCHEME CREDENTIAL, for example digest user:password\n",
		"missing":   "zksh: auth-command of @missing: executable file not found in $PATH\n",
		"folder":    "zksh: auth-command of @folder: permission denied\n",
		"slow":      "zksh: auth-command of @slow: the command did not finish within 10s; zksh has terminated it\n",
		"long":      "zksh: auth-command of @long: the first line of its output has more than 65535 bytes\n",
		"cut": "zksh: auth-command of @cut: the command ended, but a program that it started keeps its output open," +
			" and the first line does not end with a line break; redirect the output of that program\n",
	} {
		if r, _ := run("", "@"+name, "ls", "/"); r.status != commands.StatusFailed || r.err != want || r.out != "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r, _ := run("", "@prod", "cp", "/mine", "@fails:/copy"); r.status == 0 || !strings.Contains(r.err, "auth-command of @fails: exit status 3") {
		t.Errorf("cp to a cluster whose command fails: %+v", r)
	}
}

// Ctrl-C cancels an auth-command.
func TestAuthCommandIsInterrupted(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	dir := filepath.Join(home, "config", "zksh")
	zktest.Must(t, os.MkdirAll(dir, 0o700))
	begun := filepath.Join(home, "begun")
	zktest.Must(t, os.WriteFile(filepath.Join(dir, "config"), []byte("auth-command = touch "+begun+"; exec sleep 60\n"), 0o600))
	cmd := exec.CommandContext(zktest.Within(t), "zksh", "ls", "/")
	cmd.Env = homeEnv(home)
	zktest.Must(t, cmd.Start())
	zktest.Eventually(t, "the command to run", func() bool {
		_, err := os.Stat(begun)
		return err == nil
	})
	at := time.Now()
	zktest.Must(t, cmd.Process.Signal(os.Interrupt))
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != commands.StatusInterrupted || time.Since(at) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(at))
	}
}
