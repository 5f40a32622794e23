package zkconn_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/secure"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

// A tlsFixture holds the authorities and certificates of a test.
type tlsFixture struct {
	t         *testing.T
	ca, other *zktest.Authority
	client    *zktest.Issued
	box       string // address of a sandbox without TLS
}

func newTLSFixture(t *testing.T) *tlsFixture {
	t.Helper()
	dir := t.TempDir()
	k := &tlsFixture{t: t, box: zktest.Sandbox(t, sandbox.Options{}).Addr()}
	var errs [3]error
	k.ca, errs[0] = zktest.NewAuthority(dir, "ca")
	k.other, errs[1] = zktest.NewAuthority(dir, "other")
	zktest.Must(t, errors.Join(errs[:]...))
	k.client, errs[2] = k.ca.Issue(zktest.Cert{Name: "alice"})
	if errs[2] != nil {
		t.Fatal(errs[2])
	}
	return k
}

func (k *tlsFixture) issue(by *zktest.Authority, c zktest.Cert) *zktest.Issued {
	k.t.Helper()
	i, err := by.Issue(c)
	zktest.Must(k.t, err)
	return i
}

// front starts a TLS server with a certificate in front of the sandbox and returns its port.
func (k *tlsFixture) front(c *zktest.Issued, change func(*tls.Config)) string {
	k.t.Helper()
	cfg := &tls.Config{Certificates: []tls.Certificate{c.Certificate}, ClientCAs: k.ca.Pool(), ClientAuth: tls.RequireAndVerifyClientCert}
	if change != nil {
		change(cfg)
	}
	return port(zktest.Front(k.t, k.box, cfg))
}

func port(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

func (k *tlsFixture) load(s secure.Settings) secure.Config {
	k.t.Helper()
	c, err := s.Load(os.Getenv)
	zktest.Must(k.t, err)
	return c
}

func open(t *testing.T, servers string, c secure.Config, timeout time.Duration) *zkconn.Session {
	t.Helper()
	s, err := zkconn.Open(zkconn.Config{Servers: servers, Timeout: timeout, Secure: c})
	zktest.Must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), zktest.Patience)
		defer cancel()
		zktest.Check(t, s.Close(ctx))
	})
	return s
}

