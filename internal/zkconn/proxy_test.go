package zkconn_test

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/secure"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

func openThrough(t *testing.T, proxy, servers string, c secure.Config, timeout time.Duration) *zkconn.Session {
	t.Helper()
	s, err := zkconn.Open(zkconn.Config{Servers: servers, Timeout: timeout, Secure: c, Proxy: proxy})
	zktest.Must(t, err)
	t.Cleanup(func() { zktest.Check(t, s.Close(zktest.Within(t))) })
	return s
}

// Sessions, failover and four-letter commands go through the proxy, which alone knows the names of
// the servers.
func TestProxy(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t).Addr()
	first, second := zktest.NewProxy(t, server), zktest.NewProxy(t, server)
	names := map[string]string{"zk1.invalid:2181": first.Addr(), "zk2.invalid:2182": second.Addr()}
	for name, c := range map[string]struct{ user, password, scheme, info string }{
		"open":     {"", "", "socks5", ""},
		"password": {"ann", "p@ss", "socks5h", "ann:p%40ss@"},
	} {
		socks := zktest.NewSOCKS(t, names, c.user, c.password)
		s := openThrough(t, c.scheme+"://"+c.info+socks.Addr(), "zk1.invalid,zk2.invalid:2182", secure.Config{}, 10*time.Second)
		_, err := zkconn.Do(zktest.Within(t), s, zkconn.List("/"))
		zktest.Must(t, err)
		id, at := s.Info().ID, s.Info().Addr
		if _, known := names[at]; !known {
			t.Fatalf("%s: connected to %q, which is not the name of a server", name, at)
		}
		for addr := range names {
			if got, err := s.FourLetter(zktest.Within(t), addr, "srvr"); err != nil || !strings.Contains(got, "Mode: ") {
				t.Errorf("%s: srvr of %s: %q, %v", name, addr, got, err)
			}
		}
		lost := map[string]*zktest.Proxy{"zk1.invalid:2181": first, "zk2.invalid:2182": second}[at]
		lost.Refuse(true)
		lost.Cut()
		zktest.Eventually(t, "the session to move to the other server", func() bool {
			return s.Info().Addr != "" && s.Info().Addr != at
		})
		if _, err := zkconn.Do(zktest.Within(t), s, zkconn.List("/")); err != nil || s.Info().ID != id {
			t.Errorf("%s: after the failover, the session is %x instead of %x: %v", name, s.Info().ID, id, err)
		}
		lost.Refuse(false)
		if asked := socks.Asked(); slices.ContainsFunc(asked, func(a string) bool { return names[a] == "" }) || len(asked) < 4 {
			t.Errorf("%s: the proxy was asked for %q", name, asked)
		}
	}
}

// With TLS, zksh expects the name in the connect string in the server's certificate.
func TestProxyTLS(t *testing.T) {
	t.Parallel()
	k := newTLSFixture(t)
	cert := k.issue(k.ca, zktest.Cert{Name: "zk", DNS: []string{"zk1.invalid"}})
	front := net.JoinHostPort("127.0.0.1", k.front(cert, nil))
	socks := zktest.NewSOCKS(t, map[string]string{"zk1.invalid:2281": front, "zk2.invalid:2281": front}, "", "")
	c := k.load(secure.Settings{CACert: k.ca.File, Cert: k.client.File})
	s := openThrough(t, "socks5://"+socks.Addr(), "zk1.invalid:2281", c, 10*time.Second)
	_, err := zkconn.Do(zktest.Within(t), s, zkconn.List("/"))
	zktest.Must(t, err)
	if got, err := s.FourLetter(zktest.Within(t), "zk1.invalid:2281", "ruok"); err != nil || got != "imok" {
		t.Errorf("ruok: %q, %v", got, err)
	}
	s = openThrough(t, "socks5://"+socks.Addr(), "zk2.invalid:2281", c, 4*time.Second)
	if err := s.Ready(zktest.Within(t)); err == nil || !strings.Contains(err.Error(), "zk2.invalid") || !strings.Contains(err.Error(), "zk1.invalid") {
		t.Errorf("a certificate for another name: %v", err)
	}
}

// If a connection fails at the proxy, the error names the proxy, and contains the reason but no
// password. The error arrives within the timeout.
func TestProxyFails(t *testing.T) {
	t.Parallel()
	box := zktest.Shared(t).Addr()
	open := zktest.NewSOCKS(t, map[string]string{"zk1.invalid:2181": zktest.Refused(t)}, "", "").Addr()
	locked := zktest.NewSOCKS(t, map[string]string{"zk1.invalid:2181": box}, "ann", "right").Addr()
	for name, c := range map[string]struct{ addr, want string }{
		"refused":             {zktest.Refused(t), "connection refused"},
		"silent":              {zktest.Silent(t), "no answer from the proxy within the time limit"},
		"not a proxy":         {zktest.SSHBanner(t), "cannot connect to the server: unexpected protocol version"},
		"wrong password":      {locked, "cannot connect to the server: username/password authentication failed"},
		"server refused":      {open, "cannot connect to the server: connection refused"},
		"unreachable":         {open, "cannot connect to the server: host unreachable"},
		"the proxy is a name": {"proxy.invalid:1080", "unknown host"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := "zk1.invalid:2181"
			if name == "unreachable" {
				server = "other.invalid:2181"
			}
			const timeout = 4 * time.Second
			begun := time.Now()
			s := openThrough(t, "socks5://ann:sesame@"+c.addr, server, secure.Config{}, timeout)
			err := s.Ready(zktest.Within(t))
			want := "proxy socks5://" + c.addr + ": " + c.want
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), server) || strings.Contains(err.Error(), "sesame") {
				t.Errorf("error %v, want one with %q", err, want)
			}
			if !errors.As(err, new(*zkconn.NoServerError)) {
				t.Errorf("error of type %T", err)
			}
			if took := time.Since(begun); took > timeout+5*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestCheckProxy(t *testing.T) {
	for _, good := range []string{"", "socks5://h:1", "socks5h://h", "socks5://[::1]:9", "socks5://u:p@h:1/"} {
		if err := zkconn.CheckProxy(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"h:1", "http://u:sesame@h:1", "socks5://", "socks5://u:ses%ame@h", "socks5://u:sesame@h:port", "socks5://h:1/x", "socks5://h:0", "socks5://h:70000"} {
		if err := zkconn.CheckProxy(bad); err == nil || strings.Contains(err.Error(), "ame@") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestHidePassword(t *testing.T) {
	for text, want := range map[string]string{
		"--proxy=socks5://ann:sesame@h:1":                      "--proxy=socks5://…@h:1",
		`"socks5h://ann:ses@me@h": bad, so a@b`:                `"socks5h://…@h": bad, so a@b`,
		"socks5://h:1 a@b":                                     "socks5://h:1 a@b",
		"SOCKS5:ann:sesame@h":                                  "SOCKS5:…@h",
		"write " + zkconn.ProxySyntax + "; not socks5://a:b@c": "write " + zkconn.ProxySyntax + "; not socks5://…@c",
		"socks5://[user:password@x:sesame@h":                   "socks5://…@h",
		"socks5://[user:pass@h":                                "socks5://…@h",
	} {
		if got := zkconn.HidePassword(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}
