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
	"github.com/zksh/zksh/internal/zktest"
)

// replySASL sends the reply to a SASL request.
func (p *remote) replySASL(xid int32, code Code, text []byte) bool {
	var e jute.Encoder
	e.Int(xid)
	e.Long(1)
	e.Int(int32(code))
	e.Buffer(text)
	return p.frame(e.B)
}

// Whatever a server answers to SASL, no other request is sent before, and the error describes
// the answer. If the server rejects the credential, the session ends; otherwise the next
// connection may succeed.
func TestSASLAnswers(t *testing.T) {
	for _, c := range []struct {
		answer func(p *remote, xid int32) bool
		final  bool
		want   string
	}{
		{func(p *remote, xid int32) bool { return p.replySASL(xid, AuthFailed, nil) }, true, "it expects Kerberos; to use Kerberos"},
		{func(p *remote, xid int32) bool { return p.replySASL(xid, codeOK, nil) }, true, "or it runs in FIPS mode, which forbids this mechanism"},
		{func(p *remote, xid int32) bool { return p.replySASL(xid, codeOK, []byte{}) }, true, "or it runs in FIPS mode"},
		{func(p *remote, xid int32) bool { return p.replySASL(xid, codeOK, []byte("x")) }, true, "does not use the SASL mechanism DIGEST-MD5"},
		{func(p *remote, xid int32) bool { return p.replySASL(xid+1, codeOK, nil) }, false, "a reply to a request that zksh never sent"},
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
		zktest.Must(t, err)
		cfg := Config{Servers: "127.0.0.1:1", Secure: secure.Config{SASL: sasl}, Auth: []Credential{{"digest", []byte("ann:secret")}}}
		bubbleWith(t, cfg, serve, func(t *testing.T, s *Session) {
			err := Exec(testContext(t), s, Exists("/a"))
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

// The SASL credential is used only for the servers that it was given for, like other
// credentials.
func TestSASLIsPerServer(t *testing.T) {
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
	zktest.Must(t, err)
	dial := func(context.Context, string, string) (net.Conn, error) { return pipeTo(0, serve), nil } // called by two sessions at the same time
	bubbleWith(t, Config{Servers: "127.0.0.1:1", Secure: secure.Config{SASL: sasl}, dial: dial}, nil, func(t *testing.T, s *Session) {
		for i, servers := range []string{"", "127.0.0.1:1", "127.0.0.1:2"} {
			before, last := seen.Load(), s.current()
			zktest.Must(t, s.Connect(testContext(t), servers))
			<-ended(last)
			err := s.Ready(testContext(t))
			if asked := seen.Load() > before; asked != (i < 2) || asked == (err == nil) {
				t.Errorf("%q: asked %t, %v", servers, asked, err)
			}
		}
	})
}
