//go:build unix

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
	"github.com/zksh/zksh/lockcmd/zklock"
	"github.com/zksh/zksh/shell"
)

// asVersion starts a sandbox that answers as the given version.
func asVersion(t *testing.T, as sandbox.Version) *zktest.Box {
	return zktest.Sandbox(t, sandbox.Options{As: as})
}

// A server closes the connection over a request that it does not know. zksh still executes the lines
// after that request, every time.
func TestNothingIsLostAfterUnknownRequest(t *testing.T) {
	t.Parallel()
	for as, lines := range map[sandbox.Version][]string{
		"3.4": {"whoami", "getEphemerals", "addWatch /", "create -c /c", "create -t 1000 /t", "removewatches /w", "reconfig -remove 1"},
		"3.5": {"whoami", "getEphemerals", "addWatch /"},
		"3.6": {"whoami"},
	} {
		t.Run(string(as), func(t *testing.T) {
			t.Parallel()
			box := asVersion(t, as)
			for _, line := range lines {
				runs := 3
				if line == "whoami" {
					runs = 20
				}
				for i := range runs {
					script := "create /w 0\nget -w /w\n" + line + "\ncreate /x 1\nget /x\ndelete /x\ndelete /w\n"
					got := runScript(t, box.Addr(), script, shell.Config{Window: 64})
					if want := "Created /w\n0\nCreated /x\n1\n"; !strings.HasPrefix(got.out, want) || strings.Count(got.err, "\n") != 1 ||
						!strings.Contains(got.err, "Unimplemented") || !strings.Contains(got.err, "or later") || got.status != 1 {
						t.Fatalf("%s, run %d: %s", line, i, got)
					}
				}
			}
		})
	}
}

// unreadable is an ACL that grants all permissions to the creator only.
const unreadable = "auth::cdrwa"

// Commands that need no permission to read a znode work on every version, although newer servers
// return less about unreadable znodes.
func TestUnreadableZnodes(t *testing.T) {
	t.Parallel()
	for _, as := range sandbox.Versions() {
		t.Run(string(as), func(t *testing.T) {
			t.Parallel()
			box := asVersion(t, as)
			got := runScript(t, box.Addr(), "addauth digest u:p\ncreate /priv 1 "+unreadable+"\ncreate /open\ncreate /open/priv 1 "+unreadable+"\n", shell.Config{})
			if got.status != 0 {
				t.Fatal(got)
			}
			got = runScript(t, box.Addr(), "exists /priv\nexists /none\ngetAllChildrenNumber /open\nsetquota -n 5 /priv\n", shell.Config{})
			remark := ""
			if as == "3.4" || as == "3.5" {
				remark = "no permission to read 1 znode below /open; descendants of unreadable znodes are not counted\n"
			}
			if want := (scriptResult{"1\n", remark, 1}); got != want {
				t.Errorf("%s", cmp.Diff(want.String(), got.String()))
			}
			if got := runScript(t, box.Addr(), "get -w /none\nexists /priv\n", shell.Config{}); strings.Count(got.err, "\n") != 1 {
				t.Error(got)
			}
			stat := runScript(t, box.Addr(), "stat /priv\n", shell.Config{})
			if refused := stat.err == "script:1: stat: Insufficient permission : /priv\n"; refused != (as == "3.9") {
				t.Error(stat)
			}
		})
	}
}

