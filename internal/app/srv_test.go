package app

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

// dnsServer starts a DNS server on loopback. It knows only the SRV record with the given name, and
// returns a resolver that asks it.
func dnsServer(t *testing.T, name string, servers ...dnsmessage.SRVResource) *net.Resolver {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	zktest.Must(t, err)
	done := make(chan struct{})
	go func() { // ends when c is closed
		defer close(done)
		buffer := make([]byte, 1500)
		for {
			n, from, err := c.ReadFrom(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buffer[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			m.Response, m.RCode, m.Additionals = true, dnsmessage.RCodeNameError, nil
			if q.Name.String() == name && q.Type == dnsmessage.TypeSRV {
				m.RCode = dnsmessage.RCodeSuccess
				for _, s := range servers {
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 60}, Body: &s})
				}
			}
			if packet, err := m.Pack(); err == nil {
				_, _ = c.WriteTo(packet, from) // the resolver asks again
			}
		}
	}()
	t.Cleanup(func() { c.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, c.LocalAddr().String())
	}}
}

// recordOf returns the record of a server at an address on loopback, and the port.
func recordOf(t *testing.T, addr string) (record dnsmessage.SRVResource, number string) {
	t.Helper()
	_, number, err := net.SplitHostPort(addr)
	zktest.Must(t, err)
	port, err := net.LookupPort("tcp", number)
	zktest.Must(t, err)
	return dnsmessage.SRVResource{Target: dnsmessage.MustNewName("localhost."), Port: uint16(port)}, number
}

// zksh connects to the servers in a DNS SRV record, at the start and with connect.
func TestServersInDNS(t *testing.T) {
	server, number := recordOf(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	resolver := dnsServer(t, "_zk._tcp.example.test.",
		dnsmessage.SRVResource{Priority: 1, Target: server.Target, Port: server.Port},
		dnsmessage.SRVResource{Priority: 2, Target: dnsmessage.MustNewName("localhost."), Port: 1})
	o, err := ParseOptions([]string{"--server", "dns-srv://_zk._tcp.example.test"}, Environment{Getenv: func(string) string { return "" }})
	zktest.Must(t, err)
	o.resolver = resolver
	ctx := zktest.Within(t)
	zktest.Must(t, o.Prepare(ctx))
	s, err := zkconn.Open(o.Connection())
	zktest.Must(t, err)
	defer func() { zktest.Must(t, s.Close(ctx)) }()
	want := []string{"localhost:1", "localhost:" + number}
	if got := s.Servers(); !slices.Equal(got.Hosts, want) || got.Chroot != "" {
		t.Errorf("%+v", got)
	}
	_, err = zkconn.Do(ctx, s.Client, zkconn.Exists("/"))
	zktest.Must(t, err)
	zktest.Must(t, s.Connect(ctx, "dns-srv://_zk._tcp.example.test/zookeeper"))
	if got := s.Servers(); !slices.Equal(got.Hosts, want) || got.Chroot != "/zookeeper" {
		t.Errorf("%+v", got)
	}
	_, err = zkconn.Do(ctx, s.Client, zkconn.Exists("/quota"))
	zktest.Must(t, err)
	if s.Names("dns-srv://_zk._tcp.example.test") || !s.Names("dns-srv://_zk._tcp.example.test/zookeeper") {
		t.Error("the session does not know the record in which its servers were found")
	}
	for spec, problem := range map[string]string{
		"dns-srv://_zk._tcp.other.test":    `server "dns-srv://_zk._tcp.other.test": the DNS server has no SRV record of a server with the name _zk._tcp.other.test; specify the servers as `,
		"dns-srv://":                       "write the name of one DNS SRV record",
		"dns-srv://a:2181":                 "without a port",
		"dns-srv://_zk._tcp.example.test/": "",
	} {
		if err := s.Connect(ctx, spec); problem == "" && err != nil || problem != "" && (err == nil || !strings.Contains(err.Error(), problem)) {
			t.Errorf("%s: %v", spec, err)
		}
	}
	o.Server, o.Proxy = "dns-srv://_zk._tcp.example.test", "socks5://localhost"
	if err := o.Prepare(ctx); err == nil || !strings.Contains(err.Error(), "a proxy cannot look up DNS SRV records") {
		t.Error(err)
	}
	o.resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("completion asks a DNS server although there is a proxy")
		return nil, net.ErrClosed
	}}
	if _, err := (&znodeLister{opts: o}).names(ctx, "/"); err == nil || !strings.Contains(err.Error(), "a proxy cannot look up DNS SRV records") {
		t.Error(err)
	}
}

