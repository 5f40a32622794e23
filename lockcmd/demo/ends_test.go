package demo

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

// TestKill has one client die, and the lock go on to the others all the same.
func TestKill(t *testing.T) {
	t.Parallel()
	for _, s := range schemes {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			testKill(t, newBed(t, zktest.Sandbox(t, sandbox.Options{}).Addr()), s.name)
		})
	}
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		testKill(t, newBed(t, zktest.Shared(t).Addr()), "zksh")
	})
}

func testKill(t *testing.T, b *bed, scheme string) {
	for _, who := range []string{"--kill-holder", "--kill-middle"} {
		p := b.plan(t, scheme, "-n", "6", who)
		p.timeout = 10 * time.Second // what has to be outlasted, also on a slow machine
		sum, err := p.perform(zktest.Within(t), b.env)
		if err != nil {
			t.Fatalf("%s: %v", who, err)
		}
		if err := sum.verdict(); err != nil {
			t.Errorf("%s: %v", who, err)
		}
	}
	got := map[state]int{}
	for _, l := range b.lines(t) {
		got[l.Event]++
	}
	if got[holds] != 7+6 || got[killed] != 2 {
		t.Errorf("%d have held, %d have died", got[holds], got[killed])
	}
}

// TestClassic has the first article's flags, looked at now and then.
func TestClassic(t *testing.T) {
	b := newBed(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	sum := b.play(t, "--classic", "--hold", "1ms", "--poll", "20ms", "-n", "6", "poll", "parent", "predecessor")
	if err := sum.verdict(); err != nil {
		t.Error(err)
	}
	if p := b.plan(t, "--classic"); p.hold != 2*time.Second || p.poll != time.Second || len(p.sizes) != 1 || p.sizes[0] != 20 {
		t.Errorf("classic: %+v", p)
	}
}

// TestTooMany has a server refuse some of the sessions: it is said before anything
// is begun.
func TestTooMany(t *testing.T) {
	b := newBed(t, zktest.Start(t, zktest.MaxConnections(10)).Addr())
	_, err := b.plan(t, "-n", "5,30").perform(zktest.Within(t), b.env)
	if err == nil || !strings.Contains(err.Error(), "maxClientCnxns") || !strings.Contains(err.Error(), "30 contenders need 31 sessions") {
		t.Errorf("%v", err)
	}
	if out := b.screen.Printed(); out != "" {
		t.Errorf("begun: %s", out)
	}
	b.empty(t)
}

// TestMayUse has only a sandbox be played on without a word.
func TestMayUse(t *testing.T) {
	server := zktest.Shared(t).Addr()
	for _, c := range []struct {
		mode   commands.Mode
		yes    bool
		answer bool
		played bool
		usage  bool
	}{
		{commands.OneShot, false, false, false, true}, {commands.Batch, false, false, false, true},
		{commands.OneShot, true, false, true, false}, {commands.ByHand, false, true, true, false}, {commands.ByHand, false, false, false, false},
	} {
		b := newBed(t, server)
		b.env.Mode, b.screen.Answer = c.mode, func(string) (bool, error) { return c.answer, nil }
		p := b.plan(t, "curator", "-n", "2")
		p.yes = c.yes
		sum, err := p.perform(zktest.Within(t), b.env)
		if played := sum != nil && len(sum.Results) > 0; played != c.played || (err != nil) != c.usage {
			t.Errorf("%+v: %v, %v", c, played, err)
		}
		b.empty(t)
	}
}

// TestInterrupted leaves nothing behind, whenever it comes.
func TestInterrupted(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		stop := errors.New("enough")
		for _, s := range schemes {
			ctx, cancel := context.WithCancelCause(zktest.Within(t))
			p := b.plan(t, s.name, "-n", "5", "--hold", "1h")
			seen := len(b.screen.Printed())
			go func() {
				zktest.Eventually(t, s.name+": somebody works", func() bool {
					return strings.Count(b.screen.Printed()[seen:], `"event":"holds"`) > 1
				})
				cancel(stop)
			}()
			if _, err := p.perform(ctx, b.env); !errors.Is(err, stop) {
				t.Errorf("%s: %v", s.name, err)
			}
			b.empty(t)
		}
	})
}

// TestStrangers has others' traffic called a disturbance, not a fault.
func TestStrangers(t *testing.T) {
	box := zktest.Sandbox(t, sandbox.Options{})
	b := newBed(t, box.Addr())
	other := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: usual})
	ctx, stop := context.WithCancel(zktest.Within(t))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_, _ = zkconn.Do(ctx, other, zkconn.Exists("/"))
		}
	}()
	r := b.play(t, "predecessor", "-n", "20", "--hold", "100ms").Results[0]
	stop()
	<-ended
	if !r.audit.disturbed || !r.Agree || r.Requests != 41 {
		t.Errorf("%+v: %s", r, r.witnesses())
	}
}

