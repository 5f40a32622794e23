//go:build unix

package e2e

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zktest"
)

// secret is the credential that must not appear in output, files or process lists.
const secret = "Tr0ub4dor-and-3"

// An enforcingServer is a real server that accepts only authenticated clients.
type enforcingServer struct {
	server *zktest.Server
	dir    string
}

func newEnforcingServer(t *testing.T) *enforcingServer {
	t.Helper()
	g := &enforcingServer{dir: t.TempDir()}
	jaas := g.write(t, "server.conf", `Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_bob="`+secret+`"; };`)
	g.server = zktest.Start(t,
		zktest.JavaProperty("java.security.auth.login.config", jaas),
		zktest.JavaProperty("zookeeper.enforce.auth.enabled", "true"),
		zktest.JavaProperty("zookeeper.enforce.auth.schemes", "digest,sasl"),
		zktest.Line("authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"))
	return g
}

func (g *enforcingServer) write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(g.dir, name)
	zktest.Must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// A server that enforces authentication accepts zksh: zksh sends its credentials as the first
// frames of every connection. Without them, the server answers nothing.
func TestEnforced(t *testing.T) {
	t.Parallel()
	g := newEnforcingServer(t)
	t.Run("accepts", func(t *testing.T) { g.accepts(t) })
	t.Run("rejects", func(t *testing.T) { g.rejects(t) })
	t.Run("reconnects", func(t *testing.T) { g.reconnects(t) })
	t.Run("interactive", func(t *testing.T) { g.interactive(t) })
	eachDoc(t, "console sasl", func(t *testing.T, blocks []fenced) {
		runDoc(t, blocks, g.dir, "localhost:2181", g.server.Addr())
	})
}

// loginOptions returns options with which a client can authenticate, by the kind of login.
func (g *enforcingServer) loginOptions(t *testing.T) map[string][]string {
	t.Helper()
	client := g.write(t, "client.conf", `Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="bob" password="`+secret+`"; };
		Other { org.apache.zookeeper.server.auth.DigestLoginModule required username="bob" password="`+secret+`"; };`)
	return map[string][]string{
		"digest": {"--auth-file", g.write(t, "digest.auth", "digest ann:"+secret+"\n")},
		"sasl":   {"--auth-file", g.write(t, "sasl.auth", "sasl bob:"+secret+"\n")},
		"jaas":   {"--jaas", client},
		"properties": {"-client-configuration", g.write(t, "sasl.properties",
			"zookeeper.sasl.client=true\nzookeeper.sasl.clientconfig=Other\njava.security.auth.login.config="+client+"\n")},
		"both": {"--jaas", client, "--auth-file", g.write(t, "both.auth", "digest ann:"+secret+"\n")},
	}
}

func (g *enforcingServer) accepts(t *testing.T) {
	for way, options := range g.loginOptions(t) {
		r := runProgram(t, "whoami\nls /\n", append([]string{"-server", g.server.Addr()}, options...)...)
		if r.status != 0 || r.err != "" || !strings.HasSuffix(r.out, "[zookeeper]\n") {
			t.Errorf("%s: %+v", way, r)
		}
		if strings.Contains(r.out, "sasl: bob") != (way != "digest") || strings.Contains(r.out, "digest: ann") != (way == "digest" || way == "both") {
			t.Errorf("%s: %s", way, r.out)
		}
	}
}

func (g *enforcingServer) rejects(t *testing.T) {
	for _, c := range []struct {
		options []string
		want    string
		status  int
	}{
		{nil, "Session closed because client failed to authenticate", commands.StatusFailed},
		{[]string{"--auth-file", g.write(t, "wrong.auth", "sasl bob:wrong-"+secret+"\n")}, "the server rejected the SASL credentials of bob", commands.StatusNoServer},
		{[]string{"--jaas", g.write(t, "kerberos.conf", "Client { com.sun.security.auth.module.Krb5LoginModule required; };")},
			"sets neither useKeyTab=true nor useTicketCache=true", commands.StatusUsage},
	} {
		r := runProgram(t, "", append(append([]string{"-server", g.server.Addr(), "-timeout", "10000"}, c.options...), "ls", "/")...)
		if r.status != c.status || !strings.Contains(r.err, c.want) || strings.Count(r.err, "\n") != 1 || strings.Contains(r.err, secret) {
			t.Errorf("%q: %+v, want %s", c.options, r, c.want)
		}
	}
	// lock fails at once, without reporting that it waits.
	for _, flag := range [][]string{{"-n"}, {}} {
		r := runProgram(t, "", append([]string{"-server", g.server.Addr(), "-timeout", "10000", "lock"}, append(flag, "/el", "--", "true")...)...)
		if r.status == commands.StatusOK || strings.Contains(r.err, "waiting") || !strings.Contains(r.err, "authenticate") {
			t.Errorf("lock %s: %+v", flag, r)
		}
	}
	// The shared server has no Server section in a JAAS configuration. It answers like a server
	// in FIPS mode, which ignores that section.
	r := runProgram(t, "", "-server", zktest.Shared(t).Addr(), "--jaas", g.loginOptions(t)["jaas"][1], "ls", "/")
	if r.status != commands.StatusNoServer || !strings.Contains(r.err, "or it runs in FIPS mode, which forbids this mechanism") || r.out != "" {
		t.Errorf("%+v", r)
	}
}