// Records without a valid target and port are ignored, and a server that occurs twice counts once.
func TestInvalidServersInDNS(t *testing.T) {
	record := func(target string, port uint16) dnsmessage.SRVResource {
		return dnsmessage.SRVResource{Target: dnsmessage.MustNewName(target), Port: port}
	}
	good := record("b.test.", 2181)
	for want, records := range map[string][]dnsmessage.SRVResource{
		"b.test:2181/app":             {record("a.test.", 0), record("a b.test.", 2181), record(".", 2181), good, good},
		"b.test:2181,c.test:2182/app": {record("c.test.", 2182), good},
		"":                            {record(".", 0)},
	} {
		got, err := zkconn.LookUpServers(zktest.Within(t), dnsServer(t, "_zk._tcp.example.test.", records...), "dns-srv://_zk._tcp.example.test/app")
		if got != want || (err == nil) != (want != "") || err != nil && !strings.Contains(err.Error(), "no SRV record of a server with the name _zk._tcp.example.test; ") {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}

// connect with the record in which the current servers were found looks them up again, and keeps the
// credentials.
func TestConnectToSameRecord(t *testing.T) {
	const record = "dns-srv://_zk._tcp.example.test"
	resolver := dnsServer(t, "_zk._tcp.example.test.", dnsmessage.SRVResource{Target: dnsmessage.MustNewName("localhost."), Port: 1})
	o, err := ParseOptions([]string{"--server", record}, Environment{Getenv: func(string) string { return "" }})
	zktest.Must(t, err)
	o.resolver, o.Auth = resolver, []zkconn.Credential{{Scheme: "digest", Auth: []byte("alice:secret")}}
	ctx := zktest.Within(t)
	zktest.Must(t, o.Prepare(ctx))
	s, err := zkconn.Open(o.Connection())
	zktest.Must(t, err)
	defer func() { zktest.Must(t, s.Close(ctx)) }()
	server, number := recordOf(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	resolver.Dial = dnsServer(t, "_zk._tcp.example.test.", server).Dial
	for _, spec := range []string{"", record} {
		zktest.Must(t, s.Connect(ctx, spec))
		if got := s.Servers().Hosts; !slices.Equal(got, []string{"localhost:" + number}) {
			t.Errorf("connect %s: %s, not localhost:%s", spec, got, number)
		}
		who, err := zkconn.Do(ctx, s.Client, zkconn.WhoAmI())
		if err != nil || !strings.Contains(fmt.Sprint(who), "alice") {
			t.Errorf("connect %s: %v, %v", spec, who, err)
		}
	}
}

// If zksh can reach none of the servers, it looks up the record again, and resumes its session on a
// server that is new in it. If the DNS server does not answer, zksh tries the old servers.
func TestRecordChanges(t *testing.T) {
	const record = "dns-srv://_zk._tcp.example.test"
	addr := zktest.Sandbox(t, sandbox.Options{}).Addr()
	before, after := zktest.NewProxy(t, addr), zktest.NewProxy(t, addr)
	var now atomic.Pointer[net.Resolver] // nil if the DNS server is down
	list := func(p *zktest.Proxy) {
		server, _ := recordOf(t, p.Addr())
		now.Store(dnsServer(t, "_zk._tcp.example.test.", server))
	}
	list(before)
	o, err := ParseOptions([]string{"--server", record}, Environment{Getenv: func(string) string { return "" }})
	zktest.Must(t, err)
	o.resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		r := now.Load()
		if r == nil {
			return nil, net.ErrClosed
		}
		return r.Dial(ctx, network, address)
	}}
	ctx := zktest.Within(t)
	zktest.Must(t, o.Prepare(ctx))
	s, err := zkconn.Open(o.Connection())
	zktest.Must(t, err)
	defer func() { zktest.Must(t, s.Close(ctx)) }()
	zktest.Must(t, s.Ready(ctx))
	id := s.Info().ID
	lose := func(p *zktest.Proxy) {
		t.Helper()
		p.Cut()
		zktest.Eventually(t, "the session is resumed", func() bool {
			_, err := zkconn.Do(ctx, s.Client, zkconn.Exists("/"))
			return err == nil && s.Info().ID == id
		})
	}
	now.Store(nil)
	lose(before)
	list(after)
	before.Refuse(true)
	lose(before)
	_, number := recordOf(t, after.Addr())
	if got := s.Servers().Hosts; !slices.Equal(got, []string{"localhost:" + number}) {
		t.Errorf("the servers are %s, not localhost:%s", got, number)
	}
}
