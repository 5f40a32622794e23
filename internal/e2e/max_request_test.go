//go:build unix

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/zktest"
)

// zksh sends large requests to a server with a raised jute.maxbuffer if max-request is set: by
// the option, in the configuration file or one of its sections, or in zkCli's client
// configuration. The option overrides the others.
func TestMaxRequest(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t, zktest.Heap(128), zktest.JavaProperty("jute.maxbuffer", "3000000")).Addr()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"big":                  strings.Repeat("x", 2_000_000),
		"config/zksh/config":   "max-request = 2500000\n[raised]\nserver = " + server + "\nmax-request = 2500000\n[usual]\nserver = " + server + "\n",
		"java":                 "jute.maxbuffer=0x2625a0\n",
		"small":                "jute.maxbuffer=1000\n",
		"elsewhere/zksh/empty": "",
	} {
		zktest.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		zktest.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	const rejected = "was not sent"
	for _, c := range []struct {
		config string
		args   string
		says   string // part of the expected error; empty means success
	}{
		{"elsewhere", "-server " + server, rejected},
		{"elsewhere", "-server " + server + " --max-request 2500000", ""},
		{"elsewhere", "-server " + server + " --max-request 1500000", "by --max-request or jute.maxbuffer, is 1500000"},
		{"elsewhere", "-server " + server + " --client-configuration java", ""},
		{"elsewhere", "-server " + server + " --client-configuration java --max-request 1500000", "by --max-request or jute.maxbuffer, is 1500000"},
		{"elsewhere", "-server " + server + " --client-configuration small", "servers accept at most 1048575"},
		{"config", "-server " + server, ""},
		{"config", "@raised", ""},
		{"config", "@usual", rejected},
	} {
		cmd := exec.Command("zksh", append(strings.Fields(c.args), "set", "-f", "big", "/")...)
		cmd.Dir = dir
		cmd.Env = append(homeEnv(dir), "XDG_CONFIG_HOME="+filepath.Join(dir, c.config))
		said, err := cmd.CombinedOutput()
		if (err == nil) != (c.says == "") || !strings.Contains(string(said), c.says) {
			t.Errorf("%s with %s: %v: %s", c.args, c.config, err, said)
		}
	}
	// import omits only the znodes that are too large, and names them.
	for _, args := range []string{
		"-server " + server + " create /tree", "-server " + server + " create /tree/a", "-server " + server + " create /tree/b",
		"-server " + server + " create /tree/c", "@raised set -f big /tree/b", "-server " + server + " export -R /tree dump",
	} {
		if said, err := run(t, dir, args); err != nil {
			t.Fatalf("%s: %v: %s", args, err, said)
		}
	}
	usual := zktest.Start(t, zktest.Heap(128)).Addr()
	said, err := run(t, dir, "-server "+usual+" import -R dump /tree")
	if err == nil || !strings.Contains(said, "zksh rejected 1: the request for /tree/b was not sent, because it has 20000") {
		t.Errorf("%v: %s", err, said)
	}
	if said, err := run(t, dir, "-server "+usual+" ls /tree"); err != nil || said != "[a, c]\n" {
		t.Errorf("%v: %s", err, said)
	}
	// A request that is too large for the server costs the connection. The error says so once.
	said, _ = run(t, dir, "-server "+usual+" --max-request 2500000 set -f big /")
	if !strings.Contains(said, "it is unknown whether it took effect; its size, 20000") || strings.Count(said, "(") != 1 {
		t.Errorf("%s", said)
	}
}

// run runs zksh in a directory with configuration files and returns its output. The
// configuration is used only if args begins with @.
func run(t *testing.T, dir, args string) (string, error) {
	cmd := exec.Command("zksh", strings.Fields(args)...)
	cmd.Dir, cmd.Env = dir, append(homeEnv(dir), "XDG_CONFIG_HOME="+filepath.Join(dir, "config"))
	if !strings.HasPrefix(args, "@") {
		cmd.Env = append(cmd.Env, "XDG_CONFIG_HOME="+filepath.Join(dir, "elsewhere"))
	}
	said, err := cmd.CombinedOutput()
	return string(said), err
}
