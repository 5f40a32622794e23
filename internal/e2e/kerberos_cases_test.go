//go:build unix

package e2e

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/zksh/zksh/internal/zktest"
)

// With a silent KDC, zksh gives up after one pass over the servers, which has two attempts for each
// server.
func (r *realm) silentKDC(t *testing.T) {
	var attempts atomic.Int32
	addr := zktest.Answering(t, func(c net.Conn) {
		attempts.Add(1)
		io.Copy(io.Discard, c)
	})
	cmd := exec.CommandContext(zktest.Within(t), "zksh", "--server", r.server.Addr(), "--timeout", "4000", "--jaas", r.keytab(t, "alice"), "whoami")
	cmd.Env = []string{"KRB5_CONFIG=" + r.kdc.Config(addr)}
	out, err := cmd.CombinedOutput()
	if n := attempts.Load(); err == nil || !strings.Contains(string(out), addr) || n > 2 {
		t.Errorf("%d attempts, %v, %s", n, err, out)
	}
}

// A ticket that the user has renewed with kinit -R works, and so do principals with an instance.
func (r *realm) renewedTicket(t *testing.T) {
	cache := r.kdc.Kinit("bob", "-l", "10m", "-r", "2h")
	env := []string{"KRB5CCNAME=" + cache}
	r.kdc.Run("kinit", "-R", "-c", "FILE:"+cache)
	if got := r.run(t, "", env, "--kerberos", "whoami"); got.status != 0 || !strings.Contains(got.out, "\nsasl: bob\n") {
		t.Errorf("%+v", got)
	}
	r.kdc.Admin("addprinc -pw rabbit alice/admin")
	env = []string{"KRB5CCNAME=" + r.kdc.Kinit("alice/admin")}
	got := r.run(t, "create /admin data\nsetAcl /admin sasl:alice:cdrwa\nget /admin\n", env, "--kerberos", "-e", "--trace", "/dev/stderr") // the server removes the instance
	if got.status != 0 || !strings.HasSuffix(got.out, "data\n") || !strings.Contains(got.err, "Kerberos: alice/admin@EXAMPLE.COM") {
		t.Errorf("%+v", got)
	}
	if got := r.run(t, "", nil, "--jaas", r.keytab(t, "bob"), "get", "/admin"); got.status == 0 || strings.Contains(got.out, "data") {
		t.Errorf("bob: %+v", got)
	}
}

// Completion in another shell authenticates, too.
func (r *realm) completion(t *testing.T) {
	proposed := func(jaas string) string {
		cmd := exec.CommandContext(zktest.Within(t), "zksh", "__complete", "zsh")
		cmd.Env = []string{"KRB5_CONFIG=" + r.kdc.Conf, "COMP_LINE=zksh --server " + r.server.Addr() + " --jaas " + jaas + " get /zoo", "HOME=" + r.dir}
		out, err := cmd.Output()
		zktest.Must(t, err)
		return string(out)
	}
	jaas := r.keytab(t, "alice")
	zktest.Eventually(t, "the znode is proposed", func() bool { // it has less than 0.2 s
		return strings.Contains(proposed(jaas), "/zookeeper")
	})
	if out := proposed(r.jaas(t, `useKeyTab=true keyTab="DIR/none" principal="alice"`)); strings.Contains(out, "/zookeeper") {
		t.Errorf("without a keytab: %s", out)
	}
}

// A server with MIT's own GSS-API accepts zksh. One whose clock is wrong rejects the ticket, and does
// not say why.
func TestKerberosLibraries(t *testing.T) {
	t.Parallel()
	kdc := zktest.StartKDC(t)
	mit := &realm{kdc, zktest.Start(t, zktest.Kerberos(kdc), zktest.JavaProperty("sun.security.jgss.native", "true"),
		zktest.JavaProperty("javax.security.auth.useSubjectCredsOnly", "false"),
		zktest.Environment("KRB5_KTNAME="+kdc.Keytab("zookeeper"), "KRB5_CONFIG="+kdc.Conf)), t.TempDir()}
	if got := mit.run(t, "", nil, "--jaas", mit.keytab(t, "alice"), "whoami"); got.status != 0 || !strings.Contains(got.out, "\nsasl: alice\n") {
		t.Errorf("%+v", got)
	}
	ahead := &realm{kdc, zktest.Start(t, zktest.Kerberos(kdc), zktest.Environment(tenMinutesAhead(t)...)), t.TempDir()}
	got := ahead.run(t, "", nil, "--jaas", ahead.keytab(t, "alice"), "whoami")
	if got.status == 0 || !strings.Contains(got.err, "the server rejected the Kerberos ticket of alice@EXAMPLE.COM") || !strings.Contains(got.err, "log") {
		t.Errorf("%+v", got)
	}
}

// TestKerberosOverTLS runs zksh against a server with Kerberos and TLS, which keeps the instances of
// principals.
func TestKerberosOverTLS(t *testing.T) {
	t.Parallel()
	c := &tlsServer{dir: t.TempDir()}
	var err error
	c.ca, err = zktest.NewAuthority(c.dir, "ca")
	zktest.Must(t, err)
	own := c.issue(t, zktest.Cert{Name: "zk", DNS: []string{"localhost"}, IPs: []net.IP{net.ParseIP("127.0.0.1")}})
	r := newRealm(t, zktest.Secure(own, c.ca.File), zktest.Line("kerberos.removeHostFromPrincipal=false"))
	t.Run("TLS", func(t *testing.T) { r.overTLS(t, c) })
	t.Run("instance", func(t *testing.T) { r.instance(t) })
	t.Run("mirror", func(t *testing.T) { r.mirror(t) })
}

// overTLS uses Kerberos over TLS. The server then knows both identities.
func (r *realm) overTLS(t *testing.T, c *tlsServer) {
	me := c.issue(t, zktest.Cert{Name: "carol"})
	args := []string{"--server", "localhost:" + port(r.server.Secure()), "--cacert", c.ca.File, "--cert", me, "--jaas", r.keytab(t, "alice")}
	cmd := exec.CommandContext(zktest.Within(t), "zksh", append(args, "--trace", filepath.Join(c.dir, "trace"), "whoami")...)
	cmd.Env = append(os.Environ(), "KRB5_CONFIG="+r.kdc.Conf)
	got := runCommand(t, "", cmd)
	if got.status != 0 || !strings.Contains(got.out, "\nsasl: alice\n") || !strings.Contains(got.out, "\nx509: CN=carol\n") {
		t.Errorf("%+v", got)
	}
	trace, err := os.ReadFile(filepath.Join(c.dir, "trace"))
	zktest.Must(t, err)
	if !strings.Contains(string(trace), "> sasl ") || strings.Contains(string(trace), "bytes") {
		t.Errorf("%s", trace)
	}
}

// instance tests that the ACL sasl:alice/admin is for alice/admin, not for alice.
func (r *realm) instance(t *testing.T) {
	r.kdc.Admin("addprinc -pw rabbit alice/admin")
	admin := []string{"KRB5CCNAME=" + r.kdc.Kinit("alice/admin")}
	got := r.run(t, "create /admin data sasl:alice/admin:cdrwa\nget /admin\ngetAcl /admin\n", admin, "--kerberos", "-e")
	if got.status != 0 || !strings.HasSuffix(got.out, "data\n'sasl,'alice/admin\n: cdrwa\n") {
		t.Errorf("%+v", got)
	}
	if got := r.run(t, "", nil, "--jaas", r.keytab(t, "alice"), "get", "/admin"); got.status == 0 || !strings.Contains(got.err, "Insufficient permission") {
		t.Errorf("alice: %+v", got)
	}
}
