//go:build unix

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// For a cluster with writes = ask, the prompt shows the cluster's name in its colour, and zksh
// asks before every write.
func TestClusterInteractive(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	s := openBash(t, 100, 30)
	dir := filepath.Join(s.home, "config", "zksh")
	zktest.Must(t, os.MkdirAll(dir, 0o700))
	config := fmt.Sprintf("[live]\nserver = %s\nwrites = ask\ncolour = blue\n[safe]\nserver = %[1]s\nwrites = never\n", server)
	zktest.Must(t, os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600))
	s.line("clear; zksh -q @live")
	s.want(`\[zk: @live\(CONNECTED\) 0\]$`)
	if colored := s.tmux("capture-pane", "-p", "-e"); !strings.Contains(colored, "\x1b[34m[zk: @live(CONNECTED) 0]") {
		t.Errorf("the prompt is not blue: %q", colored)
	}
	s.line("create /x")
	s.want(`create /x is about to run on @live\. Continue\? \[y/N\]`)
	s.line("")
	s.want(`^the command was not run$`)
	s.keys("C-l")
	s.want(`\A\[zk: @live\(CONNECTED\) 1\]$`)
	s.line("create /x")
	s.want(`create /x is about to run on @live\. Continue\? \[y/N\]$`)
	s.line("y")
	s.want(`^Created /x$`)
	s.keys("C-l")
	s.line("deleteall /x")
	s.want(`^delete /x, which has no children \(not ephemeral\) on @live\? \[y/N\]$`)
	s.line("y")
	s.want(`\(CONNECTED\) 3\]$`)
	s.line("undo")
	s.want(`^about to undo .*deleteall /x.* on @live\. .*\[y/N\]$`)
	s.line("y")
	s.want(`^undid .*1 created$`)
	s.line("deleteall -y /x")
	s.want(`^deleteall -y /x .* on @live\. .*\[y/N\]$`)
	s.line("n")
	s.want(`\(CONNECTED\) 5\]$`)
	s.keys("C-l")
	s.line("deleteall /x | cat")
	s.want(`^delete /x, .* on @live\? \[y/N\]$`)
	s.line("n")
	s.want(`\(CONNECTED\) 6\]$`)
	s.text("connect @")
	s.want(`^ +@live$`)
	s.want(`^ +@safe$`)
	s.line("safe")
	s.want(`\[zk: @safe\(CONNECTED\) 7\]$`)
	s.line("delete /x")
	s.want(`^nothing was done: writes are disabled \(writes = never is set for @safe, `)
	s.line("ls /")
	s.want(`^\[x, zookeeper\]$`)
}

// Every command that writes has the effect Writes in its table entry, so that --no-write rejects
// the command before it runs. Without that effect, a command must not send anything that
// --no-write rejects.
func TestWritingCommandsDeclareIt(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	home := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(home, "zksh"), 0o700), // with the clusters that the examples use
		os.WriteFile(filepath.Join(home, "zksh", "config"), []byte("[staging]\nserver = "+server+"\n[standby]\nserver = "+server+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range registry().All() {
		if c.Name == "watch" || c.Name == "wait" { // these do not end by themselves, and only read
			continue
		}
		cmd := exec.CommandContext(zktest.Within(t), "zksh", "-server", server, "--no-write")
		cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+home)
		cmd.Stdin = strings.NewReader(c.Examples[0] + "\n")
		out, err := cmd.CombinedOutput()
		if refused := strings.Contains(string(out), "writes are disabled"); refused != c.Effect.Has(commands.Writes) {
			t.Errorf("%s: writes %v, refused %v: %v, %s", c.Examples[0], c.Effect.Has(commands.Writes), refused, err, out)
		}
	}
}

// zksh can read each configuration file that a document shows, and connect to its clusters. A
// password manager named pass prints the credential.
func TestDocConfiguration(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	runAt(t, server, "create", "/app")
	proxy := zktest.NewSOCKS(t, map[string]string{server: server}, "", "").Addr()
	bin := t.TempDir()
	zktest.Must(t, os.WriteFile(filepath.Join(bin, "pass"), []byte("#!/bin/sh\necho digest ann:secret\n"), 0o700))
	section := regexp.MustCompile(`(?m)^\[(.*)\]$`)
	eachDoc(t, "ini", func(t *testing.T, blocks []fenced) {
		for _, b := range blocks {
			config := regexp.MustCompile(`zk1:2181,zk2:2181,zk3:2181|old:2181`).ReplaceAllString(b.text, server)
			config = strings.ReplaceAll(config, "localhost:1080", proxy)
			home := t.TempDir()
			dir := filepath.Join(home, "config", "zksh")
			err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600),
				os.WriteFile(filepath.Join(dir, "prod.auth"), []byte("digest ann:secret\n"), 0o600))
			zktest.Must(t, err)
			lines := map[string]string{}
			if strings.HasPrefix(config, "server") {
				lines["ls /"] = "[app, zookeeper]\n"
			}
			for _, m := range section.FindAllStringSubmatch(config, -1) {
				lines["@"+m[1]+" ls /"] = "[app, zookeeper]\n"
				if strings.Contains(config, "["+m[1]+"]\nserver = "+server+"/app\n") {
					lines["@"+m[1]+" ls /"] = "[]\n"
				}
			}
			for args, want := range lines {
				cmd := exec.CommandContext(zktest.Within(t), "zksh", strings.Fields(args)...)
				cmd.Env = append(homeEnv(home), "PATH="+bin+":"+os.Getenv("PATH"))
				if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
					t.Errorf("zksh %s: %q, %v", args, out, err)
				}
			}
		}
	})
}
