package lockcmd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

const (
	uuid  = "_c_f0a1b2c3-0000-4000-8000-0123456789ab"
	guid  = "_c_0123456789abcdef0123456789abcdef"
	hex32 = "0123456789abcdef0123456789abcdef"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// eventually polls until ok is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// bed is a session and a root of its own on one server.
type bed struct {
	*zkconn.Session
	t    testing.TB
	addr string
	root string
}

// onBoth runs a test on the sandbox and on a real server.
func onBoth(t *testing.T, test func(t *testing.T, addr string)) {
	t.Run("sandbox", func(t *testing.T) {
		s := sandbox.New(sandbox.Options{Tick: 500 * time.Millisecond})
		t.Cleanup(func() { s.Close() })
		addr, err := s.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		test(t, addr.String())
	})
	t.Run("server", func(t *testing.T) { test(t, zktest.Shared(t).Addr()) })
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func open(t testing.TB, servers string, timeout time.Duration) *zkconn.Session {
	t.Helper()
	s, err := zkconn.Open(zkconn.Config{Servers: servers, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if err := s.WaitReady(within(t)); err != nil {
		t.Fatal(err)
	}
	return s
}

func newBed(t testing.TB, addr string) *bed {
	t.Helper()
	b := &bed{Session: open(t, addr, patience), t: t, addr: addr}
	b.root = fmt.Sprintf("/%s-%d", strings.ReplaceAll(t.Name(), "/", "-"), time.Now().UnixNano())
	b.persistent("", "")
	return b
}

func (b *bed) persistent(name, data string) {
	b.t.Helper()
	b.create(b.Session, name, data, zkconn.OpenACL(), false)
}

// add makes the nodes of contenders, one after another.
func (b *bed) add(names ...string) {
	b.t.Helper()
	for _, n := range names {
		b.create(b.Session, "/"+n, "", zkconn.OpenACL(), true)
	}
}

func (b *bed) create(s *zkconn.Session, name, data string, acl []zk.ACL, ephemeral bool) {
	b.t.Helper()
	if _, err := s.Create(within(b.t), b.root+name, []byte(data), acl, zkconn.CreateMode{Ephemeral: ephemeral}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) remove(name string) {
	b.t.Helper()
	if err := b.Delete(within(b.t), b.root+"/"+name, -1); err != nil {
		b.t.Fatal(err)
	}
}
