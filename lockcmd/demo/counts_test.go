package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

// usualTimeout is a session timeout so long that no test waits for it. A session with a lock
// moves to another server after it has received nothing for 1/16 of it.
const usualTimeout = 40 * time.Second

// onBoth runs a test on a sandbox and on a real server. Each test has a server of its own,
// because the counts must agree exactly.
func onBoth(t *testing.T, test func(t *testing.T, b *fixture)) {
	t.Parallel()
	t.Run("sandbox", func(t *testing.T) {
		t.Parallel()
		test(t, newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr()))
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		test(t, newFixture(t, zktest.Start(t).Addr()))
	})
}

// fixture is a shell's session and screen.
type fixture struct {
	*zkconn.Session
	screen *commandtest.Screen
	env    *commands.Env
}

func newFixture(t testing.TB, addr string) *fixture {
	b := &fixture{Session: zksession.Open(t, zkconn.Config{Servers: addr, Timeout: usualTimeout}), screen: &commandtest.Screen{Format: render.JSON}}
	b.env = &commands.Env{Session: b.Session, Screen: b.screen, Yes: true}
	return b
}

// plan returns the plan for these arguments of lockdemo.
func (b *fixture) plan(t testing.TB, line ...string) *plan {
	t.Helper()
	fs := pflag.NewFlagSet("lockdemo", pflag.ContinueOnError)
	w := declare(fs)
	zktest.Must(t, fs.Parse(line))
	p, err := w.plan(b.env, fs.Args())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// runScenes runs scenes and checks that they leave nothing behind.
func (b *fixture) runScenes(t testing.TB, line ...string) *summary {
	t.Helper()
	p := b.plan(t, line...)
	contenders := 0
	for _, s := range p.scenes {
		contenders += s.n
	}
	ctx, cancel := context.WithTimeout(t.Context(), zktest.Patience+time.Duration(contenders)*zktest.Patience/50)
	defer cancel()
	sum, err := p.run(ctx, b.env)
	if err != nil {
		t.Fatal(err)
	}
	b.expectNothingLeft(t)
	return sum
}

// expectNothingLeft checks that lockdemo has left no znodes behind.
func (b *fixture) expectNothingLeft(t testing.TB) {
	t.Helper()
	list, err := zkconn.Do(zktest.Within(t), b, zkconn.List("/"))
	if err != nil || slices.ContainsFunc(list.Names, func(n string) bool { return strings.Contains(n, "lockdemo") }) {
		t.Errorf("left behind: %q, %v", list.Names, err)
	}
}

// line is one printed JSON object: an event or the summary.
type line struct {
	Event     state
	Scheme    string
	N         int
	Contender int
	Summary   []result
}

// printedLines returns the printed objects.
func (b *fixture) printedLines(t testing.TB) (all []line) {
	t.Helper()
	for text := range strings.Lines(b.screen.Printed()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		all = append(all, l)
	}
	return all
}

// counts are the expected bounds of requests and notifications.
type counts struct {
	requests, notifications [2]int
	refused                 bool
}

func exact(requests, notifications int) counts {
	return counts{requests: [2]int{requests, requests}, notifications: [2]int{notifications, notifications}}
}

const many = 1 << 30

var expectedCounts = map[string]func(n int) counts{
	"naive": func(n int) counts {
		return counts{[2]int{2*n + 1, many}, [2]int{n, many}, true}
	},
	"poll": func(n int) counts { return counts{[2]int{2*n + 1, many}, [2]int{0, 0}, false} },
	"parent": func(n int) counts {
		return counts{[2]int{n * n / 3, n*n/2 + 2*n}, [2]int{n*n/3 + 1, n*n/2 + 2*n}, false}
	},
	"predecessor": func(n int) counts { return exact(2*n+1, n) },
	"curator":     func(n int) counts { return exact(2*n+1, n) },
	"zksh":        func(n int) counts { return counts{[2]int{2 * n, 2*n + 2}, [2]int{n, n}, false} },
	// Two hand-offs, of the mutex and of the lease; a slow holder reads its own znode in each.
	"semaphore":   func(n int) counts { return counts{[2]int{3 * n, 9 * n}, [2]int{n, 2 * n}, false} },
	"shared":      func(n int) counts { return counts{[2]int{n + 1, 3*n + 1}, [2]int{n / 4, 2 * n}, false} },
	"shared-herd": func(n int) counts { return counts{[2]int{n + 1, n*n/2 + 2*n}, [2]int{n, n*n/2 + 2*n}, false} },
	// Each contender creates its znode within the measured period; with one waiter, the
	// minimum is 5n.
	"local": func(n int) counts { return counts{[2]int{3 * n, 8 * n}, [2]int{1, 2 * n}, false} },
}

// Each scheme has the expected cost, and the counts agree.
func TestCounts(t *testing.T) {
	onBoth(t, func(t *testing.T, b *fixture) {
		sum := b.runScenes(t)
		if len(sum.Results) != 3*len(schemes) {
			t.Errorf("%d scenes", len(sum.Results))
		}
		began := map[string]bool{}
		for _, l := range b.printedLines(t) { // no contender holds the lock before the starter releases it
			scene := fmt.Sprint(l.Scheme, l.N)
			if l.Event == releases && !began[scene] && l.Contender != 0 {
				t.Errorf("%s: %d releases before the start", scene, l.Contender)
			}
			began[scene] = began[scene] || l.Event == releases
		}
		for _, r := range sum.Results {
			want, name := expectedCounts[r.Scheme](r.N), fmt.Sprintf("%s n=%d", r.Scheme, r.N)
			if !within(r.Requests, want.requests) || !within(r.Notifications, want.notifications) || (r.Refused > 0) != want.refused {
				t.Errorf("%s: %+v, want %+v", name, r, want)
			}
			if !r.Agree || !r.Exclusion {
				t.Errorf("%s: expected %s, agree %v, exclusion %v", name, r.expected(), r.Agree, r.Exclusion)
			}
			if numbered := r.Scheme != "naive"; numbered && r.Overtakes > 0 {
				t.Errorf("%s: %d overtook", name, r.Overtakes)
			}
			if r.Vain > r.Notifications || r.P50 <= 0 || r.P99 < r.P50 {
				t.Errorf("%s: %+v", name, r)
			}
		}
	})
}

func within(n int, bounds [2]int) bool { return bounds[0] <= n && n <= bounds[1] }

// Readers hold the lock at the same time, and a release wakes only the clients that can
// acquire the lock.
func TestReaders(t *testing.T) {
	onBoth(t, func(t *testing.T, b *fixture) {
		b.runScenes(t, "shared", "-n", "12", "--hold", "500ms")
		inside, together, awake, mostAwake := 0, 0, 0, 0
		for _, e := range b.printedLines(t) {
			switch e.Event {
			case holds:
				inside++
			case releases:
				inside--
				awake = 0
			case woken:
				awake++
			}
			together, mostAwake = max(together, inside), max(mostAwake, awake)
		}
		if together != 3 { // between two of the three writers
			t.Errorf("%d readers at once", together)
		}
		if mostAwake > 3 {
			t.Errorf("one release has woken %d", mostAwake)
		}
	})
}
