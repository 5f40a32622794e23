package zkconn

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zktest"
)

// The credentials of the Config are the first requests on every connection.
func TestCredentialsComeFirst(t *testing.T) {
	ops := make(chan string, 100)
	serve := func(n int, p *remote) {
		p.host(func(xid, op int32) bool {
			ops <- fmt.Sprint(n, " ", op)
			return (n > 0 || op == jute.OpAuth) && p.reply(xid, codeOK)
		})
	}
	auth := []Credential{{"digest", []byte("ann:secret")}, {"other", []byte("x")}}
	bubbleWith(t, Config{Servers: "127.0.0.1:1", Auth: auth}, serve, func(t *testing.T, s *Session) {
		ctx := testContext(t)
		if err := Exec(ctx, s, Exists("/a")); !errors.Is(err, ConnectionLoss) {
			t.Errorf("the first connection: %v", err)
		}
		zktest.Check(t, Exec(ctx, s, Exists("/a")))
		for _, want := range []int32{jute.OpAuth, jute.OpAuth, jute.OpExists} {
			if got := <-ops; got != fmt.Sprint("0 ", want) {
				t.Errorf("request %s, want %d", got, want)
			}
		}
		for _, want := range []int32{jute.OpAuth, jute.OpAuth, jute.OpExists} {
			if got := <-ops; got != fmt.Sprint("1 ", want) {
				t.Errorf("request %s, want %d", got, want)
			}
		}
	})
}

// If the server rejects a credential of the Config, on the first or on a later connection, every
// later request fails with that error. A new session does not use the credential.
func TestRefusedCredential(t *testing.T) {
	for good := range 2 { // connections that accept it
		var last atomic.Int64
		serve := func(n int, p *remote) {
			last.Store(int64(n))
			p.host(func(xid, op int32) bool {
				switch {
				case n >= good && op == jute.OpAuth:
					return p.reply(xid, AuthFailed)
				case n == good: // do not answer later requests
					return true
				case n < good && op != jute.OpAuth:
					return false
				}
				return p.reply(xid, codeOK)
			})
		}
		auth := []Credential{{"digest", []byte("ann:secret")}}
		bubbleWith(t, Config{Servers: "127.0.0.1:1", Auth: auth}, serve, func(t *testing.T, s *Session) {
			ctx := testContext(t)
			if good == 1 {
				if err := Exec(ctx, s, Exists("/a")); !errors.Is(err, ConnectionLoss) {
					t.Errorf("the first connection: %v", err)
				}
			}
			const want = `the server rejected the credentials of scheme "digest" and ended the session`
			for range 2 {
				err := Exec(ctx, s, Delete("/a", -1))
				if !errors.Is(err, AuthFailed) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
					t.Errorf("%d: %v", good, err)
				}
			}
			if err := s.Gone(); !errors.Is(err, AuthFailed) { // commands check this before they begin
				t.Errorf("%d: gone by %v", good, err)
			}
			zktest.Must(t, s.Connect(ctx, ""))
			if err := Exec(ctx, s, Delete("/a", -1)); err != nil || last.Load() != int64(good+1) {
				t.Errorf("%d: %v on connection %d", good, err, last.Load())
			}
		})
	}
}
