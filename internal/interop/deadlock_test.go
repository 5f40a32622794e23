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

// testDeadlock lets two clients of another library and one of zksh deadlock: each holds one
// of three locks and waits for another. locks -R reports this cycle and nothing else, and the
// command that it suggests breaks the cycle.
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
			zktest.Must(t, err)
			waitInCycle(ctx, t, clients, kinds, root, watcher)
		})
	}
}

// waitInCycle makes each client wait for the next one's lock, and checks and breaks the
// deadlock.
func waitInCycle(ctx context.Context, t *testing.T, clients []client, kinds []string, root string, watcher *zkshClient) {
	waiting, cancel := context.WithTimeout(ctx, 20*time.Second) // waits of kazoo and Curator cannot be cancelled
	defer cancel()
	got := make(chan int, len(clients))
	var all sync.WaitGroup
	defer all.Wait()
	for i, c := range clients {
		all.Go(func() { // ends when the context waiting ends
			next := (i + 1) % len(clients)
			if _, err := c.acquire(waiting, kinds[i], fmt.Sprintf("%s/q%d", root, next)); err == nil {
				got <- i
			}
		})
	}
	var f queue.Deadlock
	zktest.Eventually(t, "the circle", func() bool {
		found := findDeadlocks(ctx, t, watcher, root) // repeated, because the dump of a server may be late
		if len(found) == 1 {
			f = found[0]
		}
		return len(found) == 1
	})
	if n := strings.Count(f.Problem, " is ahead in "); n != len(clients)-1 {
		t.Fatalf("%+v", f)
	}
	if len(got) > 0 {
		t.Fatal("somebody got on before it was ended")
	}
	if err := runCommand(ctx, watcher, &commandtest.Screen{}, strings.Fields(f.Command)...); err != nil {
		t.Fatalf("%s: %v", f.Command, err)
	}
	select {
	case <-got:
	case <-waiting.Done():
		t.Error("the circle was not ended by ", f.Command)
	}
}

// findDeadlocks returns the possible deadlocks that locks -R reports in its JSON output.
func findDeadlocks(ctx context.Context, t *testing.T, o *zkshClient, root string) []queue.Deadlock {
	t.Helper()
	screen := &commandtest.Screen{Format: render.JSON}
	zktest.Must(t, runCommand(ctx, o, screen, "locks", "-R", root))
	var all struct{ Deadlocks []queue.Deadlock }
	zktest.Must(t, json.Unmarshal([]byte(screen.Printed()), &all))
	return all.Deadlocks
}

// runCommand runs a lock command of zksh in this process.
func runCommand(ctx context.Context, o *zkshClient, screen *commandtest.Screen, words ...string) error {
	for _, c := range lockcmd.New().Commands() {
		if c.Name == words[0] {
			return commandtest.Run(ctx, c, &commands.Env{Session: o.Session, Screen: screen}, words[1:]...)
		}
	}
	return errors.New("no such command")
}
