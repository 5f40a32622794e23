package lockcmd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

const (
	uuid  = "_c_f0a1b2c3-0000-4000-8000-0123456789ab"
	guid  = "_c_0123456789abcdef0123456789abcdef"
	hex32 = "0123456789abcdef0123456789abcdef"
)

// usual is a session timeout that no test waits for. A silence of two 32nds of it moves a
// session with a lock.
const usual = 40 * time.Second

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
		test(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	})
	t.Run("server", func(t *testing.T) { test(t, zktest.Shared(t).Addr()) })
}

func open(t testing.TB, servers string, timeout time.Duration) *zkconn.Session {
	t.Helper()
	return zksession.Open(t, zkconn.Config{Servers: servers, Timeout: timeout})
}

func newBed(t testing.TB, addr string) *bed {
	t.Helper()
	b := &bed{Session: open(t, addr, usual), t: t, addr: addr}
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
	if _, err := s.Create(zktest.Within(b.t), b.root+name, []byte(data), acl, zkconn.CreateMode{Ephemeral: ephemeral}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) remove(name string) {
	b.t.Helper()
	if err := b.Delete(zktest.Within(b.t), b.root+"/"+name, -1); err != nil {
		b.t.Fatal(err)
	}
}