// reconnects checks that zksh also authenticates on later connections: after a cut, for a lock,
// and for the connect command.
func (g *enforcingServer) reconnects(t *testing.T) {
	for way, options := range g.loginOptions(t) {
		proxy := zktest.NewProxy(t, g.server.Addr())
		begun, end := filepath.Join(g.dir, way+".begun"), filepath.Join(g.dir, way+".end")
		p := openPipeline(t, append(append([]string{"-server", proxy.Addr()}, options...), "lock", "/"+way, "--",
			"sh", "-c", "touch "+begun+"; while ! [ -e "+end+" ]; do sleep 0.05; done")...)
		zktest.Eventually(t, "the lock is held", func() bool { return exists(begun) })
		proxy.Cut()
		// -q suppresses remarks. They depend on how soon the server reports the addresses of its
		// clients.
		r := runProgram(t, "connect\nlocks /"+way+"\n", append([]string{"-q", "-server", g.server.Addr()}, options...)...)
		if !strings.Contains(r.out, "holds") || r.err != "" || r.status != commands.StatusNotLocked {
			t.Errorf("%s: %+v", way, r)
		}
		zktest.Must(t, os.WriteFile(end, nil, 0o600))
		p.in.Close()
		if err := p.cmd.Wait(); err != nil || strings.Contains(p.errs.String(), secret) {
			t.Errorf("%s: %v\n%s", way, err, p.errs.String())
		}
	}
}

// interactive checks that the credential appears neither in the completion menu, the history,
// the files of the user nor the process list.
func (g *enforcingServer) interactive(t *testing.T) {
	options := append([]string{"-server", g.server.Addr()}, g.loginOptions(t)["both"]...)
	s := openBash(t, 160, 40)
	s.line("clear; zksh " + strings.Join(options, " "))
	s.want(`\(CONNECTED\) 0\]$`)
	s.text("get /zookeeper/co")
	s.keys("Tab")
	s.want(`\] get /zookeeper/config ?$`)
	s.keys("Enter")
	s.line("addauth digest eve:" + secret)
	s.line("whoami")
	s.want(`digest: eve`)
	s.line("clear")
	s.keys("C-l")
	s.line("history")
	s.want(`addauth`)
	s.line(`lock /byhand -- sh -c 'tr "\0" " " < /proc/$$/cmdline; tr "\0" " " < /proc/$PPID/cmdline; env; ps -ef'`)
	s.line("servers")
	shown := s.want(`quorum: 1 of 1 servers answer`)
	if strings.Contains(shown, secret) {
		t.Errorf("the credential is shown:\n%s", shown)
	}
	s.line("quit")
	s.wantEnd("$")
	home := s.home
	err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), secret) {
			t.Errorf("%s has the credential", path)
		}
		return err
	})
	zktest.Check(t, err)
	for _, form := range []string{"text", "table", "json"} {
		r := runProgram(t, "whoami\nhistory\nconnect\nlocks\naddauth digest\nget /none\n", append(options, "-o", form)...)
		if strings.Contains(r.out+r.err, secret) {
			t.Errorf("%s: %+v", form, r)
		}
	}
}

// runDoc runs blocks of a document, with real in place of the server address in the document.
func runDoc(t *testing.T, blocks []fenced, dir, address, real string) {
	t.Helper()
	for _, b := range blocks {
		for command, want := range consoleLines(t, dir, b.text) {
			cmd := exec.Command("sh", "-c", strings.ReplaceAll(command, address, real)+" 2>&1")
			cmd.Dir = dir
			r := runCommand(t, "", cmd)
			if got := strings.ReplaceAll(strings.TrimSuffix(r.out, "\n"), port(real), port(address)); dates.ReplaceAllString(got, "DATE") != dates.ReplaceAllString(want, "DATE") {
				t.Errorf("$ %s\ndocument: %q\nzksh:     %q", command, want, got)
			}
		}
	}
}
