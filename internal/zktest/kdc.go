package zktest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Realm is the realm of every KDC that StartKDC starts.
const Realm = "EXAMPLE.COM"

// otherRealm is the realm of the KDC that KDC.Other starts.
const otherRealm = "OTHER.ORG"

// kdcPassword is the password of all users of the realm.
const kdcPassword = "rabbit"

// A KDC is a real Kerberos server of one realm, with its principals and its files. Its methods end
// the test with Fatal if they fail.
//
// In Realm, the users alice, bob and brief have the password rabbit and a keytab each. Only alice needs
// preauthentication, and brief's tickets last 4 s. The keys of ada are for AES-128 only, and
// those of sha for RFC 8009 only. The services are zookeeper/localhost and hbase/other.host.
type KDC struct {
	tb   testing.TB
	Dir  string // contains the keytabs, as NAME.keytab
	Conf string // path of krb5.conf for clients
	Addr string

	realm string
	proc  *process
}

// StartKDC starts a KDC for the test tb, and returns once it answers.
func StartKDC(tb testing.TB) *KDC {
	tb.Helper()
	k := newKDC(tb, Realm)
	k.Admin("addprinc -randkey zookeeper/localhost", "addprinc -randkey hbase/other.host",
		"addprinc -pw rabbit +requires_preauth alice", "addprinc -pw rabbit bob",
		"addprinc -pw rabbit -maxlife 4s brief",
		"addprinc -pw rabbit -e aes128-cts:normal ada", "addprinc -pw rabbit -e aes256-sha2:normal sha")
	for _, name := range []string{"zookeeper/localhost", "hbase/other.host", "alice", "bob", "brief", "ada", "sha"} {
		file, _, _ := strings.Cut(name, "/")
		k.Admin("ktadd -norandkey -k " + k.Keytab(file) + " " + name)
	}
	k.Start()
	tb.Cleanup(k.Stop)
	return k
}

// Other starts a KDC of otherRealm. Its user carol can get tickets for the services in the realm of
// k. The krb5.conf of the new KDC says in which realm the host of the services is. lacking is the
// path of one that does not, so that clients depend on a referral by carol's KDC. It refers only names with a dot.
func (k *KDC) Other() (o *KDC, lacking string) {
	k.tb.Helper()
	o = newKDC(k.tb, otherRealm)
	realms, hosts := "[realms]\n", "[domain_realm]\n localhost = "+k.realm+"\n .example.com = "+k.realm+"\n"
	for _, side := range []*KDC{k, o} {
		realms += " " + side.realm + " = {\n  kdc = " + side.Addr + "\n }\n"
	}
	o.Conf = o.write("hosts-krb5.conf", o.defaults()+realms+hosts)
	for _, side := range []*KDC{k, o} {
		side.Admin("addprinc -pw trust -e aes256-cts:normal krbtgt/" + k.realm + "@" + o.realm)
	}
	o.Admin("addprinc -pw rabbit carol", "ktadd -norandkey -k "+o.Keytab("carol")+" carol")
	o.Start()
	k.tb.Cleanup(o.Stop)
	return o, o.write("no-hosts-krb5.conf", o.defaults()+realms)
}

// newKDC creates the database of a KDC that is not running yet.
func newKDC(tb testing.TB, realm string) *KDC {
	tb.Helper()
	if testing.Short() {
		tb.Skip("NOT TESTED: ", errShort)
	}
	_, err := exec.LookPath("kinit")
	Need(tb, err == nil && sbin("krb5kdc") != "" && sbin("kadmin.local") != "", "krb5-kdc krb5-admin-server krb5-user")
	port, err := freePort()
	Must(tb, err)
	k := &KDC{tb: tb, realm: realm, Dir: tb.TempDir(), Addr: loopback(port)}
	k.Conf = k.Config(k.Addr)
	k.write("kdc.conf", fmt.Sprintf(`[kdcdefaults]
 kdc_listen = %[2]s
 kdc_tcp_listen = %[2]s
[realms]
 %[3]s = {
  database_name = %[1]s/principal
  key_stash_file = %[1]s/stash
  acl_file = %[1]s/kadm5.acl
  master_key_type = aes256-cts
  supported_enctypes = aes256-cts:normal aes128-cts:normal
  max_life = 10h
  max_renewable_life = 7d
 }
[logging]
 kdc = FILE:%[1]s/kdc.log
`, k.Dir, k.Addr, realm))
	k.Run(sbin("kdb5_util"), "create", "-s", "-r", realm, "-P", "master")
	return k
}

