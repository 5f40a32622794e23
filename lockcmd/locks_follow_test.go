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
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/queue"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// spectator follows a queue.
type spectator struct {
	t      *testing.T
	s      *zkconn.Session
	cancel context.CancelCauseFunc
	ended  chan error
	screen *commandtest.Screen
}

var errEnough = errors.New("enough")

// spectate starts to follow; columns above 0 are a terminal's.
func spectate(t *testing.T, s *zkconn.Session, path string, format render.Format, columns int) *spectator {
	t.Helper()
	f := &spectator{t: t, s: s, ended: make(chan error, 1)}
	f.screen = &commandtest.Screen{Format: format, Columns: columns, Rows: 6}
	env := &commands.Env{Session: s, Screen: f.screen}
	ctx, cancel := context.WithCancelCause(context.Background())
	f.cancel = cancel
	go func() { f.ended <- followQueue(ctx, env, path, false) }() // stop waits for it
	t.Cleanup(func() { cancel(errEnough) })
	return f
}

// stop ends it as Ctrl-C does.
func (f *spectator) stop() {
	f.t.Helper()
	f.cancel(errEnough)
	select {
	case err := <-f.ended:
		if !errors.Is(err, errEnough) {
			f.t.Errorf("it ended with %v", err)
		}
	case <-time.After(zktest.Patience):
		f.t.Fatal("it does not end")
	}
}

func (f *spectator) printed() string { return f.screen.Printed() }

func (f *spectator) shows() string {
	drawn := f.screen.Drawn()
	if len(drawn) == 0 {
		return ""
	}
	return strings.Join(drawn[len(drawn)-1], "\n")
}

// brief is what was printed, in pairs of event and the end of the node's name.
func (f *spectator) brief() string {
	var events []string
	for l := range strings.Lines(f.printed()) {
		words := strings.Fields(l)
		node := words[len(words)-1]
		events = append(events, words[1]+" "+node[len(node)-1:])
	}
	return strings.Join(events, ", ")
}

func (f *spectator) expect(want string) {
	f.t.Helper()
	defer func() {
		if f.t.Failed() {
			f.t.Logf("printed: %s", f.printed())
		}
	}()
	zktest.Eventually(f.t, want, func() bool { return f.brief() == want })
}

// quiet checks that the user saw no events of our watches.
func (f *spectator) quiet() {
	f.t.Helper()
	for _, e := range f.s.Events() {
		if !e.Session() {
			f.t.Errorf("the user sees %v", e)
		}
	}
}

