package lockcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// followTest is a running locks -f.
type followTest struct {
	t      *testing.T
	s      *zkconn.Session
	cancel context.CancelCauseFunc
	ended  chan error
	screen *commandtest.Screen
}

var errStopFollow = errors.New("enough")

// startFollow starts locks -f on path. It has a terminal if columns is positive.
func startFollow(t *testing.T, s *zkconn.Session, path string, format render.Format, columns int) *followTest {
	t.Helper()
	f := &followTest{t: t, s: s, ended: make(chan error, 1)}
	f.screen = &commandtest.Screen{Format: format, Columns: columns, Rows: 6}
	env := &commands.Env{Session: s, Screen: f.screen}
	ctx, cancel := context.WithCancelCause(context.Background())
	f.cancel = cancel
	go func() { f.ended <- followQueue(ctx, env, path) }() // stop waits for it
	t.Cleanup(func() { cancel(errStopFollow) })
	return f
}

// stop cancels the command as Ctrl-C does, and waits for its end.
func (f *followTest) stop() {
	f.t.Helper()
	f.cancel(errStopFollow)
	select {
	case err := <-f.ended:
		if !errors.Is(err, errStopFollow) {
			f.t.Errorf("it ended with %v", err)
		}
	case <-time.After(zktest.Patience):
		f.t.Fatal("it does not end")
	}
}

func (f *followTest) printed() string { return f.screen.Printed() }

func (f *followTest) lastDrawn() string {
	drawn := f.screen.Drawn()
	if len(drawn) == 0 {
		return ""
	}
	return strings.Join(drawn[len(drawn)-1], "\n")
}

// brief returns the printed events as pairs of the event and the last character of the znode's
// name.
func (f *followTest) brief() string {
	var events []string
	for l := range strings.Lines(f.printed()) {
		words := strings.Fields(l)
		node := words[len(words)-1]
		events = append(events, words[1]+" "+node[len(node)-1:])
	}
	return strings.Join(events, ", ")
}

func (f *followTest) expect(want string) {
	f.t.Helper()
	defer func() {
		if f.t.Failed() {
			f.t.Logf("printed: %s", f.printed())
		}
	}()
	zktest.Eventually(f.t, want, func() bool { return f.brief() == want })
}

// expectNoEvents checks that the user sees no events of the command's watches.
func (f *followTest) expectNoEvents() {
	f.t.Helper()
	for _, e := range f.s.Events() {
		if !e.Session() {
			f.t.Errorf("the user sees %v", e)
		}
	}
}

