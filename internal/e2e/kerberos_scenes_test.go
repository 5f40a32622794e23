//go:build unix

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zktest"
)

// A lock is held although the connection breaks again and again, and although the ticket of its
// holder ends. Each reconnect authenticates.
func (r *realm) lockAcrossTickets(t *testing.T) {
	proxy := zktest.NewProxy(t, r.server.Addr())
	begun, end := filepath.Join(r.dir, "begun"), filepath.Join(r.dir, "end")
	cmd := exec.Command("zksh", "--server", proxy.Addr(), "--jaas", r.keytab(t, "brief"),
		"lock", "/cut", "--", "sh", "-c", "touch "+begun+"; while ! [ -e "+end+" ]; do sleep 0.05; done")
	cmd.Env = append(homeEnv(t.TempDir()), "KRB5_CONFIG="+r.kdc.Conf)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	zktest.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // if the test has failed; else it has already ended
	zktest.Eventually(t, "the lock is held", func() bool { return exists(begun) })
	issued := func() int { return strings.Count(r.kdc.Log(), "brief@"+zktest.Realm+" for zookeeper/localhost") }
	first := issued()
	start := time.Now()
	zktest.Eventually(t, "the KDC issues another ticket", func() bool {
		proxy.Cut()
		zktest.Eventually(t, "the connection is back", func() bool {
			got := r.run(t, "", nil, "--jaas", r.keytab(t, "alice"), "lock", "-n", "/cut", "--", "true")
			if got.status != commands.StatusNotLocked {
				t.Errorf("another client's attempt: %+v", got)
			}
			return true
		})
		return issued() > first
	})
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	zktest.Must(t, os.WriteFile(end, nil, 0o600))
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program under the lock: %v\n%s", err, out.String())
	}
}

// At the prompt, zksh warns once, two hours before the end of a ticket that it cannot renew.
func (r *realm) ticketEndsSoon(t *testing.T) {
	for lifetime, warnings := range map[string]int{"1h": 1, "5h": 0} {
		dir := t.TempDir()
		cmd := exec.Command("zksh", "-server", r.server.Addr(), "--kerberos")
		cmd.Env = append(homeEnv(dir), "KRB5_CONFIG="+r.kdc.Conf, "KRB5CCNAME="+r.kdc.Kinit("alice", "-l", lifetime))
		c := startConsole(t, dir, cmd)
		c.expect(connected)
		c.run("ls /", `zookeeper\]`)
		c.run("ls /zookeeper", `\[config, quota\]`)
		c.typeIn("quit\r")
		c.wantStatus(0)
		if n := strings.Count(c.shown(), "warning: the Kerberos ticket of alice@EXAMPLE.COM ends in "); n != warnings {
			t.Errorf("%s: %d warnings: %s", lifetime, n, c.shown())
		}
	}
}

// If the service gets new keys, its server rejects the ticket in the cache, and zksh gets a new one.
func (r *realm) newServiceKey(t *testing.T) {
	cache := r.kdc.Kinit("alice")
	r.kdc.Run("kvno", "-q", "-c", "FILE:"+cache, "zookeeper/localhost")
	zktest.Must(t, os.Remove(r.kdc.Keytab("zookeeper")))
	r.kdc.Admin("ktadd -k " + r.kdc.Keytab("zookeeper") + " zookeeper/localhost")
	r.server.Restart()
	got := r.run(t, "", []string{"KRB5CCNAME=" + cache}, "--kerberos", "whoami")
	if got.status != 0 || !strings.Contains(got.out, "sasl: alice") {
		t.Errorf("%+v", got)
	}
}

// tenMinutesAhead returns variables that set the clock of a process ten minutes ahead.
func tenMinutesAhead(t *testing.T) []string {
	t.Helper()
	libs, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	zktest.Must(t, err)
	zktest.Need(t, len(libs) > 0, "faketime")
	return []string{"FAKETIME=+10m", "LD_PRELOAD=" + libs[0]}
}

// If the clock of the KDC is wrong, the error says by how much.
func (r *realm) wrongClock(t *testing.T) {
	r.kdc.Stop()
	r.kdc.Start(tenMinutesAhead(t)...)
	for _, user := range []string{"alice", "bob"} { // bob needs no preauthentication
		got := r.run(t, "", nil, "--jaas", r.keytab(t, user), "whoami")
		if got.status == 0 || !strings.Contains(got.err, "the clock of the KDC is ") || !strings.Contains(got.err, " ahead of that of this computer") {
			t.Errorf("%s: %+v", user, got)
		}
	}
	r.kdc.Stop()
	r.kdc.Start()
}

