//go:build unix

package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// peakMemory matches the largest memory of a process so far, in KiB, in /proc/PID/status.
var peakMemory = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// watchMemory reads the largest memory of a process again and again until peak is called, which
// returns it in bytes. The system's own figure at the end of a process includes the memory of the
// parent that started it.
func watchMemory(pid int) (peak func() int) {
	stop, result := make(chan struct{}), make(chan int)
	go func() { // ends when peak is called
		kib := 0
		for {
			if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
				if m := peakMemory.FindSubmatch(text); m != nil {
					kib, _ = strconv.Atoi(string(m[1])) // the pattern matches digits only
				}
			}
			select {
			case <-stop:
				result <- kib << 10
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	return func() int { close(stop); return <-result }
}

// failsSafely runs whoami with a hostile KDC or server. It must fail within the timeout, with an error
// that contains want, and with less than 50 MiB of memory.
func (r *realm) failsSafely(t *testing.T, name, server, conf, want string) {
	t.Helper()
	const maxMemory = 50 << 20
	cmd := exec.CommandContext(zktest.Within(t), "zksh", "--server", server, "--timeout", "2000", "--jaas", r.keytab(t, "alice"), "whoami")
	cmd.Env = []string{"KRB5_CONFIG=" + conf}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	zktest.Must(t, cmd.Start())
	peak := watchMemory(cmd.Process.Pid)
	err := cmd.Wait()
	memory := peak()
	if err == nil || !strings.Contains(out.String(), want) || strings.Contains(out.String(), "panic") || strings.Contains(out.String(), "sasl: alice") {
		t.Errorf("%s: %v, %s", name, err, out.String())
	}
	if memory > maxMemory || time.Since(start) > 10*time.Second {
		t.Errorf("%s: %d bytes, %s", name, memory, time.Since(start))
	}
}

// endless writes until the client closes the connection.
func endless(c net.Conn) {
	for junk := make([]byte, 1<<20); ; {
		if _, err := c.Write(junk); err != nil {
			return
		}
	}
}

// Whatever a KDC answers, the program fails safely, with an error that names the KDC.
func (r *realm) hostileKDCs(t *testing.T) {
	for name, answer := range map[string]func(c net.Conn){
		"HTTP":   func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") },
		"cut":    func(c net.Conn) { c.Write([]byte{0, 0, 1, 0, 0x6b, 0x82}) },
		"silent": func(c net.Conn) { io.Copy(io.Discard, c) },
		"endless": func(c net.Conn) {
			c.Write([]byte{0x7f, 0xff, 0xff, 0xff})
			endless(c)
		},
	} {
		addr := zktest.Answering(t, answer)
		r.failsSafely(t, name, r.server.Addr(), r.kdc.Config(addr), addr)
	}
}

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

// hostileServer starts a server that passes the connect reply of the real server on to the client.
// It then calls answer with the frame in which the real server answers the first token.
func (r *realm) hostileServer(t *testing.T, answer func(c, server net.Conn, token []byte)) string {
	frame := func(c net.Conn) []byte {
		f := make([]byte, 4)
		if _, err := io.ReadFull(c, f); err != nil {
			return nil // the client has closed the connection
		}
		f = append(f, make([]byte, binary.BigEndian.Uint32(f))...)
		if _, err := io.ReadFull(c, f[4:]); err != nil {
			return nil
		}
		return f
	}
	return zktest.Peer(t, func(c net.Conn) {
		server, err := net.Dial("tcp", r.server.Addr())
		if err != nil {
			t.Error(err)
			return
		}
		defer server.Close()
		go func() { // ends when the client closes the connection
			io.Copy(server, c)
			server.Close()
		}()
		c.Write(frame(server))
		answer(c, server, frame(server))
	})
}

// Whatever a server answers during the login, the program fails safely.
func (r *realm) hostileServers(t *testing.T) {
	var recorded atomic.Pointer[[]byte] // answer to the first token of the first connection
	replay := r.hostileServer(t, func(c, server net.Conn, token []byte) {
		if earlier := recorded.Load(); earlier != nil {
			c.Write(*earlier)
			io.Copy(io.Discard, server)
			return
		}
		recorded.Store(&token)
		c.Write(token)
		io.Copy(c, server)
	})
	args := []string{"--server", replay, "--jaas", r.keytab(t, "alice"), "whoami"}
	if got := r.run(t, "", nil, args...); got.status != 0 || !strings.Contains(got.out, "sasl: alice") {
		t.Errorf("before the replay: %+v", got)
	}
	const unproved = "the server has not proved its identity"
	r.failsSafely(t, "replay", replay, r.kdc.Conf, unproved)
	for name, c := range map[string]struct {
		answer func(c, server net.Conn, token []byte)
		want   string
	}{
		"damaged": {func(c, server net.Conn, token []byte) {
			token[len(token)-1] ^= 1
			c.Write(token)
			io.Copy(io.Discard, server)
		}, unproved},
		"cut":    {func(c, _ net.Conn, token []byte) { c.Write(token[:len(token)-1]) }, "during SASL authentication"},
		"silent": {func(_, server net.Conn, _ []byte) { io.Copy(io.Discard, server) }, "in time"},
		"HTTP":   {func(c, _ net.Conn, _ []byte) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }, "HTTP"},
		"endless": {func(c, _ net.Conn, _ []byte) {
			c.Write([]byte{0x0f, 0xff, 0xff, 0xff})
			endless(c)
		}, ""},
	} {
		r.failsSafely(t, name, r.hostileServer(t, c.answer), r.kdc.Conf, c.want)
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

// Kerberos works over TLS, and the server then knows both identities.
func TestKerberosOverTLS(t *testing.T) {
	t.Parallel()
	c := &tlsServer{dir: t.TempDir()}
	var err error
	c.ca, err = zktest.NewAuthority(c.dir, "ca")
	zktest.Must(t, err)
	own := c.issue(t, zktest.Cert{Name: "zk", DNS: []string{"localhost"}, IPs: []net.IP{net.ParseIP("127.0.0.1")}})
	me := c.issue(t, zktest.Cert{Name: "carol"})
	r := newRealm(t, zktest.Secure(own, c.ca.File))
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

// If the server keeps the instance of a principal, the ACL sasl:alice/admin is for alice/admin, not for
// alice.
func TestKerberosInstance(t *testing.T) {
	t.Parallel()
	kdc := zktest.StartKDC(t)
	r := &realm{kdc, zktest.Start(t, zktest.Kerberos(kdc), zktest.Line("kerberos.removeHostFromPrincipal=false")), t.TempDir()}
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
