//go:build unix

package e2e

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zktest"
)

// A tlsServer is a real server whose tested port accepts only TLS and requires client
// certificates.
type tlsServer struct {
	server     *zktest.Server
	addr       string // localhost:port of the TLS port
	dir        string
	ca         *zktest.Authority
	alice, bob string // PEM files
}

func newTLSServer(t *testing.T) *tlsServer {
	t.Helper()
	c := &tlsServer{dir: t.TempDir()}
	var err error
	if c.ca, err = zktest.NewAuthority(c.dir, "ca"); err != nil {
		t.Fatal(err)
	}
	own := c.issue(t, zktest.Cert{Name: "zk", DNS: []string{"localhost"}, IPs: []net.IP{net.ParseIP("127.0.0.1")}})
	c.alice, c.bob = c.issue(t, zktest.Cert{Name: "alice"}), c.issue(t, zktest.Cert{Name: "bob"})
	c.server = zktest.Start(t, zktest.Secure(own, c.ca.File))
	c.addr = "localhost:" + port(c.server.Secure())
	return c
}

func port(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

func (c *tlsServer) issue(t *testing.T, cert zktest.Cert) string {
	t.Helper()
	i, err := c.ca.Issue(cert)
	zktest.Must(t, err)
	return i.File
}

// write creates a file in the server's directory and returns its path.
func (c *tlsServer) write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(c.dir, name)
	zktest.Must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// asAlice returns args after the options with which alice's client is accepted.
func (c *tlsServer) asAlice(args ...string) []string {
	return append([]string{"-server", c.addr, "--cacert", c.ca.File, "--cert", c.alice}, args...)
}

// A programResult is the output and exit status of a run of the program.
type programResult struct {
	out, err string
	status   int
}

func runProgram(t *testing.T, stdin string, args ...string) programResult {
	t.Helper()
	return runCommand(t, stdin, exec.CommandContext(zktest.Within(t), "zksh", args...))
}

func runCommand(t *testing.T, stdin string, cmd *exec.Cmd) programResult {
	t.Helper()
	cmd.Env = append(homeEnv(t.TempDir()), cmd.Env...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err := cmd.Run()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return programResult{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// TestSecured runs zksh against a real server with TLS that requires client certificates.
func TestSecured(t *testing.T) {
	t.Parallel()
	c := newTLSServer(t)
	t.Run("identities", func(t *testing.T) { c.identities(t) })
	t.Run("failures", func(t *testing.T) { c.failures(t) })
	t.Run("zkCli", func(t *testing.T) { c.compareWithZkCli(t) })
	t.Run("lock", func(t *testing.T) { c.lockWhileCut(t) })
	t.Run("interactive", func(t *testing.T) { c.interactive(t) })
	eachDoc(t, "console tls", c.document)
}

// identities checks that the certificate is the client's identity, in ACLs too, and that every
// kind of request to the server uses TLS.
func (c *tlsServer) identities(t *testing.T) {
	r := runProgram(t, "", c.asAlice("whoami")...)
	if r.out != "Auth scheme: User\nip: 127.0.0.1\nx509: CN=alice\n" || r.status != 0 {
		t.Errorf("%+v", r)
	}
	agreed := regexp.MustCompile(`\ATLS 1\.3, TLS_AES_128_GCM_SHA256; server certificate CN=zk, valid until \d{4}-\d\d-\d\d; client certificate CN=alice, valid until \d{4}-\d\d-\d\d\n\z`)
	if r = runProgram(t, "", c.asAlice("connect")...); !agreed.MatchString(r.err) {
		t.Errorf("connect: %q", r.err)
	}
	r = runProgram(t, "", c.asAlice("--trace", "/dev/stderr", "whoami")...)
	if !regexp.MustCompile(` ! secured +TLS 1\.3, TLS_AES_128_GCM_SHA256; server certificate CN=zk, `).MatchString(r.err) {
		t.Errorf("--trace: %q", r.err)
	}
	r = runProgram(t, "create /mine data x509:CN=alice:cdrwa\nget /mine\nls -R /\nconnect\n", c.asAlice()...)
	if r.out != "Created /mine\ndata\n/\n/mine\n/zookeeper\n/zookeeper/config\n/zookeeper/quota\n" || !agreed.MatchString(r.err) || r.status != 0 {
		t.Errorf("%+v", r)
	}
	r = runProgram(t, "", "-server", c.addr, "--cacert", c.ca.File, "--cert", c.bob, "get", "/mine")
	if r.err != "Insufficient permission : /mine\n" || r.status != commands.StatusFailed {
		t.Errorf("as bob: %+v", r)
	}
	r = runProgram(t, "", c.asAlice("-o", "json", "connect")...)
	if !strings.Contains(r.out, `"tls":{"protocol":"TLS 1.3","cipher":"TLS_AES_128_GCM_SHA256","peer":"CN=zk",`) {
		t.Errorf("connect: %+v", r)
	}
	if r = runProgram(t, "", c.asAlice("servers")...); r.status != 0 || !strings.Contains(r.out, "standalone") {
		t.Errorf("servers: %+v", r)
	}
	known := regexp.MustCompile(`lock +holds +0x[0-9a-f]+ +127\.0\.0\.1:\d+`)
	zktest.Eventually(t, "locks knows the client's address", func() bool { // a busy server may report it late
		return known.MatchString(runProgram(t, "lock /held\nlocks /held\n", c.asAlice()...).out)
	})
	soon := c.issue(t, zktest.Cert{Name: "soon", Until: time.Now().Add(3*24*time.Hour + time.Hour)})
	r = runProgram(t, "", "-server", c.addr, "--cacert", c.ca.File, "--cert", soon, "exists", "/mine")
	if !regexp.MustCompile(`\Awarning: the client's certificate, CN=soon, expires in 3 days, on \S+\n\z`).MatchString(r.err) || r.status != 0 {
		t.Errorf("a certificate that ends soon: %+v", r)
	}
}

// failures checks the errors of connections that a Netty server rejects. Tests in zkconn check
// errors of crypto/tls.
func (c *tlsServer) failures(t *testing.T) {
	for _, f := range []struct {
		args []string
		want string
	}{
		{[]string{"-server", c.addr}, "closed the connection without answering, perhaps because this port expects TLS (use --tls), or because the server has no quorum (use -r)"},
		{[]string{"-server", c.addr, "--cacert", c.ca.File}, "the server requires a client certificate"},
		{[]string{"-server", c.server.Addr(), "--cacert", c.ca.File, "--cert", c.alice}, "is this a port without TLS?"},
		{c.asAlice("-client-configuration", c.write(t, "old", "zookeeper.client.secure=true\nzookeeper.ssl.protocol=TLSv1.1\n")),
			"the server and zksh have no TLS version in common: the server rejected TLS 1.1"},
		{c.asAlice("-client-configuration", c.write(t, "suite", "zookeeper.client.secure=true\nzookeeper.ssl.ciphersuites=TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256\n")),
			"the server and zksh have no cipher suite in common"},
		{c.asAlice("-client-configuration", c.write(t, "two", "zookeeper.client.secure=true\nzookeeper.ssl.protocol=TLSv1.2\n"), "--cert", c.stranger(t)),
			"the server rejected the client certificate, CN=alice, issued by CN=stranger"},
		{c.asAlice("--cert", c.stranger(t)), "the server rejected the client certificate, CN=alice, issued by CN=stranger"},
	} {
		r := runProgram(t, "", append(f.args, "-timeout", "10000", "ls", "/")...)
		if r.status != commands.StatusNoServer || !strings.Contains(r.err, f.want) || strings.Count(r.err, "\n") != 1 || r.out != "" {
			t.Errorf("%q: %+v, want %s", f.args, r, f.want)
		}
	}
	// zksh checks the files before it connects.
	r := runProgram(t, "", c.asAlice("--cacert", "nowhere", "ls", "/")...)
	if r.status != commands.StatusUsage || r.err != "zksh: trusted certificates: the file nowhere does not exist\n" {
		t.Errorf("%+v", r)
	}
}

// stranger returns the file of a certificate that an unknown authority issued.
func (c *tlsServer) stranger(t *testing.T) string {
	t.Helper()
	ca, err := zktest.NewAuthority(t.TempDir(), "stranger")
	zktest.Must(t, err)
	i, err := ca.Issue(zktest.Cert{Name: "alice"})
	zktest.Must(t, err)
	return i.File
}

// compareWithZkCli checks that zksh and zkCli print the same with the same configuration files.
func (c *tlsServer) compareWithZkCli(t *testing.T) {
	store, trust := filepath.Join(c.dir, "alice.p12"), filepath.Join(c.dir, "trust.jks")
	for _, script := range []string{
		"openssl pkcs12 -export -in " + c.alice + " -out " + store + " -passout pass:changeit",
		"keytool -importcert -noprompt -alias ca -file " + c.ca.File + " -keystore " + trust + " -storetype JKS -storepass changeit",
	} {
		if out, err := zktest.Command(zktest.Within(t), t, "sh", "-c", script).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	password := c.write(t, "password", "changeit\n")
	const netty = "zookeeper.client.secure=true\nzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty\n"
	pem := c.write(t, "pem.properties", netty+"zookeeper.ssl.keyStore.location="+c.alice+"\nzookeeper.ssl.trustStore.location="+c.ca.File+"\n")
	stores := c.write(t, "stores.properties", netty+"zookeeper.ssl.keyStore.location="+store+"\nzookeeper.ssl.keyStore.passwordPath="+password+
		"\nzookeeper.ssl.trustStore.location="+trust+"\nzookeeper.ssl.trustStore.password = changei\\\n  t\nzookeeper.ssl.hostnameVerification=true\n")
	for _, args := range [][]string{
		{"-client-configuration", pem, "whoami"},
		{"-client-configuration", stores, "whoami"},
		{"-client-configuration", stores, "get", "/mine"},
	} {
		args = append([]string{"-server", c.addr}, args...)
		ours := runProgram(t, "", args...)
		java := zktest.Command(zktest.Within(t), t, "java", append([]string{
			"-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-XX:TieredStopAtLevel=1",
			"-cp", zktest.ZkCliPath(), "org.apache.zookeeper.ZooKeeperMain",
		}, args...)...)
		theirs := runCommand(t, "", java)
		if ours.status != 0 || theirs.status != 0 || ours.err != "" || answer(ours.out) != answer(theirs.out) {
			t.Errorf("%q\nzksh  %+v\nzkCli %+v", args, ours, theirs)
		}
	}
}

// answer returns the sorted lines of text without zkCli's messages about its connection, which
// may come before or after the answer. zkCli prints names in no particular order.
func answer(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "Connecting to ") || strings.HasPrefix(line, "WATCHER::") || strings.HasPrefix(line, "WatchedEvent ")
	})
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// lockWhileCut checks that a lock stays held while its connection is cut again and again.
func (c *tlsServer) lockWhileCut(t *testing.T) {
	proxy := zktest.NewProxy(t, c.server.Secure())
	begun, end := filepath.Join(c.dir, "begun"), filepath.Join(c.dir, "end")
	cmd := exec.Command("zksh", "-server", "localhost:"+port(proxy.Addr()), "--cacert", c.ca.File, "--cert", c.alice,
		"lock", "/cut", "--", "sh", "-c", "touch "+begun+"; while ! [ -e "+end+" ]; do sleep 0.05; done")
	cmd.Env = homeEnv(t.TempDir())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	zktest.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // if the test has failed; else it has already ended
	zktest.Eventually(t, "the lock is held", func() bool { return exists(begun) })
	for range 3 {
		proxy.Cut()
		if r := runProgram(t, "", c.asAlice("lock", "-n", "/cut", "--", "true")...); r.status != commands.StatusNotLocked {
			t.Errorf("somebody else's attempt: %+v", r)
		}
	}
	zktest.Must(t, os.WriteFile(end, nil, 0o600))
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program under the lock: %v\n%s", err, out.String())
	}
	if r := runProgram(t, "", c.asAlice("lock", "-n", "/cut", "--", "true")...); r.status != 0 {
		t.Errorf("the lock is not free afterwards: %+v", r)
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return !errors.Is(err, fs.ErrNotExist)
}

// interactive checks the prompt and completion.
func (c *tlsServer) interactive(t *testing.T) {
	s := openBash(t, 160, 30)
	s.line("clear; zksh -server " + c.addr + " --cert " + c.alice + " --tls-insecure")
	s.want(`\(CONNECTED, NOT VERIFIED\) 0\]$`)
	s.line("connect")
	s.want(`NOT VERIFIED; client certificate CN=alice`)
	s.want(`\(CONNECTED, NOT VERIFIED\) 1\]$`)
	s.text("get /mi")
	s.keys("Tab")
	s.want(`\] get /mine ?$`)
	s.keys("Enter")
	s.want(`^data\n`)
	s.keys("C-d")
	s.want(`^\$$`) // until then, zksh may read the next line
	anyName := c.write(t, "anyname", "zookeeper.client.secure=true\nzookeeper.ssl.hostnameVerification=false\n")
	s.line("clear; zksh -server " + c.addr + " --cert " + c.alice + " --cacert " + c.ca.File + " -client-configuration " + anyName)
	s.want(`\(CONNECTED, NAME NOT VERIFIED\) 0\]$`)
	s.line("connect")
	s.want(`NAME NOT VERIFIED; client certificate CN=alice`)
	s.want(`\(CONNECTED, NAME NOT VERIFIED\) 1\]$`)
	s.keys("C-d")
}

// dates matches the dates of certificates, which differ from year to year.
var dates = regexp.MustCompile(`\d{4}-\d\d-\d\d`)

// document runs the examples with TLS in a document.
func (c *tlsServer) document(t *testing.T, blocks []fenced) {
	dir := t.TempDir()
	for name, file := range map[string]string{"ca.pem": c.ca.File, "alice.pem": c.alice, "alice.p12": filepath.Join(c.dir, "alice.p12"),
		"trust.jks": filepath.Join(c.dir, "trust.jks"), "password": filepath.Join(c.dir, "password")} {
		zktest.Must(t, os.Symlink(file, filepath.Join(dir, name)))
	}
	runDoc(t, blocks, dir, "localhost:2281", c.addr)
}