// sbin returns the path of a program of the KDC. Its directory is often not in PATH.
func sbin(name string) string {
	for _, dir := range []string{"/usr/sbin", "/usr/bin"} {
		if path := filepath.Join(dir, name); exists(path) {
			return path
		}
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Start starts the KDC again after Stop. env is added to its environment.
func (k *KDC) Start(env ...string) {
	k.tb.Helper()
	cmd := exec.Command(sbin("krb5kdc"), "-n", "-r", k.realm, "-P", filepath.Join(k.Dir, "kdc.pid"))
	cmd.Env, cmd.SysProcAttr = append(k.env(), env...), dieWithParent()
	var err error
	k.proc, err = startProcess(cmd)
	Must(k.tb, err)
	Eventually(k.tb, "the KDC does not answer", func() bool { return listens(k.Addr) })
}

// Stop kills the KDC. Its address stays reserved.
func (k *KDC) Stop() { k.proc.kill() }

// Log returns the contents of the KDC's log file.
func (k *KDC) Log() string {
	k.tb.Helper()
	text, err := os.ReadFile(filepath.Join(k.Dir, "kdc.log"))
	Must(k.tb, err)
	return string(text)
}

// Keytab returns the path of the keytab of a user or a service.
func (k *KDC) Keytab(name string) string { return filepath.Join(k.Dir, name+".keytab") }

// Config writes a krb5.conf that names these KDCs, and returns its path.
func (k *KDC) Config(kdcs ...string) string {
	lines := k.defaults() + "[realms]\n " + k.realm + " = {\n"
	for _, addr := range kdcs {
		lines += "  kdc = " + addr + "\n"
	}
	f, err := os.CreateTemp(k.Dir, "krb5-*.conf")
	Must(k.tb, err)
	Must(k.tb, f.Close())
	return k.write(filepath.Base(f.Name()), lines+" }\n")
}

// defaults returns the section libdefaults of krb5.conf.
func (k *KDC) defaults() string {
	return "[libdefaults]\n default_realm = " + k.realm +
		"\n dns_lookup_kdc = false\n rdns = false\n udp_preference_limit = 1\n" +
		" default_keytab_name = FILE:" + k.Keytab("alice") +
		"\n permitted_enctypes = aes256-cts aes128-cts aes256-sha2\n"
}

func (k *KDC) write(name, text string) string {
	path := filepath.Join(k.Dir, name)
	Must(k.tb, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func (k *KDC) env() []string {
	return append(os.Environ(), "KRB5_CONFIG="+k.Conf, "KRB5_KDC_PROFILE="+filepath.Join(k.Dir, "kdc.conf"))
}

// Run runs a program of the KDC or of its clients, such as kinit.
func (k *KDC) Run(name string, args ...string) {
	k.tb.Helper()
	cmd := Command(Within(k.tb), k.tb, name, args...)
	cmd.Env, cmd.Dir = k.env(), k.Dir
	cmd.Stdin = strings.NewReader(kdcPassword + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		k.tb.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

// Admin runs commands of kadmin.local.
func (k *KDC) Admin(commands ...string) {
	k.tb.Helper()
	cmd := Command(Within(k.tb), k.tb, sbin("kadmin.local"), "-r", k.realm)
	cmd.Env, cmd.Dir = k.env(), k.Dir
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	out, err := cmd.CombinedOutput()
	if err != nil || bytes.Contains(out, []byte(" while ")) {
		k.tb.Fatalf("kadmin.local: %v\n%s", err, out)
	}
}

// Kinit gets a ticket for a user, and returns the path of a new ticket cache. args are further
// options of kinit.
func (k *KDC) Kinit(user string, args ...string) string {
	k.tb.Helper()
	cache := filepath.Join(k.tb.TempDir(), "cache")
	k.Run("kinit", append(args, "-c", "FILE:"+cache, user)...)
	return cache
}

// Kerberos makes the server authenticate clients with Kerberos, as the service zookeeper/localhost.
// The identity of a client is its principal without the realm.
func Kerberos(k *KDC) Option {
	jaas := k.write("server.jaas", `Server { com.sun.security.auth.module.Krb5LoginModule required
 useKeyTab=true keyTab="`+k.Keytab("zookeeper")+`" storeKey=true useTicketCache=false principal="zookeeper/localhost@`+Realm+`"; };`)
	return func(c *config) {
		c.props = append(c.props, "java.security.auth.login.config="+jaas, "java.security.krb5.conf="+k.Conf)
		c.lines = append(c.lines, "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
			"kerberos.removeHostFromPrincipal=true", "kerberos.removeRealmFromPrincipal=true")
	}
}