// Each failure of the TLS handshake is reported with its cause and remedy, in TLS 1.2 and 1.3.
func TestTLS(t *testing.T) {
	t.Parallel()
	k := newTLSFixture(t)
	now := time.Now()
	good := k.issue(k.ca, zktest.Cert{Name: "zk", DNS: []string{"localhost"}, IPs: []net.IP{net.ParseIP("127.0.0.1")}})
	mutual := secure.Settings{CACert: k.ca.File, Cert: k.client.File}
	with := func(change func(*secure.Settings)) secure.Settings {
		s := mutual
		change(&s)
		return s
	}
	properties := func(text string) secure.Settings {
		file := filepath.Join(t.TempDir(), "properties")
		zktest.Must(t, os.WriteFile(file, []byte("zookeeper.client.secure=true\n"+text), 0o600))
		return secure.Settings{CACert: k.ca.File, Cert: k.client.File, ClientConfiguration: file}
	}
	type try struct {
		what   string
		cert   *zktest.Issued
		change func(*tls.Config)
		host   string // localhost by default
		ours   secure.Settings
		want   string // part of the expected error; empty means success
	}
	tries := []try{
		{what: "mutual", cert: good, ours: mutual},
		{what: "by address", cert: good, host: "127.0.0.1", ours: mutual},
		{what: "common name alone", cert: k.issue(k.ca, zktest.Cert{Name: "localhost"}), ours: mutual},
		{what: "wildcard", cert: k.issue(k.ca, zktest.Cert{DNS: []string{"*.example.com"}}),
			ours: with(func(s *secure.Settings) { s.Name = "zk1.example.com" })},
		{what: "wildcard in a label", cert: k.issue(k.ca, zktest.Cert{DNS: []string{"*host"}}), ours: mutual,
			want: "the server's certificate is for *host, not for localhost; to accept it anyway, set the name to expect with --tls-name NAME"},
		{what: "wildcard, wrong", cert: k.issue(k.ca, zktest.Cert{DNS: []string{"*.example.com"}}), ours: mutual,
			want: "the server's certificate is for *.example.com, not for localhost; to accept it anyway, set the name to expect with --tls-name NAME"},
		{what: "wrong name", cert: k.issue(k.ca, zktest.Cert{Name: "localhost", DNS: []string{"zk1", "zk2"}}), ours: mutual,
			want: "the server's certificate is for zk1, zk2, not for localhost"},
		{what: "wrong common name", cert: k.issue(k.ca, zktest.Cert{Name: "zk\x1b[2J1"}), ours: mutual,
			want: `the server's certificate is for zk\x1b[2J1, not for localhost`},
		{what: "no address", cert: k.issue(k.ca, zktest.Cert{DNS: []string{"localhost"}}), host: "127.0.0.1", ours: mutual,
			want: "is for localhost, not for 127.0.0.1"},
		{what: "no name", cert: k.issue(k.ca, zktest.Cert{}), ours: mutual, want: "the server's certificate contains no host name"},
		{what: "a name given", cert: k.issue(k.ca, zktest.Cert{DNS: []string{"zk1"}}), ours: with(func(s *secure.Settings) { s.Name = "zk1" })},
		{what: "any name", cert: k.issue(k.ca, zktest.Cert{DNS: []string{"zk1"}}), ours: properties("zookeeper.ssl.hostnameVerification=false\n")},
		{what: "unknown authority", cert: k.issue(k.other, zktest.Cert{Name: "localhost"}), ours: mutual,
			want: "(CN=localhost) is not signed by a trusted authority: it is issued by CN=other; to trust another authority, use --cacert FILE"},
		{what: "unknown authority, any name", cert: k.issue(k.other, zktest.Cert{Name: "localhost"}), ours: properties("zookeeper.ssl.hostnameVerification=false\n"),
			want: "not signed by a trusted authority"},
		{what: "not verified", cert: k.issue(k.other, zktest.Cert{Name: "x", Until: now.Add(-time.Minute)}), ours: with(func(s *secure.Settings) { s.Insecure = true })},
		{what: "expired", cert: k.issue(k.ca, zktest.Cert{Name: "localhost", Until: now.Add(-time.Minute)}), ours: mutual,
			want: "the server's certificate (CN=localhost) expired on "},
		{what: "not yet valid", cert: k.issue(k.ca, zktest.Cert{Name: "localhost", From: now.Add(time.Hour)}), ours: mutual,
			want: "is not valid before "},
		{what: "no client certificate", cert: good, ours: secure.Settings{CACert: k.ca.File},
			want: "the server requires a client certificate; set it with --cert FILE"},
		{what: "another's client certificate", cert: good, ours: with(func(s *secure.Settings) { s.Cert = k.issue(k.other, zktest.Cert{Name: "mallory"}).File }),
			want: "the server rejected the client certificate, CN=mallory, issued by CN=other ("},
		{what: "old client certificate", cert: good, ours: with(func(s *secure.Settings) {
			s.Cert = k.issue(k.ca, zktest.Cert{Name: "old", Until: now.Add(-time.Minute)}).File
		}), want: "the server rejected the client certificate, CN=old, issued by CN=ca ("},
	}
	tls12, tls13 := func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 }
	var all []try
	for _, c := range tries {
		c.change = tls12
		all = append(all, c)
		c.what, c.change = c.what+", TLS 1.3", tls13
		all = append(all, c)
	}
	all = append(all,
		try{what: "old protocol", cert: good, ours: mutual, change: func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 },
			want: "the server and zksh have no TLS version in common: the server rejected TLS 1.2 to TLS 1.3"},
		try{what: "old protocol wanted", cert: good, ours: properties("zookeeper.ssl.protocol=TLSv1.1\n"), change: func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }},
		try{what: "new protocol", cert: good, ours: properties("zookeeper.ssl.protocol=TLSv1.2\n"), change: tls13,
			want: "the server and zksh have no TLS version in common: the server rejected TLS 1.2"},
		try{what: "no suite", cert: good, ours: properties("zookeeper.ssl.ciphersuites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256\n"), change: func(c *tls.Config) {
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}
		}, want: "the server and zksh have no cipher suite in common"},
		try{what: "a suite of TLS 1.3 that is not allowed", cert: good, ours: properties("zookeeper.ssl.ciphersuites=TLS_CHACHA20_POLY1305_SHA256\n"), change: tls13,
			want: "which the client configuration does not allow"},
	)
	for _, c := range all {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			host := "localhost"
			if c.host != "" {
				host = c.host
			}
			s := open(t, host+":"+k.front(c.cert, c.change), k.load(c.ours), 10*time.Second)
			err := s.Ready(zktest.Within(t))
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want == "":
				zktest.Check(t, zkconn.Exec(zktest.Within(t), s, zkconn.Exists("/")))
				if a := s.Info().Agreed; a == nil || a.Own != "CN=alice" || a.Verified != (c.ours.Insecure == false) || !strings.HasPrefix(a.Protocol, "TLS 1.") {
					t.Errorf("%+v", a)
				}
				if answer, err := s.FourLetter(zktest.Within(t), s.Servers().Hosts[0], "ruok"); answer != "imok" || err != nil {
					t.Errorf("ruok: %q, %v", answer, err)
				}
			case !errors.Is(err, zkconn.ConnectionLoss) || !strings.Contains(err.Error(), c.want) || strings.ContainsAny(err.Error(), "\n\x1b"):
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// If a port does not speak the expected protocol, the error says so.
func TestWrongPort(t *testing.T) {
	t.Parallel()
	k := newTLSFixture(t)
	silent, tlsPort := zktest.Silent(t), "127.0.0.1:"+k.front(k.issue(k.ca, zktest.Cert{Name: "zk"}), nil)
	mutual := k.load(secure.Settings{CACert: k.ca.File, Cert: k.client.File})
	for _, c := range []struct {
		servers string
		secure  secure.Config
		want    string
	}{
		{tlsPort, secure.Config{}, "closed the connection without answering, perhaps because this port expects TLS (use --tls), or because the server has no quorum (use -r)"},
		{alerting(t), secure.Config{}, "the server's port requires TLS; add --tls"},
		{k.box, mutual, "closed the connection during the TLS handshake; is this a port without TLS?"},
		{zktest.SSHBanner(t), mutual, `the server does not use TLS on this port: its answer began with "SSH-2`},
		{silent, mutual, "the TLS handshake timed out; is this a TLS port?"},
	} {
		timeout := 20 * time.Second
		if c.servers == silent {
			timeout = time.Second
		}
		s := open(t, c.servers, c.secure, timeout)
		if err := s.Ready(zktest.Within(t)); !errors.Is(err, zkconn.ConnectionLoss) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// Reconnects use TLS like the first connection, with the host names of the connect string. So do
// connections to other servers.
func TestReconnectUsesTLS(t *testing.T) {
	t.Parallel()
	k := newTLSFixture(t)
	front := k.front(k.issue(k.ca, zktest.Cert{DNS: []string{"localhost"}}), nil)
	proxy := zktest.NewProxy(t, "127.0.0.1:"+front)
	s := open(t, "localhost:"+port(proxy.Addr()), k.load(secure.Settings{CACert: k.ca.File, Cert: k.client.File}), 10*time.Second)
	zktest.Must(t, s.Ready(zktest.Within(t)))
	id := s.Info().ID
	proxy.Cut()
	zktest.Eventually(t, "the session goes on", func() bool {
		err := zkconn.Exec(zktest.Within(t), s, zkconn.Exists("/"))
		return err == nil
	})
	if i := s.Info(); i.ID != id || i.Agreed == nil {
		t.Errorf("%+v", i)
	}
	// Another server, without TLS: the client sends nothing in plaintext to it.
	zktest.Must(t, s.Connect(zktest.Within(t), k.box))
	if err := s.Ready(zktest.Within(t)); err == nil || !strings.Contains(err.Error(), "is this a port without TLS?") {
		t.Errorf("%v", err)
	}
}

// The connection that a guarded session moves to uses TLS too.
func TestTLSFailover(t *testing.T) {
	t.Parallel()
	k := newTLSFixture(t)
	front := "127.0.0.1:" + k.front(k.issue(k.ca, zktest.Cert{DNS: []string{"localhost"}}), nil)
	proxies := []*zktest.Proxy{zktest.NewProxy(t, front), zktest.NewProxy(t, front)}
	s := open(t, "localhost:"+port(proxies[0].Addr())+",localhost:"+port(proxies[1].Addr()),
		k.load(secure.Settings{CACert: k.ca.File, Cert: k.client.File}), zktest.Patience)
	p, err := s.Ensemble().Pin(zktest.Within(t))
	zktest.Must(t, err)
	defer p.Guard()()
	before := s.Info()
	for _, proxy := range proxies {
		if proxy.Addr() == before.Addr {
			proxy.Hold(true)
			defer proxy.Hold(false)
		}
	}
	if err := p.Sync(zktest.Within(t), "/"); !errors.Is(err, zkconn.ConnectionLoss) {
		t.Errorf("the request on the silent connection: %v", err)
	}
	zktest.Eventually(t, "the session has moved", func() bool { return s.Info().Agreed != nil && s.Info().Addr != before.Addr })
	if err := p.Sync(zktest.Within(t), "/"); err != nil || s.Info().ID != before.ID {
		t.Errorf("there: %v, session %#x after %#x", err, s.Info().ID, before.ID)
	}
}

// alerting starts a server that answers plaintext with a TLS alert, as some servers do, and
// returns its address.
func alerting(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	zktest.Must(t, err)
	done := make(chan struct{})
	go func() { // ends when the listener is closed
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 100))
			_, _ = c.Write([]byte("\x15\x03\x03\x00\x02\x02\x46"))
			c.Close()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
	})
	return ln.Addr().String()
}