// zksh lists a contender whose znode is unreadable, waits for it, and notices when it leaves.
func TestUnreadableContender(t *testing.T) {
	t.Parallel()
	for _, as := range []sandbox.Version{"3.4", "3.9"} {
		t.Run(string(as), func(t *testing.T) {
			t.Parallel()
			box := asVersion(t, as)
			cfg := zkconn.Config{Servers: box.Addr(), Timeout: 10 * time.Second}
			owner := zksession.Open(t, cfg)
			zktest.Must(t, owner.AddAuth(t.Context(), "digest", []byte("u:p")))
			for _, path := range []string{"/l", "/l/_c_0a1b2c3d-0000-4000-8000-0123456789ab-lock-"} {
				acl, mode := zkconn.OpenACL(), zkconn.CreateMode{}
				if path != "/l" {
					acl, mode = zkconn.OpenACL(), zkconn.CreateMode{Ephemeral: true, Sequential: true}
					acl[0].Scheme, acl[0].ID = "auth", ""
				}
				zktest.Must(t, zkconn.Exec(t.Context(), owner, zkconn.Create(path, []byte("x"), acl, mode)))
			}
			got := runScript(t, box.Addr(), "locks /l\n", shell.Config{})
			if !strings.Contains(got.out, "unreadable") || got.status != 75 {
				t.Error(got)
			}
			zktest.Eventually(t, "who is ahead is told", func() bool { // retried, because a slow run may have no time to read the queue
				got := runScript(t, box.Addr(), "lock -w 2s /l\n", shell.Config{})
				return got.status == 75 && strings.Contains(got.err, ": waiting behind _c_0a1b")
			})
			if got := runScript(t, box.Addr(), "lock -n /l\n", shell.Config{}); got.status != 75 || !strings.Contains(got.err, "another client holds the lock: unreadable (_c_0a1b") {
				t.Error(got)
			}
			waiting := zksession.Open(t, cfg)
			queued := make(chan struct{}, 1)
			lock := zklock.New(rivalConn{waiting}, "/l", zklock.Options{Notify: func(s zklock.Status) {
				if s.State == zklock.Queued {
					queued <- struct{}{}
				}
			}})
			won := make(chan error, 1)
			go func() { // ends when it gets the lock, or with the test
				_, err := lock.Lock(zktest.Within(t))
				won <- err
			}()
			<-queued
			list, err := zkconn.Do(t.Context(), owner, zkconn.List("/l"))
			zktest.Must(t, err)
			for _, name := range list.Names {
				if strings.HasPrefix(name, "_c_0a1b") {
					err = errors.Join(err, zkconn.Exec(t.Context(), owner, zkconn.Delete("/l/"+name, -1)))
				}
			}
			zktest.Check(t, errors.Join(err, <-won))
		})
	}
}

// On every server version, only one client holds a lock at a time, and the tokens increase.
func TestLocksOnEveryVersion(t *testing.T) {
	t.Parallel()
	for _, as := range sandbox.Versions() {
		t.Run(string(as), func(t *testing.T) {
			t.Parallel()
			box := asVersion(t, as)
			var holders, last, taken atomic.Int64
			var clients sync.WaitGroup
			for _, family := range zklock.Families() {
				s := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: 10 * time.Second})
				clients.Go(func() {
					lock := zklock.New(rivalConn{s}, "/locks/deep/l", zklock.Options{Family: family})
					for range 5 {
						err := lock.Do(zktest.Within(t), func(_ context.Context, token int64) error {
							if n := holders.Add(1); n != 1 {
								t.Errorf("%d hold it", n)
							}
							if before := last.Swap(token); before >= token {
								t.Errorf("token %x behind %x", token, before)
							}
							taken.Add(1)
							holders.Add(-1)
							return nil
						})
						zktest.Check(t, err)
					}
				})
			}
			clients.Wait()
			if n := taken.Load(); n != int64(5*len(zklock.Families())) {
				t.Errorf("%d times", n)
			}
		})
	}
}

