//go:build unix

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// A realm is a real KDC with a real ZooKeeper server that uses it.
type realm struct {
	kdc    *zktest.KDC
	server *zktest.Server
	dir    string
}

func newRealm(t *testing.T, opts ...zktest.Option) *realm {
	t.Helper()
	kdc := zktest.StartKDC(t)
	return &realm{kdc, zktest.Start(t, append([]zktest.Option{zktest.Kerberos(kdc)}, opts...)...), t.TempDir()}
}

// jaas writes a JAAS file, and returns its path. DIR in the options stands for the directory of
// the keytabs.
func (r *realm) jaas(t *testing.T, options string) string {
	t.Helper()
	f, err := os.CreateTemp(r.dir, "*.jaas")
	zktest.Must(t, err)
	defer f.Close()
	_, err = fmt.Fprintf(f, "Client {\n com.sun.security.auth.module.Krb5LoginModule required\n %s;\n};\n", strings.ReplaceAll(options, "DIR", r.kdc.Dir))
	zktest.Must(t, err)
	return f.Name()
}

func (r *realm) keytab(t *testing.T, user string) string {
	t.Helper()
	return r.jaas(t, `useKeyTab=true keyTab="DIR/`+user+`.keytab" principal="`+user+`"`)
}

// run runs zksh on the server. env is added to the environment.
func (r *realm) run(t *testing.T, stdin string, env []string, args ...string) programResult {
	t.Helper()
	cmd := exec.CommandContext(zktest.Within(t), "zksh", append([]string{"--server", r.server.Addr()}, args...)...)
	cmd.Env = append([]string{"KRB5_CONFIG=" + r.kdc.Conf}, env...)
	return runCommand(t, stdin, cmd)
}

// TestKerberos runs zksh against a real KDC and a real server that uses it.
func TestKerberos(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	t.Run("logins", func(t *testing.T) { r.logins(t) })
	t.Run("failures", func(t *testing.T) { r.failures(t) })
	t.Run("ACL", func(t *testing.T) { r.acl(t) })
	t.Run("zkCli", func(t *testing.T) { r.compareWithZkCli(t) })
	eachDoc(t, "console kerberos", r.document)
	t.Run("lock", func(t *testing.T) { r.lockAcrossTickets(t) })
	t.Run("ticket", func(t *testing.T) { r.ticketEndsSoon(t) })
	t.Run("silent KDC", func(t *testing.T) { r.silentKDC(t) })
	t.Run("renewed ticket", func(t *testing.T) { r.renewedTicket(t) })
	t.Run("completion", func(t *testing.T) { r.completion(t) })
	t.Run("clock", func(t *testing.T) { r.wrongClock(t) })
	t.Run("other realm", func(t *testing.T) { r.otherRealm(t) })
	t.Run("new key", func(t *testing.T) { r.newServiceKey(t) })
}