// Servers that let clients in without SASL, or that require it, do not change what zksh does.
func TestKerberosServers(t *testing.T) {
	t.Parallel()
	kdc := zktest.StartKDC(t)
	for name, c := range map[string]struct {
		properties []string // are true
		other      string
	}{
		"forgiving": {[]string{"zookeeper.allowSaslFailedClients"}, "the server has not proved its identity"},
		"requiring, with a subkey": {
			[]string{"zookeeper.sessionRequireClientSASLAuth", "sun.security.krb5.acceptor.subkey"},
			"the server rejected the Kerberos ticket",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := []zktest.Option{zktest.Kerberos(kdc)}
			for _, property := range c.properties {
				options = append(options, zktest.JavaProperty(property, "true"))
			}
			r := &realm{kdc, zktest.Start(t, options...), t.TempDir()}
			got := r.run(t, "", nil, "--jaas", r.keytab(t, "alice"), "whoami")
			if got.status != 0 || !strings.Contains(got.out, "sasl: alice") {
				t.Errorf("%+v", got)
			}
			properties := filepath.Join(r.dir, "other.properties")
			zktest.Must(t, os.WriteFile(properties, []byte("zookeeper.server.principal=hbase/other.host\n"), 0o600))
			got = r.run(t, "", nil, "--jaas", r.keytab(t, "alice"), "--client-configuration", properties, "ls", "/")
			if got.status == 0 || !strings.Contains(got.err, c.other) || got.out != "" {
				t.Errorf("%+v", got)
			}
		})
	}
}

// mirror copies between an ensemble with Kerberos and one with TLS. Each gets only its own
// credentials.
func (r *realm) mirror(t *testing.T) {
	c, home := newTLSServer(t), t.TempDir()
	zktest.Must(t, os.MkdirAll(filepath.Join(home, "config", "zksh"), 0o700))
	config := fmt.Sprintf("[realm]\nserver = %s\njaas = %s\n[tls]\nserver = %s\ncacert = %s\ncert = %s\n",
		r.server.Addr(), r.keytab(t, "alice"), c.addr, c.ca.File, c.alice)
	zktest.Must(t, os.WriteFile(filepath.Join(home, "config", "zksh", "config"), []byte(config), 0o600))
	run := func(args ...string) programResult {
		cmd := exec.CommandContext(zktest.Within(t), "zksh", args...)
		cmd.Env = append(homeEnv(home)[len(os.Environ()):], "KRB5_CONFIG="+r.kdc.Conf)
		return runCommand(t, "", cmd)
	}
	for _, args := range [][]string{
		{"@realm", "create", "/a", "data"},
		{"@realm", "mirror", "-y", "/a", "@tls:/b"},
		{"@tls", "mirror", "-y", "/b", "@realm:/c"},
	} {
		if got := run(args...); got.status != 0 {
			t.Errorf("%q: %+v", args, got)
		}
	}
	if got := run("@realm", "get", "/c"); got.out != "data\n" {
		t.Errorf("%+v", got)
	}
	for cluster, kerberos := range map[string]bool{"@realm": true, "@tls": false} {
		if got := run(cluster, "whoami"); strings.Contains(got.out, "sasl: alice") != kerberos || got.status != 0 {
			t.Errorf("%s: %+v", cluster, got)
		}
	}
}

// otherRealm logs in as a user of another realm, with a keytab and with the cache of kinit. If
// krb5.conf does not say in which realm the server is, carol's KDC does.
func (r *realm) otherRealm(t *testing.T) {
	other, lacking := r.kdc.Other()
	cache := "KRB5CCNAME=" + other.Kinit("carol")
	for name, args := range map[string][]string{
		"keytab": {"--jaas", r.jaas(t, `useKeyTab=true keyTab="`+other.Keytab("carol")+`" principal="carol"`)},
		"cache":  {"--kerberos"},
	} {
		got := r.run(t, "", []string{"KRB5_CONFIG=" + other.Conf, cache}, append(args, "--trace", "/dev/stderr", "whoami")...)
		if got.status != 0 || !strings.Contains(got.out, "\nsasl: carol@OTHER.ORG\n") || !strings.Contains(got.err, "Kerberos: carol@OTHER.ORG, proved to zookeeper/localhost@EXAMPLE.COM, with the ") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	r.kdc.Admin("addprinc -randkey zookeeper/zk.example.com")
	principal := filepath.Join(r.dir, "principal.properties")
	zktest.Must(t, os.WriteFile(principal, []byte("zookeeper.server.principal=zookeeper/zk.example.com\n"), 0o600))
	got := r.run(t, "", []string{"KRB5_CONFIG=" + lacking, cache}, "--kerberos", "--client-configuration", principal, "whoami")
	const issued = "carol@OTHER.ORG for zookeeper/zk.example.com@EXAMPLE.COM"
	if !strings.Contains(got.err, "the server rejected the Kerberos ticket of carol@OTHER.ORG") || !strings.Contains(r.kdc.Log(), issued) { // the server has another key
		t.Errorf("%+v\n%s\n%s", got, other.Log(), r.kdc.Log())
	}
}
