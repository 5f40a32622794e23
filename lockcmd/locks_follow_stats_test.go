package lockcmd

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/queue"
)

// The statistics are printed at the end. The servers' counters cover only this queue, because
// nothing else happens on them.
func TestFollowStats(t *testing.T) {
	usually := finalStatsTimeout
	defer func() { finalStatsTimeout = usually }()
	finalStatsTimeout = zktest.Patience // a busy server may answer late
	onBoth(t, func(t *testing.T, addr string) {
		b := newFixture(t, addr)
		b.addContenders(uuid+"-lock-0000000001", uuid+"-lock-0000000002")
		for range 3 {
			if err := zkconn.Exec(zktest.Within(t), open(t, addr, usualTimeout), zkconn.Exists(b.root+"/"+uuid+"-lock-0000000001").Watch(true)); err != nil {
				t.Fatal(err)
			}
		}
		screen := &commandtest.Screen{Format: render.JSON}
		env := &commands.Env{Session: open(t, addr, usualTimeout), Screen: screen}
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- followQueue(ctx, env, b.root, true) }() // ends with ctx, received below
		zktest.Eventually(t, "the waiter", func() bool { return strings.Contains(screen.Printed(), `"event":"waits"`) })
		b.remove(uuid + "-lock-0000000001")
		zktest.Eventually(t, "the hand-over", func() bool { return strings.Contains(screen.Printed(), `"event":"got"`) })
		cancel(errStopFollow)
		if err := <-ended; !errors.Is(err, errStopFollow) {
			t.Error(err)
		}
		lines := strings.Split(strings.TrimSpace(screen.Printed()), "\n")
		var s queue.Stats
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &s); err != nil {
			t.Fatal(err)
		}
		// The three sessions above and the follower itself.
		if s.HandOvers != 1 || s.Releases != 1 || s.Notified == nil || s.Notified.Deleted != 4 || s.Notified.Children < 1 {
			t.Errorf("%+v %+v", s, s.Notified)
		}
	})
}

// On a terminal, the statistics are part of the final picture, once.
func TestFollowStatsOnATerminal(t *testing.T) {
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	b.addContenders(uuid + "-lock-0000000001")
	screen := &commandtest.Screen{Columns: 80, Rows: 10}
	env := &commands.Env{Session: open(t, b.addr, usualTimeout), Screen: screen}
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- followQueue(ctx, env, b.root, true) }() // ends with ctx, received below
	zktest.Eventually(t, "the holder", func() bool { return len(screen.Drawn()) > 0 })
	cancel(errStopFollow)
	if err := <-ended; !errors.Is(err, errStopFollow) {
		t.Error(err)
	}
	if kept := strings.Join(screen.Kept(), "\n"); strings.Count(kept, "hand-overs: 0, releases: 0") != 1 || screen.Printed() != "" {
		t.Errorf("%q, printed %q", kept, screen.Printed())
	}
}