func (r *realm) logins(t *testing.T) {
	cache := r.kdc.Kinit("alice")
	withService := r.kdc.Kinit("alice")
	r.kdc.Run("kvno", "-q", "-c", "FILE:"+withService, "zookeeper/localhost")
	auth := filepath.Join(r.dir, "kerberos.auth")
	zktest.Must(t, os.WriteFile(auth, []byte("sasl kerberos\n"), 0o600))
	properties := filepath.Join(r.dir, "kerberos.properties")
	zktest.Must(t, os.WriteFile(properties, []byte("zookeeper.server.principal=zookeeper/localhost@"+zktest.Realm+"\nzookeeper.fips-mode=true\njava.security.krb5.conf="+r.kdc.Conf+
		"\njava.security.auth.login.config="+r.keytab(t, "alice")+"\n"), 0o600))
	for name, c := range map[string]struct {
		user string
		env  []string
		args []string
	}{
		"keytab":               {"alice", nil, []string{"--jaas", r.keytab(t, "alice")}},
		"AES-128":              {"ada", nil, []string{"--jaas", r.keytab(t, "ada")}},
		"RFC 8009":             {"sha", nil, []string{"--jaas", r.keytab(t, "sha")}},
		"no preauthentication": {"bob", nil, []string{"--jaas", r.keytab(t, "bob")}},
		"cache, option":        {"alice", []string{"KRB5CCNAME=FILE:" + cache}, []string{"--kerberos"}},
		"cache, auth-file":     {"alice", []string{"KRB5CCNAME=" + cache}, []string{"--auth-file", auth}},
		"cache, JAAS":          {"alice", nil, []string{"--jaas", r.jaas(t, `useTicketCache=true ticketCache="FILE:`+cache+`"`)}},
		"no cache, but keytab": {"alice", nil, []string{"--jaas", r.jaas(t, `useTicketCache=true ticketCache="DIR/none" useKeyTab=true keyTab="DIR/alice.keytab" principal="alice@`+zktest.Realm+`"`)}},
		"environment property": {"alice", []string{"KEYS=" + r.kdc.Dir}, []string{"--jaas", r.jaas(t, `useKeyTab=true keyTab="${KEYS}${/}alice.keytab" principal="alice"`)}},
		"properties":           {"alice", []string{"KRB5_CONFIG=/nowhere"}, []string{"--client-configuration", properties}},
		"second KDC":           {"alice", []string{"KRB5_CONFIG=" + r.kdc.Config("127.0.0.1:1", r.kdc.Addr)}, []string{"--jaas", r.keytab(t, "alice")}},
		"no KDC":               {"alice", []string{"KRB5_CONFIG=" + r.kdc.Config("127.0.0.1:1"), "KRB5CCNAME=" + withService}, []string{"--kerberos"}},
	} {
		got := r.run(t, "", c.env, append(c.args, "--trace", "/dev/stderr", "whoami")...)
		if got.status != 0 || !strings.Contains(got.out, "\nsasl: "+c.user+"\n") || !strings.Contains(got.err, "Kerberos: "+c.user+"@EXAMPLE.COM, proved to zookeeper/localhost@EXAMPLE.COM, with the ") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func (r *realm) failures(t *testing.T) {
	kt := r.keytab(t, "alice")
	property := func(line string) string {
		f, err := os.CreateTemp(r.dir, "*.properties")
		zktest.Must(t, err)
		defer f.Close()
		_, err = f.WriteString(line + "\n")
		zktest.Must(t, err)
		return f.Name()
	}
	damaged := filepath.Join(r.dir, "damaged")
	zktest.Must(t, os.WriteFile(damaged, []byte("\x05\x04\x00\x00 junk"), 0o600))
	wrong := filepath.Join(r.dir, "wrong.keytab")
	r.kdc.Run("sh", "-c", "printf 'add_entry -password -p alice -k 1 -e aes256-cts\nwrong\nwrite_kt "+wrong+"\n' | ktutil")
	expired := r.kdc.Kinit("bob", "-l", "1s")
	silent := zktest.Silent(t)
	for name, c := range map[string]struct {
		env  []string
		args []string
		want string
	}{
		"unknown principal":           {nil, []string{"--jaas", r.jaas(t, `useKeyTab=true keyTab="DIR/alice.keytab" principal="nobody"`)}, "has no usable key of nobody@EXAMPLE.COM"},
		"wrong keytab":                {nil, []string{"--jaas", r.jaas(t, `useKeyTab=true keyTab="`+wrong+`" principal="alice"`)}, "the KDC rejected the key of alice@EXAMPLE.COM in the keytab " + wrong},
		"no keytab":                   {nil, []string{"--jaas", r.jaas(t, `useKeyTab=true keyTab="DIR/none" principal="alice"`)}, "none does not exist"},
		"damaged keytab":              {nil, []string{"--jaas", r.jaas(t, `useKeyTab=true keyTab="`+damaged+`" principal="alice"`)}, "damaged"},
		"no cache":                    {[]string{"KRB5CCNAME=FILE:/nowhere"}, []string{"--kerberos"}, "the ticket cache /nowhere does not exist; get a ticket with kinit"},
		"damaged cache":               {[]string{"KRB5CCNAME=" + damaged}, []string{"--kerberos"}, "is damaged; get a new one with kinit"},
		"KEYRING":                     {[]string{"KRB5CCNAME=KEYRING:persistent:0"}, []string{"--kerberos"}, "type FILE, not KEYRING"},
		"expired":                     {[]string{"KRB5CCNAME=" + expired}, []string{"--kerberos"}, "the Kerberos ticket in " + expired + " ended at "},
		"other owner":                 {nil, []string{"--jaas", r.jaas(t, `useTicketCache=true ticketCache="`+expired+`" principal="alice"`)}, "belongs to bob@EXAMPLE.COM, not to alice"},
		"unknown service":             {nil, []string{"--jaas", kt, "--client-configuration", property("zookeeper.server.principal=zookeeper/nowhere")}, "does not know the service zookeeper/nowhere"},
		"unknown user of the service": {nil, []string{"--jaas", kt, "--client-configuration", property("zookeeper.sasl.client.username=zk")}, "does not know the service zk/localhost"},
		"other service":               {nil, []string{"--jaas", kt, "--client-configuration", property("zookeeper.server.principal=hbase/other.host")}, "the server rejected the Kerberos ticket of alice@EXAMPLE.COM for hbase/other.host"},
		"no krb5.conf":                {[]string{"KRB5_CONFIG=/nowhere"}, []string{"--jaas", kt}, "the Kerberos configuration /nowhere does not exist"},
		"KDC is down":                 {[]string{"KRB5_CONFIG=" + r.kdc.Config("127.0.0.1:1")}, []string{"--jaas", kt, "--timeout", "2000"}, "127.0.0.1:1: connection refused"},
		"KDC is silent":               {[]string{"KRB5_CONFIG=" + r.kdc.Config(silent)}, []string{"--jaas", kt, "--timeout", "2000"}, "did not answer in time"},
		"no ticket asked":             {nil, []string{"--jaas", r.jaas(t, `principal="alice"`)}, "sets neither useKeyTab=true nor useTicketCache=true"},
		"unknown property":            {nil, []string{"--jaas", r.jaas(t, `useKeyTab=true keyTab="${no.such}/a" principal="alice"`)}, "zksh does not know the property ${no.such}"},
	} {
		if name == "expired" {
			r.waitForEnd(t, expired)
		}
		start := time.Now()
		got := r.run(t, "", c.env, append(c.args, "whoami")...)
		if got.status == 0 || !strings.Contains(got.err, c.want) || strings.Contains(got.out, "sasl") || strings.Contains(got.err, "panic") {
			t.Errorf("%s: %+v; want %s", name, got, c.want)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s took %s", name, took)
		}
	}
}

// waitForEnd waits until the ticket in a cache has expired.
func (r *realm) waitForEnd(t *testing.T, cache string) {
	t.Helper()
	zktest.Eventually(t, "the ticket has expired", func() bool {
		return zktest.Command(zktest.Within(t), t, "klist", "-s", "-c", "FILE:"+cache).Run() != nil
	})
}

// Only alice can read a znode with the ACL sasl:alice, also after the connection was cut.
func (r *realm) acl(t *testing.T) {
	const script = "create /guarded secret sasl:alice:cdrwa\nget /guarded\n"
	got := r.run(t, script, nil, "--jaas", r.keytab(t, "alice"))
	if got.status != 0 || !strings.HasSuffix(got.out, "secret\n") {
		t.Errorf("%+v", got)
	}
	got = r.run(t, "", nil, "--jaas", r.keytab(t, "bob"), "get", "/guarded")
	if got.status == 0 || !strings.Contains(got.err, "Insufficient permission") {
		t.Errorf("%+v", got)
	}
}

// compareWithZkCli runs zkCli and zksh with the same JAAS sections. Both log in, or neither does.
func (r *realm) compareWithZkCli(t *testing.T) {
	cache := r.kdc.Kinit("alice")
	for options, want := range map[string]bool{
		`useKeyTab=true keyTab="DIR/alice.keytab" storeKey=true useTicketCache=false principal="alice@EXAMPLE.COM"`: true,
		`useKeyTab=true keyTab="DIR/alice.keytab" principal="alice" doNotPrompt=true refreshKrb5Config=true`:        true,
		`useKeyTab=false useTicketCache=true ticketCache="CACHE"`:                                                   true,
		`useTicketCache=true renewTGT=true doNotPrompt=true`:                                                        true,
		`useTicketCache=true principal="alice"`:                                                                     true,
		`useTicketCache=true ticketCache="DIR/none" useKeyTab=true keyTab="DIR/alice.keytab" principal="alice"`:     true,
		`useTicketCache=true ticketCache="FILE:CACHE"`:                                                              true,
		`useKeyTab=true keyTab="FILE:DIR/alice.keytab" principal="alice"`:                                           true,
		`useKeyTab=true principal="alice"`:                                                                          true, // default_keytab_name
		`principal="alice"`:                                                                                         false,
		`useTicketCache=true principal="bob"`:                                                                       false,
	} {
		file := r.jaas(t, strings.ReplaceAll(options, "CACHE", cache))
		ours := strings.Contains(r.run(t, "", []string{"KRB5CCNAME=" + cache}, "--jaas", file, "whoami").out, "sasl: alice")
		cmd := zktest.Command(zktest.Within(t), t, "java", "-XX:TieredStopAtLevel=1", "-cp", zktest.ZkCliPath(),
			"-Djava.security.krb5.conf="+r.kdc.Conf, "-Djava.security.auth.login.config="+file,
			"org.apache.zookeeper.ZooKeeperMain", "-server", r.server.Addr(), "whoami")
		cmd.Env = append(os.Environ(), "KRB5CCNAME="+cache)
		out, _ := cmd.CombinedOutput() // zkCli's status does not say whether it logged in
		theirs := strings.Contains(string(out), "sasl: alice")
		if ours != want || theirs != want {
			t.Errorf("%s: zksh %t, zkCli %t, want %t\n%s", options, ours, theirs, want, out)
		}
	}
}

var ticketEnd = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`)

// document runs the examples of the manual. They use the real KDC and server, and the keytab of
// alice.
func (r *realm) document(t *testing.T, blocks []fenced) {
	keytab, err := os.ReadFile(r.kdc.Keytab("alice"))
	zktest.Must(t, err)
	zktest.Must(t, os.WriteFile(filepath.Join(r.dir, "alice.keytab"), keytab, 0o600))
	for _, b := range blocks {
		for command, want := range consoleLines(t, r.dir, b.text) {
			if command == "cat krb5.conf" {
				text := strings.ReplaceAll(want, "kdc.example.com", r.kdc.Addr)
				zktest.Must(t, os.WriteFile(filepath.Join(r.dir, "krb5.conf"), []byte(text), 0o600))
				continue
			}
			script := strings.ReplaceAll(command, "localhost:2181", r.server.Addr()) + " 2>&1"
			cmd := zktest.Command(zktest.Within(t), t, "sh", "-c", script)
			cmd.Dir = r.dir
			cmd.Env = []string{"KRB5_CONFIG=" + filepath.Join(r.dir, "krb5.conf"), "KRB5CCNAME=FILE:" + filepath.Join(r.dir, "cache")}
			got := strings.TrimSuffix(runCommand(t, "", cmd).out, "\n")
			if ticketEnd.ReplaceAllString(strings.ReplaceAll(got, r.dir+"/", "/tmp/"), "END") != ticketEnd.ReplaceAllString(want, "END") {
				t.Errorf("$ %s\ndocument: %q\nzksh:     %q", command, want, got)
			}
		}
	}
}
