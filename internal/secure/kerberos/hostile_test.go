package kerberos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox/rawzk"
	"github.com/zksh/zksh/internal/zktest"
)

// environment returns a getenv function for these variables.
func environment(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	zktest.Must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Whatever a KDC answers, the login fails soon, with an error that names the KDC, and without much
// memory.
func TestHostileKDCs(t *testing.T) {
	kdc := zktest.StartKDC(t)
	for name, answer := range map[string]func(c net.Conn){
		"HTTP":      func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") },
		"huge":      func(c net.Conn) { c.Write([]byte{0x7f, 0xff, 0xff, 0xff}) },
		"empty":     func(c net.Conn) { c.Write([]byte{0, 0, 0, 0}) },
		"cut":       func(c net.Conn) { c.Write([]byte{0, 0, 1, 0, 0x6b, 0x82}) },
		"closes":    func(net.Conn) {},
		"junk":      func(c net.Conn) { c.Write([]byte("\x00\x00\x00\x06\x6b\x82\xff\xffxx")) },
		"not ASN.1": func(c net.Conn) { c.Write([]byte{0, 0, 0, 2, 0x30, 0x80}) },
		"silent":    func(c net.Conn) { io.Copy(io.Discard, c) },
		"endless": func(c net.Conn) {
			c.Write([]byte{0, 0x0f, 0xff, 0xff})
			for {
				if _, err := c.Write([]byte{0}); err != nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		},
	} {
		addr := zktest.Answering(t, answer)
		l := New(Options{UseKeytab: true, Principal: "alice", Keytab: kdc.Keytab("alice"), Config: kdc.Config(addr)}, environment(nil))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		start := time.Now()
		_, err := l.ticket(ctx, "zookeeper/localhost")
		cancel()
		runtime.ReadMemStats(&after)
		if err == nil || strings.Contains(err.Error(), "panic") {
			t.Errorf("%s: %v", name, err)
		}
		if took, used := time.Since(start), after.TotalAlloc-before.TotalAlloc; took > 5*time.Second || used > 10<<20 {
			t.Errorf("%s: %s, %d bytes", name, took, used)
		}
		if _, down := errors.AsType[*unreachable](err); down && !strings.Contains(err.Error(), addr) {
			t.Errorf("%s: the error does not name the KDC: %v", name, err)
		}
	}
}

// A Login ends at once when its context does.
func TestCancelledLogin(t *testing.T) {
	kdc := zktest.StartKDC(t)
	l := New(Options{UseKeytab: true, Principal: "alice", Keytab: kdc.Keytab("alice"), Config: kdc.Config(zktest.Silent(t))}, environment(nil))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { // ends when the login does
		_, err := l.ticket(ctx, "zookeeper/localhost")
		done <- err
	}()
	cancel()
	select {
	case err := <-done:
		if err == nil {
			t.Error("the login succeeded")
		}
	case <-zktest.Within(t).Done():
		t.Error("the login did not end")
	}
}

// saslTo returns a function that sends SASL tokens to a real server.
func saslTo(t *testing.T, server *zktest.Server) func(token []byte) ([]byte, error) {
	t.Helper()
	nc, err := net.Dial("tcp", server.Addr())
	zktest.Must(t, err)
	t.Cleanup(func() { nc.Close() })
	c, err := rawzk.Connect(nc, rawzk.Session{Timeout: 10000}, 0)
	zktest.Must(t, err)
	return func(token []byte) ([]byte, error) {
		var e jute.Encoder
		e.Buffer(token)
		frames, err := c.Call(jute.OpSASL, e.B)
		if err != nil {
			return nil, err
		}
		last := frames[len(frames)-1]
		if last.Err != 0 {
			return nil, fmt.Errorf("%w: %d", ErrRefused, last.Err)
		}
		d := jute.NewDecoder(last.Body)
		answer := d.Buffer()
		return answer, d.Err()
	}
}

// Servers that do not prove that they have the service's key are rejected. Some of them repeat or
// damage the answers of a real server to another login with the same ticket.
func TestFakeServers(t *testing.T) {
	kdc := zktest.StartKDC(t)
	server := zktest.Start(t, zktest.Kerberos(kdc))
	l := New(Options{UseKeytab: true, Principal: "alice", Keytab: kdc.Keytab("alice"), Config: kdc.Conf, ServerPrincipal: "zookeeper/localhost"}, environment(nil))
	var recorded [][]byte
	send := saslTo(t, server)
	id, err := l.Authenticate(t.Context(), Server{"localhost", "127.0.0.1"}, func(token []byte) ([]byte, error) {
		answer, err := send(token)
		recorded = append(recorded, answer)
		return answer, err
	})
	if err != nil || id.Principal != "alice@EXAMPLE.COM" || len(recorded) != 3 {
		t.Fatal(id, err, len(recorded))
	}
	// An honest server, the messages of which somebody changes on the way.
	for at := range 2 {
		send, n := saslTo(t, server), 0
		_, err := l.Authenticate(t.Context(), Server{"localhost", "127.0.0.1"}, func(token []byte) ([]byte, error) {
			answer, err := send(token)
			if n == at && len(answer) > 0 {
				answer[len(answer)-1] ^= 1
			}
			n++
			return answer, err
		})
		if !errors.Is(err, errUnproved) {
			t.Errorf("a bit of token %d was changed: %v", at, err)
		}
	}
	for name, answer := range map[string]func(token []byte) []byte{
		"a replay":              func([]byte) []byte { return recorded[0] },
		"the proof left out":    func([]byte) []byte { return recorded[1] },
		"no token":              func([]byte) []byte { return nil },
		"empty":                 func([]byte) []byte { return []byte{} },
		"echo":                  func(token []byte) []byte { return token },
		"junk":                  func([]byte) []byte { return []byte("\x60\x82\xff\xff junk") },
		"frame only":            func([]byte) []byte { return frame(tokenAPRep, nil) },
		"junk in a frame":       func([]byte) []byte { return frame(tokenAPRep, []byte("\x6f\x80junk")) },
		"an error that is junk": func([]byte) []byte { return frame(tokenError, []byte("\x7e\x80junk")) },
	} {
		_, err := l.Authenticate(t.Context(), Server{"localhost", "127.0.0.1"}, func(token []byte) ([]byte, error) { return answer(token), nil })
		if !errors.Is(err, errUnproved) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Logins at the same time share one ticket. A ticket that a server has rejected is not used again.
func TestTicketsInMemory(t *testing.T) {
	kdc := zktest.StartKDC(t)
	cache := kdc.Kinit("alice")
	kdc.Run("kvno", "-q", "-c", "FILE:"+cache, "zookeeper/localhost")
	l := New(Options{UseCache: true, Config: kdc.Conf, ServerPrincipal: "zookeeper/localhost"}, environment(map[string]string{"KRB5CCNAME": cache}))
	refuse := func([]byte) ([]byte, error) { return nil, fmt.Errorf("%w: no", ErrRefused) }
	login := func() error {
		_, err := l.Authenticate(zktest.Within(t), Server{"localhost", "127.0.0.1"}, refuse)
		return err
	}
	if err := login(); !errors.Is(err, ErrRetry) || !errors.Is(err, ErrRefused) {
		t.Errorf("with the ticket of the cache: %v", err)
	}
	if err := login(); errors.Is(err, ErrRetry) || !errors.Is(err, ErrRefused) {
		t.Errorf("with a new ticket: %v", err)
	}
	tickets := make(chan []byte)
	for range 8 {
		go func() { // ends with its ticket
			tk, err := l.ticket(zktest.Within(t), "zookeeper/localhost")
			if err != nil {
				t.Error(err)
				tickets <- nil
				return
			}
			tickets <- tk.raw
		}()
	}
	first := <-tickets
	for range 7 {
		if next := <-tickets; !slices.Equal(first, next) {
			t.Error("the tickets differ")
		}
	}
	// A kept ticket needs no KDC.
	kdc.Stop()
	if _, err := l.ticket(t.Context(), "zookeeper/localhost"); err != nil {
		t.Error(err)
	}
	_, err := l.ticket(zktest.Within(t), "hbase/other.host")
	if _, down := errors.AsType[*unreachable](err); !down {
		t.Error(err)
	}
}

// zksh warns two hours before the end of a ticket from a cache, unless the cache has a new ticket.
func TestWarning(t *testing.T) {
	kdc := zktest.StartKDC(t)
	now := time.Now()
	l := New(Options{UseCache: true, Cache: kdc.Kinit("alice", "-l", "5h")}, environment(nil))
	none := New(Options{UseCache: true, Cache: "/nowhere"}, environment(nil))
	for _, c := range []struct {
		left   time.Duration
		renews bool
		login  *Login
		want   string
	}{
		{3 * time.Hour, false, none, ""},
		{time.Hour, true, none, ""},
		{time.Hour, false, none, "the Kerberos ticket of alice@EXAMPLE.COM ends in 60 minutes"},
		{-time.Hour, false, none, "ends in 0 minutes"},
		{time.Hour, false, l, ""}, // renewed by the user
	} {
		id := Identity{Principal: "alice@EXAMPLE.COM", Until: now.Add(c.left), Renews: c.renews, login: c.login}
		if got, _ := id.Warning(now); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q", c, got)
		}
	}
	for n, want := range []bool{true, false} {
		id := Identity{Until: now.Add(time.Hour), login: none} // of two sessions with the same ticket
		if got := id.NewWarning(now); (got != "") != want {
			t.Errorf("warning %d of one ticket: %q", n, got)
		}
	}
}