func TestFollow(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newFixture(t, addr)
		b.addContenders(uuid+"-lock-0000000001", uuid+"-lock-0000000002")
		f := startFollow(t, open(t, addr, usualTimeout), b.root, render.Text, 0)
		f.expect("holds 1, waits 2")
		b.create(open(t, addr, usualTimeout), "/"+uuid+"-lock-0000000003", "", zkconn.OpenACL(), true)
		f.expect("holds 1, waits 2, came 3")
		b.remove(uuid + "-lock-0000000001")
		f.expect("holds 1, waits 2, came 3, left 1, got 2")
		b.persistent("/foreign", "")
		b.remove(uuid + "-lock-0000000002")
		f.expect("holds 1, waits 2, came 3, left 1, got 2, left 2, got 3")
		f.stop()
		b.remove(uuid + "-lock-0000000003")
		if err := zkconn.Exec(zktest.Within(t), f.s, zkconn.Sync(b.root)); err != nil {
			t.Fatal(err)
		}
		f.expectNoEvents()
		if strings.Contains(f.printed(), "no connection") { // for a client that the servers have not been asked about
			t.Errorf("%q", f.printed())
		}
		first, _, _ := strings.Cut(f.printed(), "\n")
		want := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z  holds  lock  ` + render.Hex(b.Info().ID) + `  (127\.0\.0\.1:\d+|-)  -  ` + uuid + `-lock-0000000001$`)
		if !want.MatchString(first) {
			t.Errorf("%q", first)
		}
	})
}

// A path that is created later is followed from then on, also after it is deleted and created
// again.
func TestFollowMissingPath(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newFixture(t, addr)
		b.root += "/later"
		f := startFollow(t, open(t, addr, usualTimeout), b.root, render.JSON, 0)
		for round := range 2 {
			b.persistent("", "")
			b.addContenders("lock-0000000001")
			zktest.Eventually(t, "the newcomer", func() bool { // the first reading may already find it
				return strings.Count(f.printed(), `"event":"got"`)+strings.Count(f.printed(), `"event":"holds"`) == round+1
			})
			b.remove("lock-0000000001")
			zktest.Eventually(t, "his going", func() bool { return strings.Count(f.printed(), `"left"`) == round+1 })
			if err := zkconn.Exec(zktest.Within(t), b, zkconn.Delete(b.root, -1)); err != nil {
				t.Fatal(err)
			}
		}
		f.stop()
		f.expectNoEvents()
		for l := range strings.Lines(f.printed()) {
			var c struct {
				Time, Event, Mode, State, Session, Node string
			}
			if err := json.Unmarshal([]byte(l), &c); err != nil || c.Mode != "exclusive" || c.Node == "" || c.Session == "" {
				t.Errorf("%q: %v", l, err)
			}
		}
	})
}

func TestFollowSemaphore(t *testing.T) {
	b := newFixture(t, zktest.Shared(t).Addr())
	b.persistent("/leases", "")
	b.persistent("/locks", "")
	b.addContenders("leases/" + uuid + "-lease-0000000001")
	f := startFollow(t, open(t, b.addr, usualTimeout), b.root, render.Text, 0)
	f.expect("holds 1")
	b.addContenders("leases/" + uuid + "-lease-0000000002")
	f.expect("holds 1, came 2, got 2")
	b.addContenders("locks/" + uuid + "-lock-0000000005")
	f.expect("holds 1, came 2, got 2, came 5")
	b.remove("leases/" + uuid + "-lease-0000000001")
	f.expect("holds 1, came 2, got 2, came 5, left 1")
	f.stop()
}

func TestFollowOnATerminal(t *testing.T) {
	b := newFixture(t, zktest.Shared(t).Addr())
	f := startFollow(t, open(t, b.addr, usualTimeout), b.root, render.Text, 80)
	zktest.Eventually(t, "free", func() bool { return strings.Contains(f.lastDrawn(), ": free  ") })
	for i := range 9 {
		b.addContenders(fmt.Sprintf("%s-lock-%010d", uuid, i))
	}
	zktest.Eventually(t, "the queue, cut to the window", func() bool {
		s := f.lastDrawn()
		return strings.Contains(s, ": 1 hold, 8 wait  ") && strings.Contains(s, "holds") && strings.HasSuffix(s, "… and 7 more")
	})
	if f.printed() != "" {
		t.Errorf("printed %q", f.printed())
	}
	older := regexp.MustCompile(`  ([2-9]|\d\d)s  `) // the machine's speed determines which second is drawn
	zktest.Eventually(t, "older contenders", func() bool { return older.MatchString(f.lastDrawn()) })
	if err := zkconn.Exec(zktest.Within(t), b, zkconn.SetData(b.root+"/"+uuid+"-lock-0000000000", []byte(zklock.RevokeMessage), -1)); err != nil {
		t.Fatal(err)
	}
	zktest.Eventually(t, "the request to let go", func() bool { return strings.Contains(f.lastDrawn(), "release requested") })
	f.stop()
	if f.screen.Kept() == nil {
		t.Error("the picture was not left")
	}
}

// The picture on a terminal is updated without requests to the server.
func TestFollowDoesNotPoll(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newFixture(t, addr)
		b.addContenders(uuid + "-lock-0000000001")
		s := open(t, addr, usualTimeout)
		f := startFollow(t, s, b.root, render.Text, 80)
		redrawn := func(times int) {
			t.Helper()
			before := len(f.screen.Drawn())
			zktest.Eventually(t, "it is drawn again", func() bool { return len(f.screen.Drawn()) >= before+times })
		}
		redrawn(1)
		before := requestsReceived(t, s, addr)
		redrawn(2)
		if n := requestsReceived(t, s, addr) - before; n > 1 { // one of them may be a ping
			t.Errorf("%d requests without a change", n)
		}
		f.stop()
		f.expectNoEvents()
	})
}

// A holder whose data is unreadable is followed like any other.
func TestFollowHiddenHolder(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newFixture(t, addr)
		other := open(t, addr, usualTimeout)
		if err := other.AddAuth(zktest.Within(t), "digest", []byte("a:b")); err != nil {
			t.Fatal(err)
		}
		b.create(other, "/"+uuid+"-lock-0000000001", "secret", []zk.ACL{{Perms: zk.PermAll, Scheme: "auth"}}, true)
		f := startFollow(t, b.Session, b.root, render.Text, 0)
		f.expect("holds 1")
		b.addContenders(uuid + "-lock-0000000002")
		f.expect("holds 1, came 2")
		if err := zkconn.Exec(zktest.Within(t), other, zkconn.Delete(b.root+"/"+uuid+"-lock-0000000001", -1)); err != nil {
			t.Fatal(err)
		}
		f.expect("holds 1, came 2, left 1, got 2")
		if first, _, _ := strings.Cut(f.printed(), "\n"); !strings.Contains(first, "  unreadable  ") {
			t.Errorf("%q", first)
		}
		f.stop()
	})
}

// requestsReceived returns how many requests the server has received from the session.
func requestsReceived(t *testing.T, s *zkconn.Session, addr string) int {
	t.Helper()
	cons := zktest.Ask(t, addr, "cons")
	for l := range strings.Lines(cons) {
		if !strings.Contains(l, "sid="+render.Hex(s.Info().ID)+",") {
			continue
		}
		_, rest, _ := strings.Cut(l, "recved=")
		n, err := strconv.Atoi(rest[:strings.Index(rest, ",")])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Fatalf("no connection of ours in %s", cons)
	return 0
}

// locks -f continues after a reconnect and shows the changes made in the meantime.
func TestFollowThroughReconnects(t *testing.T) {
	b := newFixture(t, zktest.Shared(t).Addr())
	proxy := zktest.NewProxy(t, b.addr)
	b.addContenders(uuid + "-lock-0000000001")
	f := startFollow(t, open(t, proxy.Addr(), usualTimeout), b.root, render.Text, 0)
	f.expect("holds 1")
	proxy.Refuse(true)
	proxy.Cut()
	b.addContenders(uuid + "-lock-0000000002")
	proxy.Refuse(false)
	f.expect("holds 1, came 2")
	proxy.Cut()
	b.remove(uuid + "-lock-0000000001")
	f.expect("holds 1, came 2, left 1, got 2")
	f.stop()
	f.expectNoEvents()
}

func TestFollowThroughExpiry(t *testing.T) {
	b := newFixture(t, zktest.Shared(t).Addr())
	proxy := zktest.NewProxy(t, b.addr)
	b.addContenders(uuid + "-lock-0000000001")
	s := open(t, proxy.Addr(), time.Second)
	f := startFollow(t, s, b.root, render.Text, 0)
	f.expect("holds 1")
	old := s.Info().ID
	proxy.Refuse(true)
	proxy.Cut()
	b.addContenders(uuid + "-lock-0000000002")
	own := render.Hex(old)
	zktest.Eventually(t, "the end of the session", func() bool {
		return !strings.Contains(zktest.Ask(t, b.addr, "dump"), own+"\n")
	})
	proxy.Refuse(false)
	f.expect("holds 1, came 2")
	b.remove(uuid + "-lock-0000000001")
	f.expect("holds 1, came 2, left 1, got 2")
	if s.Info().ID == old {
		t.Error("the session did not expire")
	}
	f.stop()
}

func TestFollowEnds(t *testing.T) {
	addr := zktest.Shared(t).Addr()
	b := newFixture(t, addr)
	before := goleak.IgnoreCurrent()
	s := open(t, addr, usualTimeout)
	f := startFollow(t, s, b.root, render.Text, 0)
	if err := s.Close(zktest.Within(t)); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-f.ended:
		if !errors.Is(err, zkconn.ErrNotConnected) && !errors.Is(err, zkconn.SessionExpired) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(zktest.Patience):
		t.Fatal("it does not end with the session")
	}
	goleak.VerifyNone(t, before)
}
