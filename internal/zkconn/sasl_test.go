package zkconn

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/secure"
)

// token answers a SASL request.
func (p *remote) token(xid int32, code Code, text []byte) bool {
	var e jute.Encoder
	e.Int(xid)
	e.Long(1)
	e.Int(int32(code))
	e.Buffer(text)
	return p.frame(e.B)
}

// However a server answers SASL, it is asked nothing else before, and what it did is
// told. Where it is the credential that it does not take, the session is over; else
// the next connection may go better.
func TestSASLAnswers(t *testing.T) {
	for _, c := range []struct {
		answer func(p *remote, xid int32) bool
		final  bool
		want   string
	}{
		{func(p *remote, xid int32) bool { return p.token(xid, AuthFailed, nil) }, true, "Kerberos (GSSAPI), which zksh does not support"},
		{func(p *remote, xid int32) bool { return p.token(xid, codeOK, nil) }, true, "or it runs in FIPS mode, which forbids this mechanism"},
		{func(p *remote, xid int32) bool { return p.token(xid, codeOK, []byte{}) }, true, "or it runs in FIPS mode"},
		{func(p *remote, xid int32) bool { return p.token(xid, codeOK, []byte("x")) }, true, "does not use the SASL mechanism DIGEST-MD5"},
		{func(p *remote, xid int32) bool { return p.token(xid+1, codeOK, nil) }, false, "a reply to a request that zksh never sent"},
		{func(p *remote, _ int32) bool { return p.frame([]byte{1, 2}) }, false, "the server sent a truncated SASL reply"},
		{func(p *remote, _ int32) bool { _, err := p.Write([]byte{0x7f, 0, 0, 0}); return err == nil }, false, "does not speak the ZooKeeper protocol"},
		{func(*remote, int32) bool { return true }, false, "did not answer in time"},
		{func(*remote, int32) bool { return false }, false, "the server closed the connection during SASL authentication, as ZooKeeper 3.4 does when it rejects the credentials"},
	} {
		var others atomic.Int64
		serve := func(_ int, p *remote) {
			p.host(func(xid, op int32) bool {
				if op != jute.OpSASL {
					others.Add(1)
				}
				return op == jute.OpSASL && c.answer(p, xid)
			})
		}
		sasl, err := secure.ParseSASL("bob:secret")
		if err != nil {
			t.Fatal(err)
		}
		cfg := Config{Servers: "127.0.0.1:1", Secure: secure.Config{SASL: sasl}, Auth: []Credential{{"digest", []byte("ann:secret")}}}
		bubbleWith(t, cfg, serve, func(t *testing.T, s *Session) {
			err := Exec(limited(t), s, Exists("/a"))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v, want %s", err, c.want)
			}
			if final := errors.Is(err, AuthFailed) && s.State() == StateAuthFailed; final != c.final {
				t.Errorf("%s: final %t, %v", c.want, final, s.State())
			}
			if n := others.Load(); n > 0 {
				t.Errorf("%s: %d other requests came first", c.want, n)
			}
		})
	}
}

// SASL's credential is left behind as the others are.
func TestSASLStaysBehind(t *testing.T) {
	var seen atomic.Int64
	serve := func(_ int, p *remote) {
		p.host(func(xid, op int32) bool {
			if op == jute.OpSASL {
				seen.Add(1)
				return false
			}
			return p.reply(xid, codeOK)
		})
	}
	sasl, err := secure.ParseSASL("bob:secret")
	if err != nil {
		t.Fatal(err)
	}
	dial := func(context.Context, string, string) (net.Conn, error) { return pipeTo(0, serve), nil } // by two sessions at a time
	bubbleWith(t, Config{Servers: "127.0.0.1:1", Secure: secure.Config{SASL: sasl}, dial: dial}, nil, func(t *testing.T, s *Session) {
		for i, servers := range []string{"", "127.0.0.1:1", "127.0.0.1:2"} {
			before, last := seen.Load(), s.current()
			if err := s.Connect(limited(t), servers); err != nil {
				t.Fatal(err)
			}
			<-ended(last)
			err := s.Ready(limited(t))
			if asked := seen.Load() > before; asked != (i < 2) || asked == (err == nil) {
				t.Errorf("%q: asked %t, %v", servers, asked, err)
			}
		}
	})
}
