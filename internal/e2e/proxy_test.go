//go:build unix

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// With a proxy, zksh reaches servers whose names only the proxy knows: for commands, four-letter
// commands, completion and copies between ensembles. The proxy's password never appears.
func TestProxy(t *testing.T) {
	t.Parallel()
	far := zktest.Sandbox(t, sandbox.Options{})
	socks := zktest.NewSOCKS(t, map[string]string{"zk1.invalid:2181": zktest.Shared(t).Addr(), "far.invalid:2181": far.Addr()}, "ann", "sesame")
	url := "socks5://ann:sesame@" + socks.Addr()
	home := t.TempDir()
	dir := filepath.Join(home, "config", "zksh")
	zktest.Must(t, os.MkdirAll(dir, 0o700))
	config := "[near]\nserver = zk1.invalid\nproxy = " + url + "\n[far]\nserver = far.invalid\nproxy = " + url + "\n[direct]\nserver = " + far.Addr() + "\n"
	zktest.Must(t, os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600))
	run := func(args ...string) programResult {
		t.Helper()
		cmd := exec.CommandContext(zktest.Within(t), "zksh", args...)
		cmd.Env = homeEnv(home)
		r := runCommand(t, "", cmd)
		if strings.Contains(r.out+r.err, "sesame") {
			t.Errorf("%q shows the password: %+v", args, r)
		}
		return r
	}
	for _, c := range []struct {
		args string
		want string // part of the output, or of the error if the status is not 0
		ok   bool
	}{
		{"@near create /proxied data", "Created /proxied", true},
		{"--proxy " + url + " --server zk1.invalid get /proxied", "data", true},
		{"@near servers", "zk1.invalid:2181", true},
		{"@near cp /proxied @far:/copy", "", true},
		{"@direct get /copy", "data", true},
		{"--proxy " + url + " --server zk1.invalid cp --overwrite /proxied @direct:/copy", "proxy socks5://" + socks.Addr() + ": cannot connect to the server: host unreachable", false},
		{"--proxy= --timeout 2000 @near get /proxied", "zk1.invalid:2181: unknown host", false},
		{"--proxy http://ann:sesame@h --server zk1.invalid ls /", "the proxy must be written as socks5://", false},
		{"--proxy socks5://ann:sesame@h:x --server zk1.invalid ls /", "the proxy must be written as socks5://", false},
		{"--sandbox --proxy " + url + " ls /", "--sandbox and --proxy cannot be combined", false},
	} {
		r := run(strings.Fields(c.args)...)
		if r.status == commands.StatusOK != c.ok || !strings.Contains(r.out+r.err, c.want) {
			t.Errorf("%s: %+v", c.args, r)
		}
	}
	wantProposed(t, homeEnv(home), "zksh @near get /proxi", "more\n/proxied\n", "zsh")
	if asked := socks.Asked(); !slices.Contains(asked, "zk1.invalid:2181") || !slices.Contains(asked, "far.invalid:2181") {
		t.Errorf("the proxy was asked for %q", asked)
	}
}
