package demo

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

// If a client is killed, the lock still passes to the others.
func TestKill(t *testing.T) {
	t.Parallel()
	for _, s := range schemes {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			testKill(t, newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr()), s.name)
		})
	}
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		testKill(t, newFixture(t, zktest.Shared(t).Addr()), "zksh")
	})
}

func testKill(t *testing.T, b *fixture, scheme string) {
	for _, who := range []string{"--kill-holder", "--kill-middle"} {
		p := b.plan(t, scheme, "-n", "6", who)
		p.timeout = 10 * time.Second // long enough for slow machines; the others must wait for it
		sum, err := p.run(zktest.Within(t), b.env)
		if err != nil {
			t.Fatalf("%s: %v", who, err)
		}
		if err := sum.verdict(); err != nil {
			t.Errorf("%s: %v", who, err)
		}
	}
	got := map[state]int{}
	for _, l := range b.printedLines(t) {
		got[l.Event]++
	}
	if got[holds] != 7+6 || got[killed] != 2 {
		t.Errorf("%d have held, %d have died", got[holds], got[killed])
	}
}

// With --classic, clients check the article's flag at intervals.
func TestClassic(t *testing.T) {
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	sum := b.runScenes(t, "--classic", "--hold", "1ms", "--poll", "20ms", "-n", "6", "poll", "parent", "predecessor")
	if err := sum.verdict(); err != nil {
		t.Error(err)
	}
	if p := b.plan(t, "--classic"); p.hold != 2*time.Second || p.poll != time.Second || len(p.sizes) != 1 || p.sizes[0] != 20 {
		t.Errorf("classic: %+v", p)
	}
}

// If the server rejects some of the sessions, lockdemo fails before it starts a scene.
func TestTooMany(t *testing.T) {
	b := newFixture(t, zktest.Start(t, zktest.MaxConnections(10)).Addr())
	_, err := b.plan(t, "-n", "5,30").run(zktest.Within(t), b.env)
	if err == nil || !strings.Contains(err.Error(), "maxClientCnxns") || !strings.Contains(err.Error(), "30 contenders need 31 sessions") {
		t.Errorf("%v", err)
	}
	if out := b.screen.Printed(); out != "" {
		t.Errorf("begun: %s", out)
	}
	b.expectNothingLeft(t)
}

// Without a confirmation, lockdemo runs only on a sandbox.
func TestConfirmation(t *testing.T) {
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
		b := newFixture(t, server)
		b.env.Mode, b.env.Yes, b.screen.Answer = c.mode, c.yes, func(string) (bool, error) { return c.answer, nil }
		p := b.plan(t, "curator", "-n", "2")
		sum, err := p.run(zktest.Within(t), b.env)
		if played := sum != nil && len(sum.Results) > 0; played != c.played || (err != nil) != c.usage {
			t.Errorf("%+v: %v, %v", c, played, err)
		}
		b.expectNothingLeft(t)
	}
}

// An interrupt at any time leaves no znodes behind.
func TestInterrupted(t *testing.T) {
	onBoth(t, func(t *testing.T, b *fixture) {
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
			if _, err := p.run(ctx, b.env); !errors.Is(err, stop) {
				t.Errorf("%s: %v", s.name, err)
			}
			b.expectNothingLeft(t)
		}
	})
}

// Requests of other clients are reported as a disturbance, not as an error.
func TestStrangers(t *testing.T) {
	box := zktest.Sandbox(t, sandbox.Options{})
	b := newFixture(t, box.Addr())
	other := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: usualTimeout})
	ctx, stop := context.WithCancel(zktest.Within(t))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_, _ = zkconn.Do(ctx, other, zkconn.Exists("/"))
		}
	}()
	r := b.runScenes(t, "predecessor", "-n", "20", "--hold", "100ms").Results[0]
	stop()
	<-ended
	if !r.audit.disturbed || !r.Agree || r.Requests != 41 {
		t.Errorf("%+v: %s", r, r.witnessesText())
	}
}

// The audit detects servers whose counters contradict the counts on the wire.
func TestAudit(t *testing.T) {
	at := func(received, connections int) *serverCounters { return &serverCounters{received, connections} }
	for _, c := range []struct {
		what                string
		idle, before, after *serverCounters
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
		a := newAudit(traffic{sent: 41, unanswered: c.unheard}, 6, c.pings, []string{"one"}, c.idle, c.before, c.after)
		if a.agrees() != c.agrees || a.disturbed != c.disturbed {
			t.Errorf("%s: %+v, agrees %v", c.what, a, a.agrees())
		}
	}
}

