package interop

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

var contend = flag.Duration("contend", 5*time.Second, "how long each group of clients contends for a lock; all groups at once")

// groups are clients that contend for one lock.
var groups = []struct {
	name    string
	members []string // their kinds
	broken  bool     // a control: they do not exclude each other
}{
	{"Mutex", []string{"C-mutex", "C-mutex", "G-lock", "G-lock", "mutex.x", "mutex.x"}, false},
	{"Kazoo", []string{"K-lock", "K-lock", "K-write", "kazoo.x", "kazoo.x"}, false},
	{"KazooShared", []string{"K-write", "K-write", "kazoo.x", "kazoo.s", "kazoo.s"}, false},
	{"ReadWrite", []string{"C-write", "C-read", "C-read", "rw.x", "rw.s", "rw.s"}, false},
	{"All", []string{"all.x", "all.x", "C-mutex", "C-write", "K-lock", "G-lock"}, false},
	{"Control", []string{"C-mutex", "K-lock"}, true},
}

func testContention(t *testing.T, d *drivers, addr string) {
	m := readMatrix(t)
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			exclude := m.exclude
			if g.broken {
				exclude = func(string, string) bool { return true }
			}
			judge := newJudge(g.members, exclude)
			path := "/contention-" + g.name
			fight(t, d, addr, path, judge)
			t.Log(judge)
			if g.broken && judge.count == 0 {
				t.Error("locks that ignore each other are not found out")
			}
			if !g.broken && judge.count > 0 {
				t.Errorf("%d violations, such as %s", judge.count, judge.first)
			}
			for i, n := range judge.shares {
				if n == 0 {
					t.Errorf("%s never got the lock", g.members[i])
				}
			}
		})
	}
}

// fight has all members take the lock, hold it for a moment and release it, over
// and over. Nothing may be left behind.
func fight(t *testing.T, d *drivers, addr, path string, j *judge) {
	ctx, cancel := context.WithTimeout(t.Context(), *contend+zktest.Patience)
	defer cancel()
	clients := make([]client, len(j.kinds))
	for i, kind := range j.kinds {
		var err error
		if clients[i], err = d.open(ctx, t, addr, kind); err != nil {
			t.Fatal(err)
		}
	}
	end := time.Now().Add(*contend)
	var members sync.WaitGroup
	for i, c := range clients {
		members.Go(func() {
			for time.Now().Before(end) {
				if err := j.round(ctx, c, i, path); err != nil {
					t.Errorf("%s: %v", j.kinds[i], err)
					return
				}
			}
		})
	}
	members.Wait()
	watcher, err := openOurs(ctx, t, addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := watcher.unused(ctx, path); err != nil {
		t.Error(err)
	}
}

// judge sees who holds a lock, from after each acquire to before each release.
type judge struct {
	kinds   []string // of the members
	exclude func(a, b string) bool

	mu     sync.Mutex
	inside map[int]bool
	shares []int // how often each has held the lock
	count  int   // of violations
	first  string

	token, exclusive int64 // the largest token of ours, and that of an exclusive lock
}

func newJudge(kinds []string, exclude func(a, b string) bool) *judge {
	return &judge{kinds: kinds, exclude: exclude, inside: map[int]bool{}, shares: make([]int, len(kinds))}
}

// moment is how long a lock is held.
const moment = time.Millisecond

func (j *judge) round(ctx context.Context, c client, member int, path string) error {
	token, err := c.acquire(ctx, j.kinds[member], path)
	if err != nil {
		return err
	}
	j.enter(member, token)
	time.Sleep(moment)
	j.leave(member)
	return c.release(ctx)
}

func (j *judge) enter(member int, token int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	kind := j.kinds[member]
	for other := range j.inside {
		if j.exclude(j.kinds[other], kind) {
			j.violation("%s holds, %s too", j.kinds[other], kind)
		}
	}
	j.inside[member] = true
	j.shares[member]++
	if token != 0 {
		j.fence(kind, token)
	}
}

// fence checks that tokens grow. Those of shared locks that are held together
// may come in any order.
func (j *judge) fence(kind string, token int64) {
	shared := strings.HasSuffix(kind, ".s")
	if token <= j.exclusive || !shared && token <= j.token {
		j.violation("%s has token %#x after %#x", kind, token, j.token)
	}
	j.token = max(j.token, token)
	if !shared {
		j.exclusive = token
	}
}

func (j *judge) leave(member int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.inside, member)
}

func (j *judge) violation(format string, args ...any) {
	j.count++
	if j.first == "" {
		j.first = fmt.Sprintf(format, args...)
	}
}

// String tells how often each member has held the lock.
func (j *judge) String() string {
	sum := 0
	var shares []string
	for i, n := range j.shares {
		sum += n
		shares = append(shares, fmt.Sprintf("%s %d", j.kinds[i], n))
	}
	return fmt.Sprintf("held %d times (%s), %d violations", sum, strings.Join(shares, ", "), j.count)
}