func TestFollow(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newBed(t, addr)
		b.add(uuid+"-lock-0000000001", uuid+"-lock-0000000002")
		f := spectate(t, open(t, addr, usual), b.root, render.Text, 0)
		f.expect("holds 1, waits 2")
		b.create(open(t, addr, usual), "/"+uuid+"-lock-0000000003", "", zkconn.OpenACL(), true)
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
		f.quiet()
		if strings.Contains(f.printed(), "no connection") { // of whom the servers were not asked yet
			t.Errorf("%q", f.printed())
		}
		first, _, _ := strings.Cut(f.printed(), "\n")
		want := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z  holds  lock  ` + render.Hex(b.Info().ID) + `  (127\.0\.0\.1:\d+|-)  -  ` + uuid + `-lock-0000000001$`)
		if !want.MatchString(first) {
			t.Errorf("%q", first)
		}
	})
}

// The figures come at the end; what the servers count as notified is of this queue,
// where nothing else happens.
func TestFollowStats(t *testing.T) {
	usually := sumLimit
	defer func() { sumLimit = usually }()
	sumLimit = zktest.Patience // a busy server may be late
	onBoth(t, func(t *testing.T, addr string) {
		b := newBed(t, addr)
		b.add(uuid+"-lock-0000000001", uuid+"-lock-0000000002")
		for range 3 {
			if err := zkconn.Exec(zktest.Within(t), open(t, addr, usual), zkconn.Exists(b.root+"/"+uuid+"-lock-0000000001").Watch(true)); err != nil {
				t.Fatal(err)
			}
		}
		screen := &commandtest.Screen{Format: render.JSON}
		env := &commands.Env{Session: open(t, addr, usual), Screen: screen}
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- followQueue(ctx, env, b.root, true) }() // ends with ctx, received below
		zktest.Eventually(t, "the waiter", func() bool { return strings.Contains(screen.Printed(), `"event":"waits"`) })
		b.remove(uuid + "-lock-0000000001")
		zktest.Eventually(t, "the hand-over", func() bool { return strings.Contains(screen.Printed(), `"event":"got"`) })
		cancel(errEnough)
		if err := <-ended; !errors.Is(err, errEnough) {
			t.Error(err)
		}
		lines := strings.Split(strings.TrimSpace(screen.Printed()), "\n")
		var s queue.Stats
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &s); err != nil {
			t.Fatal(err)
		}
		// The three above and who follows.
		if s.HandOvers != 1 || s.Releases != 1 || s.Notified == nil || s.Notified.Deleted != 4 || s.Notified.Children < 1 {
			t.Errorf("%+v %+v", s, s.Notified)
		}
	})
}

// On a terminal the figures stay in the picture, and come once.
func TestFollowStatsOnATerminal(t *testing.T) {
	b := newBed(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	b.add(uuid + "-lock-0000000001")
	screen := &commandtest.Screen{Columns: 80, Rows: 10}
	env := &commands.Env{Session: open(t, b.addr, usual), Screen: screen}
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- followQueue(ctx, env, b.root, true) }() // ends with ctx, received below
	zktest.Eventually(t, "the holder", func() bool { return len(screen.Drawn()) > 0 })
	cancel(errEnough)
	if err := <-ended; !errors.Is(err, errEnough) {
		t.Error(err)
	}
	if kept := strings.Join(screen.Kept(), "\n"); strings.Count(kept, "hand-overs: 0, releases: 0") != 1 || screen.Printed() != "" {
		t.Errorf("%q, printed %q", kept, screen.Printed())
	}
}

// A path that is made later is followed from then on, also after it vanished.
func TestFollowWhatIsNotThere(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newBed(t, addr)
		b.root += "/later"
		f := spectate(t, open(t, addr, usual), b.root, render.JSON, 0)
		for round := range 2 {
			b.persistent("", "")
			b.add("lock-0000000001")
			zktest.Eventually(t, "the newcomer", func() bool { // whom the very first reading may find there already
				return strings.Count(f.printed(), `"event":"got"`)+strings.Count(f.printed(), `"event":"holds"`) == round+1
			})
			b.remove("lock-0000000001")
			zktest.Eventually(t, "his going", func() bool { return strings.Count(f.printed(), `"left"`) == round+1 })
			if err := zkconn.Exec(zktest.Within(t), b, zkconn.Delete(b.root, -1)); err != nil {
				t.Fatal(err)
			}
		}
		f.stop()
		f.quiet()
		for l := range strings.Lines(f.printed()) {
			var c struct {
				Time, Event, Mode, State, Session string
				Nodes                             []string
			}
			if err := json.Unmarshal([]byte(l), &c); err != nil || c.Mode != "exclusive" || len(c.Nodes) != 1 || c.Session == "" {
				t.Errorf("%q: %v", l, err)
			}
		}
	})
}

func TestFollowSemaphore(t *testing.T) {
	b := newBed(t, zktest.Shared(t).Addr())
	b.persistent("/leases", "")
	b.persistent("/locks", "")
	b.add("leases/" + uuid + "-lease-0000000001")
	f := spectate(t, open(t, b.addr, usual), b.root, render.Text, 0)
	f.expect("holds 1")
	b.add("leases/" + uuid + "-lease-0000000002")
	f.expect("holds 1, came 2, got 2")
	b.add("locks/" + uuid + "-lock-0000000005")
	f.expect("holds 1, came 2, got 2, came 5")
	b.remove("leases/" + uuid + "-lease-0000000001")
	f.expect("holds 1, came 2, got 2, came 5, left 1")
	f.stop()
}

func TestFollowOnATerminal(t *testing.T) {
	b := newBed(t, zktest.Shared(t).Addr())
	f := spectate(t, open(t, b.addr, usual), b.root, render.Text, 80)
	zktest.Eventually(t, "free", func() bool { return strings.Contains(f.shows(), ": free  ") })
	for i := range 9 {
		b.add(fmt.Sprintf("%s-lock-%010d", uuid, i))
	}
	zktest.Eventually(t, "the queue, cut to the window", func() bool {
		s := f.shows()
		return strings.Contains(s, ": 1 hold, 8 wait  ") && strings.Contains(s, "holds") && strings.HasSuffix(s, "… and 7 more")
	})
	if f.printed() != "" {
		t.Errorf("printed %q", f.printed())
	}
	older := regexp.MustCompile(`  ([2-9]|\d\d)s  `) // which second is drawn depends on the machine
	zktest.Eventually(t, "older contenders", func() bool { return older.MatchString(f.shows()) })
	if err := zkconn.Exec(zktest.Within(t), b, zkconn.SetData(b.root+"/"+uuid+"-lock-0000000000", []byte(zklock.RevokeMessage), -1)); err != nil {
		t.Fatal(err)
	}
	zktest.Eventually(t, "the request to let go", func() bool { return strings.Contains(f.shows(), "release requested") })
	f.stop()
	if f.screen.Kept() == nil {
		t.Error("the picture was not left")
	}
}

// What a terminal shows goes on without a request.
func TestFollowDoesNotPoll(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newBed(t, addr)
		b.add(uuid + "-lock-0000000001")
		s := open(t, addr, usual)
		f := spectate(t, s, b.root, render.Text, 80)
		redrawn := func(times int) {
			t.Helper()
			before := len(f.screen.Drawn())
			zktest.Eventually(t, "it is drawn again", func() bool { return len(f.screen.Drawn()) >= before+times })
		}
		redrawn(1)
		before := received(t, s, addr)
		redrawn(2)
		if n := received(t, s, addr) - before; n > 1 { // one may be a ping
			t.Errorf("%d requests without a change", n)
		}
		f.stop()
		f.quiet()
	})
}

// A holder whose data are not for us to read is followed all the same.
func TestFollowHiddenHolder(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newBed(t, addr)
		other := open(t, addr, usual)
		if err := other.AddAuth(zktest.Within(t), "digest", []byte("a:b")); err != nil {
			t.Fatal(err)
		}
		b.create(other, "/"+uuid+"-lock-0000000001", "secret", []zk.ACL{{Perms: zk.PermAll, Scheme: "auth"}}, true)
		f := spectate(t, b.Session, b.root, render.Text, 0)
		f.expect("holds 1")
		b.add(uuid + "-lock-0000000002")
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

// received is how many requests a server has had from a session.
func received(t *testing.T, s *zkconn.Session, addr string) int {
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

// It goes on through reconnects, and tells what happened meanwhile.
func TestFollowThroughReconnects(t *testing.T) {
	b := newBed(t, zktest.Shared(t).Addr())
	proxy := zktest.NewProxy(t, b.addr)
	b.add(uuid + "-lock-0000000001")
	f := spectate(t, open(t, proxy.Addr(), usual), b.root, render.Text, 0)
	f.expect("holds 1")
	proxy.Refuse(true)
	proxy.Cut()
	b.add(uuid + "-lock-0000000002")
	proxy.Refuse(false)
	f.expect("holds 1, came 2")
	proxy.Cut()
	b.remove(uuid + "-lock-0000000001")
	f.expect("holds 1, came 2, left 1, got 2")
	f.stop()
	f.quiet()
}

func TestFollowThroughExpiry(t *testing.T) {
	b := newBed(t, zktest.Shared(t).Addr())
	proxy := zktest.NewProxy(t, b.addr)
	b.add(uuid + "-lock-0000000001")
	s := open(t, proxy.Addr(), time.Second)
	f := spectate(t, s, b.root, render.Text, 0)
	f.expect("holds 1")
	old := s.Info().ID
	proxy.Refuse(true)
	proxy.Cut()
	b.add(uuid + "-lock-0000000002")
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
	b := newBed(t, addr)
	before := goleak.IgnoreCurrent()
	s := open(t, addr, usual)
	f := spectate(t, s, b.root, render.Text, 0)
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
