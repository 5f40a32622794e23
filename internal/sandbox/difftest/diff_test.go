package difftest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/sandbox/rawzk"
	"github.com/zksh/zksh/internal/zktest"
)

var (
	seeds   = flag.Int("seeds", 2, "how many random sequences to compare; 4 in make full")
	first   = flag.Uint64("seed", 1, "the first one's seed")
	ops     = flag.Int("ops", 5000, "how many operations each has")
	quota   = flag.String("quota", "by turns", "enforce quotas: yes, no, both, or by turns")
	showAll = flag.Bool("show", false, "log every operation")
)

const (
	users = 4      // number of sessions that execute random steps
	super = "s:pw" // credential of one more session, the superuser, which resets ACLs
)

func TestDiff(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	modes, ok := map[string]func(seed uint64) []bool{
		"yes":      func(uint64) []bool { return []bool{true} },
		"no":       func(uint64) []bool { return []bool{false} },
		"both":     func(uint64) []bool { return []bool{false, true} },
		"by turns": func(seed uint64) []bool { return []bool{seed%2 == 0} },
	}[*quota]
	if !ok {
		t.Fatalf("-quota %s", *quota)
	}
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		for _, enforce := range modes(seed) {
			t.Run(fmt.Sprintf("seed=%d,enforceQuota=%v", seed, enforce), func(t *testing.T) {
				t.Parallel()
				diff(t, seed, enforce)
			})
		}
	}
}

func diff(t *testing.T, seed uint64, enforce bool) {
	real := []zktest.Option{
		zktest.JavaProperty("zookeeper.DigestAuthenticationProvider.superDigest", digest(super)),
	}
	if enforce {
		real = append(real, zktest.EnforceQuota())
	}
	box := zktest.Sandbox(t, sandbox.Options{SuperDigest: digest(super), EnforceQuota: enforce})
	p := &pair{t: t, sides: [2]*side{newSide("real", zktest.Start(t, real...).Addr()), newSide("sandbox", box.Addr())}}
	p.gen = &gen{Rand: rand.New(rand.NewPCG(seed, 0)), noBursts: enforce}
	for i := range users + 1 {
		p.run(step{session: i, connect: resume})
	}
	p.run(step{session: users, op: jute.OpAuth, body: rawzk.Auth("digest", super)})
	start := time.Now()
	for i := range *ops {
		if t.Failed() {
			return
		}
		if i%500 == 499 {
			p.resetACLs()
		}
		p.run(p.gen.next(p.gen.IntN(users)))
	}
	p.compareFourLetterCommands()
	nodes := p.walk("/")
	t.Logf("%d operations, %d sessions, %d events, %d nodes at the end: 0 differences; %.0f operations/s",
		p.count, len(p.sides[0].sessions), p.events, nodes, float64(p.count)/time.Since(start).Seconds())
}

// A pair executes the same steps on both servers and compares the results.
type pair struct {
	t             *testing.T
	gen           *gen
	sides         [2]*side
	count, events int
	slowestStep   int64 // duration of the slowest step so far, in ms
}

// run executes one step on both servers, and compares what every session receives. Then
// it reconnects the sessions whose connections the server has closed.
func (p *pair) run(s step) {
	if p.t.Failed() {
		return
	}
	p.count += max(len(s.burst), 1)
	var seen [2][]string
	var both sync.WaitGroup
	began := time.Now()
	for i, side := range p.sides {
		both.Go(func() {
			side.times, side.created = nil, nil
			seen[i] = side.run(s)
		})
	}
	both.Wait()
	p.slowestStep = max(p.slowestStep, time.Since(began).Milliseconds())
	if *showAll {
		p.t.Logf("%d: session %d op %d come %d body %q burst %q\n%s", p.count, s.session, s.op, s.connect, s.body, s.burst, strings.Join(seen[0], "\n"))
	}
	if !slices.Equal(seen[0], seen[1]) {
		p.t.Errorf("operation %d differs: session %d op %d come %d body %q burst %q\nreal:\n  %s\nsandbox:\n  %s", p.count, s.session, s.op, s.connect, s.body, s.burst,
			strings.Join(seen[0], "\n  "), strings.Join(seen[1], "\n  "))
		return
	}
	for i, t := range p.sides[0].times {
		if u := p.sides[1].times[i]; max(t-u, u-t) > 2000+p.slowestStep {
			p.t.Errorf("operation %d: times %d and %d differ by more than 2 s and the slowest step so far", p.count, t, u)
		}
	}
	for _, line := range seen[0] {
		if strings.Contains(line, "xid -1 ") {
			p.events++
		}
	}
	if side := p.sides[0]; len(side.created) > 0 {
		p.gen.created = append(p.gen.created, side.created...)
	}
	p.gen.zxid = int64(p.count)
	// Reconnect with the old session or a new one.
	for i := range users + 1 {
		if p.sides[0].conns[i] != nil {
			continue
		}
		if p.gen.chance(60) {
			p.run(step{session: i, connect: resume})
		}
		if p.sides[0].conns[i] == nil && !p.t.Failed() {
			p.run(step{session: i, connect: fresh})
		}
		if i == users {
			p.run(step{session: users, op: jute.OpAuth, body: rawzk.Auth("digest", super)})
		}
	}
}

// resetACLs grants everybody all permissions again. Otherwise random ACLs would
// eventually make the whole tree inaccessible.
func (p *pair) resetACLs() {
	for _, path := range []string{"/a", "/b", "/c"} {
		p.run(step{session: users, op: jute.OpSetACL, body: rawzk.SetACL(path, rawzk.Open, -1)})
		for _, child := range p.sides[0].children(path) {
			p.run(step{session: users, op: jute.OpSetACL, body: rawzk.SetACL(child, rawzk.Open, -1)})
		}
	}
}

// walk compares a node and its descendants, and returns their number.
func (p *pair) walk(path string) int {
	for _, op := range []int32{jute.OpGetChildren2, jute.OpGetData, jute.OpGetACL} {
		p.run(step{session: users, op: op, body: rawzk.PathWatch(path, false)})
	}
	n := 1
	for _, child := range p.sides[0].children(path) {
		n += p.walk(child)
	}
	return n
}
