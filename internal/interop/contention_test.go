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

// contentionGroups lists groups of clients that contend for one lock.
var contentionGroups = []struct {
	name    string
	members []string // kinds of locks, one for each client
	broken  bool     // a control, whose locks do not exclude each other
}{
	{"Mutex", []string{"C-mutex", "C-mutex", "G-lock", "G-lock", "mutex.x", "mutex.x"}, false},
	{"Kazoo", []string{"K-lock", "K-lock", "K-write", "kazoo.x", "kazoo.x"}, false},
	{"KazooShared", []string{"K-write", "K-write", "kazoo.x", "kazoo.s", "kazoo.s"}, false},
	{"ReadWrite", []string{"C-write", "C-read", "C-read", "rw.x", "rw.s", "rw.s"}, false},
	{"Owners", []string{"mutex.xo", "mutex.xo", "C-mutex", "G-lock", "mutex.x"}, false},
	{"OwnersReadWrite", []string{"rw.xo", "rw.so", "rw.so", "C-write", "C-read", "rw.x"}, false},
	{"OwnersKazoo", []string{"kazoo.xo", "kazoo.xo", "K-lock", "K-write", "kazoo.x"}, false},
	{"Control", []string{"C-mutex", "K-lock"}, true},
}

func testContention(t *testing.T, d *drivers, addr string) {
	m := readMatrix(t)
	for _, g := range contentionGroups {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			exclude := m.exclude
			if g.broken {
				exclude = func(string, string) bool { return true }
			}
			judge := newJudge(g.members, exclude)
			path := "/contention-" + g.name
			contendAll(t, d, addr, path, judge)
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

// contendAll makes all members take the lock, hold it for a moment and release it, again and
// again. At the end, it checks that no znodes are left.
func contendAll(t *testing.T, d *drivers, addr, path string, j *judge) {
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
	zktest.Must(t, err)
	zktest.Check(t, watcher.checkEmpty(ctx, path))
}

// A judge tracks the holders of a lock, from after each acquire until before each release.
type judge struct {
	kinds   []string // kinds of locks of the members
	exclude func(a, b string) bool

	mu     sync.Mutex
	inside map[int]bool // members that hold the lock
	shares []int        // number of times that each member has held the lock
	count  int          // number of violations
	first  string       // description of the first violation

	token, exclusive int64 // largest token of zksh's locks, and of its exclusive locks
}

func newJudge(kinds []string, exclude func(a, b string) bool) *judge {
	return &judge{kinds: kinds, exclude: exclude, inside: map[int]bool{}, shares: make([]int, len(kinds))}
}

// holdTime is the time for which a lock is held.
const holdTime = time.Millisecond

func (j *judge) round(ctx context.Context, c client, member int, path string) error {
	token, err := c.acquire(ctx, j.kinds[member], path)
	if err != nil {
		return err
	}
	j.enter(member, token)
	time.Sleep(holdTime)
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
		j.checkToken(kind, token)
	}
}

// checkToken checks that tokens grow. Only shared locks that are held together may get their
// tokens in any order.
func (j *judge) checkToken(kind string, token int64) {
	shared := strings.HasSuffix(strings.TrimSuffix(kind, ownedSuffix), ".s")
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

// String returns the number of times that each member has held the lock, and the violations.
func (j *judge) String() string {
	sum := 0
	var shares []string
	for i, n := range j.shares {
		sum += n
		shares = append(shares, fmt.Sprintf("%s %d", j.kinds[i], n))
	}
	return fmt.Sprintf("held %d times (%s), %d violations", sum, strings.Join(shares, ", "), j.count)
}