// If one path has watches of both modes, the events are those that the server's version defines,
// before and after a reconnect: both modes from 3.9 on, only the later one before that.
func TestBothWatchModesThroughAReconnect(t *testing.T) {
	t.Parallel()
	const child, created = "NodeChildrenChanged /w", "NodeCreated /w/"
	for _, c := range []struct {
		as            sandbox.Version
		recursiveLast bool
		want          string
	}{
		{"3.8", true, created}, {"3.8", false, child},
		{"3.9", true, created + " " + child}, {"3.9", false, created + " " + child},
	} {
		t.Run(fmt.Sprint(c.as, c.recursiveLast), func(t *testing.T) {
			t.Parallel()
			var throttled atomic.Int32 // number of setWatches2 requests; the first is rejected
			box := zktest.Sandbox(t, sandbox.Options{As: c.as, Throttle: func(op int32) bool {
				return op == jute.OpSetWatches2 && throttled.Add(1) == 1
			}})
			s := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: 10 * time.Second})
			other := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: 10 * time.Second})
			make := func(path string) {
				t.Helper()
				zktest.Must(t, zkconn.Exec(zktest.Within(t), other, zkconn.Create(path, nil, zkconn.OpenACL(), zkconn.CreateMode{})))
			}
			make("/w")
			for _, recursive := range []bool{!c.recursiveLast, c.recursiveLast} {
				zktest.Must(t, zkconn.Exec(t.Context(), s, zkconn.AddWatch("/w", recursive)))
			}
			tell := func(name string) {
				t.Helper()
				s.Events()
				make("/w/" + name)
				want := strings.Replace(c.want, "/w/", "/w/"+name, 1)
				var got []string
				zktest.Eventually(t, want, func() bool {
					for _, e := range s.Events() {
						if zxids := e.Zxid > 0; zxids != (c.as == "3.9") {
							t.Errorf("%s", e)
						}
						got = append(got, string(e.Type)+" "+e.Path)
					}
					return strings.Join(got, " ") == want
				})
			}
			tell("a")
			box.Pause()
			zktest.Eventually(t, "disconnected", func() bool { return s.Info().Addr == "" && other.Info().Addr == "" })
			box.Resume()
			for _, again := range []*zkconn.Session{s, other} {
				zktest.Must(t, again.WaitReady(zktest.Within(t)))
			}
			zktest.Eventually(t, "the watches are set again", func() bool { return throttled.Load() > 3 })
			zktest.Must(t, zkconn.Exec(zktest.Within(t), s, zkconn.Sync("/")))
			tell("b")
		})
	}
}

// zksh repeats every kind of request that a busy server rejects.
func TestThrottledEverywhere(t *testing.T) {
	t.Parallel()
	var n, refused atomic.Int64
	box := zktest.Sandbox(t, sandbox.Options{Throttle: func(int32) bool {
		some := n.Add(1)%3 == 0
		if some {
			refused.Add(1)
		}
		return some
	}})
	script := "create /t\n"
	want := "Created /t\n"
	for i := range 30 {
		script += fmt.Sprintf("create /t/n%d\ncreate /t/n%d/a\n", i, i)
		want += fmt.Sprintf("Created /t/n%d\nCreated /t/n%d/a\n", i, i)
	}
	script += "getAllChildrenNumber /t\nsetAcl -R /t world:anyone:cdrwa\nlock /l\nlocks -q /l\nunlock /l\ndeleteall /t\nls /l\n"
	got := runScript(t, box.Addr(), script, shell.Config{Window: 1})
	if got.status != 75 || got.err != "" || !strings.HasPrefix(got.out, want+"60\nlocked /l ") || !strings.HasSuffix(got.out, "\n[]\n") {
		t.Error(got)
	}
	if refused.Load() < 40 {
		t.Errorf("only %d were refused", refused.Load())
	}
}

// If a wait for a lock times out for another reason than its holder, the error names the reason,
// and the exit status differs.
func TestLockTimeoutWithoutHolder(t *testing.T) {
	t.Parallel()
	var proxy atomic.Pointer[zktest.Proxy]
	box := zktest.Sandbox(t, sandbox.Options{Throttle: func(op int32) bool {
		if op == jute.OpCreate {
			proxy.Load().HoldReplies(true)
		}
		return false
	}})
	proxy.Store(zktest.NewProxy(t, box.Addr()))
	got := runScript(t, proxy.Load().Addr(), "lock -w 300ms /l\n", shell.Config{})
	if got.status != 69 || !strings.Contains(got.err, ": the servers did not answer") {
		t.Errorf("no answer: %s", got)
	}
	box = zktest.Sandbox(t, sandbox.Options{Throttle: func(op int32) bool { return op == jute.OpCreate }})
	got = runScript(t, box.Addr(), "lock -w 300ms /l\n", shell.Config{})
	refused := got.status == 1 && strings.Contains(got.err, "Op throttled due to high load")
	underWay := got.status == 69 && strings.Contains(got.err, "the servers did not answer") // the last retry was in flight
	if !refused && !underWay {
		t.Errorf("throttled: %s", got)
	}
}