// TestAudit has servers that count otherwise than the wire be found out.
func TestAudit(t *testing.T) {
	at := func(received, connections int) *ledger { return &ledger{received, connections} }
	for _, c := range []struct {
		what                string
		idle, before, after *ledger
		pings, unheard      int
		agrees, disturbed   bool
	}{
		{"equal", at(10, 7), at(11, 7), at(53, 7), 0, 0, true, false},
		{"fewer than were sent", at(10, 7), at(11, 7), at(52, 7), 1, 0, false, false},
		{"fewer, by one of a client that died", at(10, 7), at(11, 7), at(52, 7), 0, 1, true, false},
		{"fewer than that", at(10, 7), at(11, 7), at(51, 7), 0, 1, false, false},
		{"fewer, with others", at(10, 9), at(11, 9), at(52, 9), 1, 0, false, false},
		{"more, from nowhere", at(10, 7), at(11, 7), at(54, 7), 0, 0, true, true},
		{"more, by a ping", at(10, 7), at(11, 7), at(54, 7), 1, 0, true, false},
		{"more than the ping", at(10, 7), at(11, 7), at(55, 7), 1, 0, true, true},
		{"more, with others", at(10, 8), at(11, 8), at(54, 8), 0, 0, true, true},
		{"more, as before", at(10, 7), at(15, 7), at(58, 7), 0, 0, true, true},
		{"not reported", nil, at(15, 7), at(58, 7), 0, 0, true, false},
	} {
		a := newAudit(traffic{sent: 41, unheard: c.unheard}, 6, c.pings, []string{"one"}, c.idle, c.before, c.after)
		if a.agrees() != c.agrees || a.disturbed != c.disturbed {
			t.Errorf("%s: %+v, agrees %v", c.what, a, a.agrees())
		}
	}
}

// TestMany has 200 contenders on the sandbox.
func TestMany(t *testing.T) {
	b := newBed(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	sum := b.play(t, "poll", "predecessor", "zksh", "-n", "200", "--hold", "0")
	if err := sum.verdict(); err != nil {
		t.Error(err)
	}
}

// TestFolderGoes has a server that removes each container the moment it is empty: with
// one znode for all, that is at each release, and the root goes between two scenes.
func TestFolderGoes(t *testing.T) {
	b := newBed(t, zktest.Sandbox(t, sandbox.Options{ReapEvery: time.Microsecond}).Addr())
	sum := b.play(t, "naive", "curator", "-n", "3,9,30")
	if err := sum.verdict(); err != nil {
		t.Error(err)
	}
	b.empty(t)
}

// TestStep goes on by Enter.
func TestStep(t *testing.T) {
	b := newBed(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	b.env.Stdin = strings.NewReader("\n\n\n")
	b.play(t, "curator", "-n", "3", "--step", "--hold", "1h")
	b.env.Stdin = strings.NewReader("\n")
	_, err := b.plan(t, "curator", "-n", "3", "--step").perform(zktest.Within(t), b.env)
	if err == nil {
		t.Error("it goes on where nobody presses Enter any more")
	}
	b.empty(t)
}

// TestStepAsks says what it waits for, and waits no longer than its context.
func TestStepAsks(t *testing.T) {
	b := newBed(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	in, enter := io.Pipe() // nobody presses Enter
	b.env.Stdin = in
	ctx, cancel := context.WithCancelCause(t.Context())
	var failed error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, failed = b.plan(t, "curator", "-n", "3", "--step").perform(ctx, b.env)
	}()
	zktest.Eventually(t, "it asks for Enter", func() bool { return strings.Contains(b.screen.Alerts(), "press Enter to continue") })
	interrupted := errors.New("interrupted")
	cancel(interrupted)
	<-ended
	if !errors.Is(failed, interrupted) {
		t.Error(failed)
	}
	enter.Close()
	b.empty(t)
}

// TestFiles has the picture and the recording be what players and browsers take.
func TestFiles(t *testing.T) {
	b := newBed(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	dir := t.TempDir()
	svg, cast := filepath.Join(dir, "lanes.svg"), filepath.Join(dir, "lanes.cast")
	b.play(t, "naive", "curator", "-n", "3,9,30", "--svg", svg, "--record", cast)
	checkSVG(t, read(t, svg), []string{"naive, 9 contenders", "curator, 9 contenders"}, 20)
	checkCast(t, read(t, cast), "curator")
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestCredentials has each contender be who the shell is.
func TestCredentials(t *testing.T) {
	b := newBed(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	ctx := zktest.Within(t)
	if err := b.AddAuth(ctx, "digest", []byte("ann:secret")); err != nil {
		t.Fatal(err)
	}
	st := &stage{rules: rules{timeout: usual}, env: b.env}
	if err := st.open(ctx, 2); err != nil {
		t.Fatal(err)
	}
	for _, s := range st.seats {
		ids, err := zkconn.Do(ctx, s.client, zkconn.WhoAmI())
		if err != nil || !slices.Contains(ids, zkconn.Identity{Scheme: "digest", User: "ann"}) {
			t.Errorf("%v, %v", ids, err)
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}
}
