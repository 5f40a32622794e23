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

// usualTimeout is a session timeout so long that no test waits for it. A session with a lock
// moves to another server after it has received nothing for 1/16 of it.
const usualTimeout = 40 * time.Second

// fixture is a session with its own root znode on one server.
type fixture struct {
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

func newFixture(t testing.TB, addr string) *fixture {
	t.Helper()
	b := &fixture{Session: open(t, addr, usualTimeout), t: t, addr: addr}
	b.root = fmt.Sprintf("/%s-%d", strings.ReplaceAll(t.Name(), "/", "-"), time.Now().UnixNano())
	b.persistent("", "")
	return b
}

func (b *fixture) persistent(name, data string) {
	b.t.Helper()
	b.create(b.Session, name, data, zkconn.OpenACL(), false)
}

// addContenders creates the ephemeral znodes of contenders, one after another.
func (b *fixture) addContenders(names ...string) {
	b.t.Helper()
	for _, n := range names {
		b.create(b.Session, "/"+n, "", zkconn.OpenACL(), true)
	}
}

func (b *fixture) create(s *zkconn.Session, name, data string, acl []zk.ACL, ephemeral bool) {
	b.t.Helper()
	zktest.Must(b.t, zkconn.Exec(zktest.Within(b.t), s, zkconn.Create(b.root+name, []byte(data), acl, zkconn.CreateMode{Ephemeral: ephemeral})))
}

func (b *fixture) remove(name string) {
	b.t.Helper()
	zktest.Must(b.t, zkconn.Exec(zktest.Within(b.t), b, zkconn.Delete(b.root+"/"+name, -1)))
}

// testEnv is an Env whose Screen records the output.
type testEnv struct {
	commands.Env
	*commandtest.Screen
}

func newTestEnv(s *zkconn.Session, format render.Format) *testEnv {
	screen := &commandtest.Screen{Format: format}
	return &testEnv{commands.Env{Session: s, Screen: screen}, screen}
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

// runCommand runs a command and expects this exit status.
func runCommand(t *testing.T, s *zkconn.Session, format render.Format, want int, line ...string) *testEnv {
	t.Helper()
	st := newTestEnv(s, format)
	for _, c := range New().Commands() {
		if c.Name == line[0] {
			wantStatus(t, commandtest.Run(zktest.Within(t), c, &st.Env, line[1:]...), want)
			return st
		}
	}
	t.Fatal("no such command: ", line[0])
	return nil
}