// lockdemo works with 200 contenders on the sandbox.
func TestMany(t *testing.T) {
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	sum := b.runScenes(t, "poll", "predecessor", "zksh", "-n", "200", "--hold", "0")
	if err := sum.verdict(); err != nil {
		t.Error(err)
	}
}

// lockdemo works if the server deletes each container as soon as it is empty. With the single
// znode of naive, this happens at each release; the root disappears between two scenes.
func TestFolderIsRemoved(t *testing.T) {
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{ReapEvery: time.Microsecond}).Addr())
	sum := b.runScenes(t, "naive", "curator", "-n", "3,9,30")
	if err := sum.verdict(); err != nil {
		t.Error(err)
	}
	b.expectNothingLeft(t)
}

// With --step, each Enter continues the scene.
func TestStep(t *testing.T) {
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	b.env.Stdin = strings.NewReader("\n\n\n")
	b.runScenes(t, "curator", "-n", "3", "--step", "--hold", "1h")
	b.env.Stdin = strings.NewReader("\n")
	_, err := b.plan(t, "curator", "-n", "3", "--step").run(zktest.Within(t), b.env)
	if err == nil {
		t.Error("it goes on where nobody presses Enter any more")
	}
	b.expectNothingLeft(t)
}

// With --step, lockdemo prompts for Enter, and stops waiting when it is canceled.
func TestStepAsks(t *testing.T) {
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	in, enter := io.Pipe() // no input ever arrives
	b.env.Stdin = in
	ctx, cancel := context.WithCancelCause(t.Context())
	var failed error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, failed = b.plan(t, "curator", "-n", "3", "--step").run(ctx, b.env)
	}()
	zktest.Eventually(t, "it asks for Enter", func() bool { return strings.Contains(b.screen.Alerts(), "Enter: next step, Ctrl-C: end") })
	interrupted := errors.New("interrupted")
	cancel(interrupted)
	<-ended
	if !errors.Is(failed, interrupted) {
		t.Error(failed)
	}
	enter.Close()
	b.expectNothingLeft(t)
}

// --slow slows down only what people see. The contenders run at full speed, so neither the requests
// nor the times are those of the slow motion.
func TestSlow(t *testing.T) {
	const hold, slow, contenders = 100 * time.Millisecond, 5, 3
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	args := []string{"naive", "predecessor", "zksh", "-n", strconv.Itoa(contenders), "--hold", hold.String()}
	fast := b.runScenes(t, args...)
	begun := time.Now()
	slowed := b.runScenes(t, append(args, "--slow", strconv.Itoa(slow))...)
	if took := time.Since(begun); took < slow*3*3*hold {
		t.Errorf("it shows three scenes of more than %v in %v, want %d times as long", 3*hold, took, slow)
	}
	for _, r := range slowed.Results {
		at := slices.IndexFunc(fast.Results, func(f *result) bool { return f.Scheme == r.Scheme }) // they are sorted by their requests
		f := fast.Results[at]
		// A contender that looks at the queue while the lock changes hands looks once more.
		apart := max(r.Requests-f.Requests, f.Requests-r.Requests, r.Notifications-f.Notifications, f.Notifications-r.Notifications)
		if apart > contenders {
			t.Errorf("%s: %d requests and %d notifications with --slow, %d and %d without", r.Scheme, r.Requests, r.Notifications, f.Requests, f.Notifications)
		}
		if r.P99 > ms(hold) { // with hold slowed down, too, each hand-off would take at least this long
			t.Errorf("%s: a hand-off takes %v ms with --slow, %v ms without", r.Scheme, r.P99, f.P99)
		}
	}
}

// The picture is a valid file.
func TestFiles(t *testing.T) {
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	svg := filepath.Join(t.TempDir(), "lanes.svg")
	b.runScenes(t, "naive", "curator", "-n", "3,9,30", "--svg", svg)
	checkSVG(t, readFile(t, svg), []string{"naive, 9 contenders", "curator, 9 contenders"}, 20)
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Each contender has the shell's credentials.
func TestCredentials(t *testing.T) {
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	ctx := zktest.Within(t)
	if err := b.AddAuth(ctx, "digest", []byte("ann:secret")); err != nil {
		t.Fatal(err)
	}
	st := &runner{rules: rules{timeout: usualTimeout}, env: b.env}
	if err := st.open(ctx, 2); err != nil {
		t.Fatal(err)
	}
	for _, s := range st.slots {
		ids, err := zkconn.Do(ctx, s.client, zkconn.WhoAmI())
		if err != nil || !slices.Contains(ids, zkconn.Identity{Scheme: "digest", User: "ann"}) {
			t.Errorf("%v, %v", ids, err)
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}
}
