package demo

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

// If the client that holds the lock is killed, the lock still passes to the others.
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
	p := b.plan(t, scheme, "-n", "6", "--kill-holder")
	p.timeout = 10 * time.Second // long enough for slow machines; the others must wait for it
	sum, err := p.run(zktest.Within(t), b.env)
	if err != nil {
		t.Fatal(err)
	}
	if err := sum.verdict(); err != nil {
		t.Error(err)
	}
	got := map[state]int{}
	for _, l := range b.printedLines(t) {
		got[l.Event]++
	}
	if got[holds] != 7 || got[killed] != 1 {
		t.Errorf("%d have held, %d have died", got[holds], got[killed])
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

// lockdemo works with 200 contenders on the sandbox.
func TestMany(t *testing.T) {
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	sum := b.runScenes(t, "predecessor", "zksh", "-n", "200", "--hold", "0")
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

// Each contender has the shell's credentials.
func TestCredentials(t *testing.T) {
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	ctx := zktest.Within(t)
	if err := b.AddAuth(ctx, "digest", []byte("ann:secret")); err != nil {
		t.Fatal(err)
	}
	st := newStage(b.env, usualTimeout)
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
