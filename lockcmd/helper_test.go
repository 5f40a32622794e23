package lockcmd

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/internal/render"
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
	if err := zkconn.Exec(zktest.Within(b.t), s, zkconn.Create(b.root+name, []byte(data), acl, zkconn.CreateMode{Ephemeral: ephemeral})); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) remove(name string) {
	b.t.Helper()
	if err := zkconn.Exec(zktest.Within(b.t), b, zkconn.Delete(b.root+"/"+name, -1)); err != nil {
		b.t.Fatal(err)
	}
}

// stage is an Env with the Screen that keeps what it is given.
type stage struct {
	commands.Env
	*commandtest.Screen
}

func newStage(s *zkconn.Session, format render.Format) *stage {
	screen := &commandtest.Screen{Format: format}
	return &stage{commands.Env{Session: s, Screen: screen}, screen}
}

func wantStatus(t *testing.T, err error, want int) {
	t.Helper()
	var status *commands.StatusError
	if want == 0 && err == nil {
		return
	}
	if !errors.As(err, &status) || status.Status != want || status.Err != nil {
		t.Errorf("got %v, want status %d", err, want)
	}
}

// printed runs a command that shows something, and wants this end of it.
func printed(t *testing.T, s *zkconn.Session, format render.Format, want int, line ...string) *stage {
	t.Helper()
	st := newStage(s, format)
	for _, c := range New().Commands() {
		if c.Name == line[0] {
			wantStatus(t, commandtest.Run(zktest.Within(t), c, &st.Env, line[1:]...), want)
			return st
		}
	}
	t.Fatal("no such command: ", line[0])
	return nil
}
