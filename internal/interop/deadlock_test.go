package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd"
	"github.com/zksh/zksh/lockcmd/queue"
)

// testDeadlock has two clients of another make and one of ours wait for each other
// over three queues, each holding one. The circle is found, and nothing else, and the
// command that it comes with ends it.
func testDeadlock(t *testing.T, d *drivers, addr string) {
	for _, c := range []struct{ theirs, ours string }{{"C-mutex", "mutex.x"}, {"K-lock", "kazoo.x"}} {
		t.Run(c.theirs, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), zktest.Patience)
			defer cancel()
			root := "/deadlock-" + c.theirs
			kinds := []string{c.theirs, c.theirs, c.ours}
			clients := make([]client, len(kinds))
			for i, kind := range kinds {
				var err error
				if clients[i], err = d.open(ctx, t, addr, kind); err != nil {
					t.Fatal(err)
				}
				if _, err := clients[i].acquire(ctx, kind, fmt.Sprintf("%s/q%d", root, i)); err != nil {
					t.Fatal(err)
				}
			}
			watcher, err := openOurs(ctx, t, addr, nil)
			if err != nil {
				t.Fatal(err)
			}
			crossed(ctx, t, clients, kinds, root, watcher)
		})
	}
}

// crossed has each client wait for the next one's lock.
func crossed(ctx context.Context, t *testing.T, clients []client, kinds []string, root string, watcher *ours) {
	waiting, give := context.WithTimeout(ctx, 20*time.Second) // kazoo's and Curator's wait cannot be ended sooner
	defer give()
	got := make(chan int, len(clients))
	var all sync.WaitGroup
	defer all.Wait()
	for i, c := range clients {
		all.Go(func() { // ends with waiting
			next := (i + 1) % len(clients)
			if _, err := c.acquire(waiting, kinds[i], fmt.Sprintf("%s/q%d", root, next)); err == nil {
				got <- i
			}
		})
	}
	var found *queue.Deadlocks
	zktest.Eventually(t, "the circle", func() bool {
		found = search(ctx, t, watcher, root) // a server may be late to tell, and a client to watch
		return len(found.Findings) == 1 && found.Findings[0].Kind == "circle" && len(found.NotTold) == 0
	})
	f := found.Findings[0]
	if len(f.Chain) != len(clients) || found.Queues != len(clients) {
		t.Fatalf("%+v %+v", found, f)
	}
	if len(got) > 0 {
		t.Fatal("somebody got on before it was ended")
	}
	if err := command(ctx, watcher, &commandtest.Screen{}, strings.Fields(f.Command)...); err != nil {
		t.Fatalf("%s: %v", f.Command, err)
	}
	select {
	case <-got:
	case <-waiting.Done():
		t.Error("the circle was not ended by ", f.Command)
	}
}

// search runs locks --deadlocks.
func search(ctx context.Context, t *testing.T, o *ours, root string) *queue.Deadlocks {
	t.Helper()
	screen := &commandtest.Screen{Format: render.JSON}
	err := command(ctx, o, screen, "locks", "--deadlocks", root)
	var all struct {
		Queues   int
		NotTold  []string
		Findings []struct {
			Kind, Command string
			Chain         []struct{}
		}
	}
	if jsonErr := json.Unmarshal([]byte(screen.Printed()), &all); jsonErr != nil {
		t.Fatal(err, jsonErr)
	}
	if want := len(all.Findings) > 0; errors.As(err, new(*commands.StatusError)) != want {
		t.Errorf("%d findings, and %v", len(all.Findings), err)
	}
	d := &queue.Deadlocks{Queues: all.Queues, NotTold: all.NotTold}
	for _, f := range all.Findings {
		d.Findings = append(d.Findings, &queue.Finding{Kind: f.Kind, Command: f.Command, Chain: make([]queue.Step, len(f.Chain))})
	}
	return d
}

// command carries a command line out.
func command(ctx context.Context, o *ours, screen *commandtest.Screen, words ...string) error {
	for _, c := range lockcmd.New().Commands() {
		if c.Name == words[0] {
			return commandtest.Run(ctx, c, &commands.Env{Session: o.Session, Screen: screen}, words[1:]...)
		}
	}
	return errors.New("no such command")
}
