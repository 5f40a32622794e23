//go:build !race

package zklock

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"
)

// The model of the argument in doc.go: all that a client, its server, the leader and
// the rest of an ensemble can do, in every order, with the very proof that a
// held lock uses. A state is bad when the lease stands and the session is over.
//
// Time goes in units of a sixteenth of the session's timeout or finer. All that
// happens within a unit comes in any order. Between the client and its server
// nothing takes time: a request on its way so long is no worse than one that is
// sent that much later, and the client may send as late as it likes. The links
// between servers are FIFO streams; a packet may take any time, or for ever.
// What ZooKeeper does in time is forced to happen before time goes on: the
// leader's loop, the end of a session, the end of the rest's patience. An election
// takes no time, and a session's end is not rounded up: both are the worst case.

// rule is what the client takes for a proof.
type rule string

const (
	rounds      rule = "rounds"                // the proof as it is
	noPause     rule = "rounds, no pause"      // its rounds, without the time between the two syncs
	noGap       rule = "rounds, no rest"       // its rounds, one right after the other
	anyPing     rule = "any answered ping"     // proves its own sending, as clients everywhere take it
	anySync     rule = "any answered sync"     // likewise
	anyWrite    rule = "any answered write"    // likewise
	anyAttach   rule = "any attach"            // the rounds, and to be let in proves the connect request
	roundAtOnce rule = "leaning at once"       // the rounds, and the first after a hasty proof begins right behind it
	noWait      rule = "no wait after a check" // the rounds, and the first begins sooner after a check alone
)

// setting is what is explored: constants and what may go wrong.
type setting struct {
	name      string
	rule      rule
	timeout   int8 // in units
	tick      int8
	syncLimit int8 // in ticks
	late      int8 // the leader's loop is late by at most so much
	idle      bool // the connection is an old one: the lock is asked for at any time
	fresh     bool // nothing is proven of the connection yet: the lock, whose znode is there, needs a check
	pauses    int8 // of the leader, of any length
	parts     int8 // between the leader and the rest
	moves     int8 // of the client to another server
	direct    bool // the client's server is the leader
	prompt    bool // a packet passes at once or never: a link that is late is cut for good
	eager     bool // the client is never late
	race      bool // requests pass between the end of a session's time and the mark that says so
}

// starts are the states to begin with.
func (m *model) initialStates(f func(world)) {
	for phase := range m.tick / 2 {
		for _, odd := range []bool{false, true} {
			w := world{conn: true, came: never, direct: m.direct, leads: true, odd: odd, pinged: phase, missing: m.syncLimit, left: m.timeout}
			c := newProof(time.Duration(m.timeout))
			c.attach(epoch)
			switch {
			case m.fresh:
			case m.idle:
				c.startShort(time.Time{})
			default: // the session was made, and the lock at once
				c.done(epoch, epoch)
				w.held = true
			}
			m.store(&w, c)
			f(w)
		}
	}
}

// explore goes through all states that can be reached, breadth first. It returns
// how many they are, and the shortest way to a bad one, if there is any.
func (m *model) explore(t *testing.T) (states int, extended bool, way []string) {
	type visit struct {
		from int32
		what string
	}
	seen := map[world]struct{}{}
	var visits []visit
	var queue []world
	bad := int32(-1)
	add := func(from int32, what string, w world) {
		if _, ok := seen[w]; ok || bad >= 0 {
			return
		}
		seen[w] = struct{}{}
		visits = append(visits, visit{from, what})
		queue = append(queue, w)
		if w.over && m.leaseHolds(&w) {
			bad = int32(len(visits) - 1)
		}
	}
	m.initialStates(func(w world) { add(-1, "", w) })
	for i := int32(0); int(i) < len(visits) && bad < 0; i++ {
		w := queue[0]
		queue = queue[1:]
		if w.over && w.request == 0 && !m.leaseHolds(&w) {
			continue
		}
		m.successors(&w, func(what string, n world) {
			extended = extended || w.held && n.proven < w.proven
			add(i, what, n)
		})
		if len(visits) > 30_000_000 {
			t.Fatal("too many states")
		}
	}
	for i := bad; i >= 0; i = visits[i].from {
		way = append([]string{visits[i].what}, way...)
	}
	return len(visits), extended, way
}

// tell writes a way down with the times, in units.
func formatPath(way []string) string {
	var b strings.Builder
	now := 0
	for _, what := range way[1:] {
		if what == "" {
			now++
			continue
		}
		fmt.Fprintf(&b, "\n%4d %s", now, what)
	}
	return b.String()
}

func checkModel(t *testing.T, s setting, safe bool) {
	t.Run(s.name+": "+string(s.rule), func(t *testing.T) {
		if !*deep { // one at a time has all the memory
			t.Parallel()
		}
		start := time.Now()
		m := model{s}
		states, extended, way := m.explore(t)
		t.Logf("%d states, %v", states, time.Since(start).Round(time.Millisecond))
		switch {
		case safe && way != nil:
			t.Errorf("the lease stands and the session is over:%s", formatPath(way))
		case safe && !extended:
			t.Error("nothing was ever proven")
		case !safe && way == nil:
			t.Error("a rule that is known to be unsafe was found safe: the model proves nothing")
		case !safe:
			t.Logf("the lease stands and the session is over:%s", formatPath(way))
		}
	})
}

var deep = flag.Bool("deep", false, "explore the model of the lease with late packets and a late client everywhere: minutes, and 10 GB")

// base is the worst that ZooKeeper allows by default: a session of two ticks.
var base = setting{rule: rounds, timeout: 16, tick: 8, syncLimit: 1}

func with(name string, change func(*setting)) setting {
	s := base
	s.name = name
	change(&s)
	return s
}

// TestRoundsModel is the proof of the rule, as far as the model goes.
func TestRoundsModel(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED: it takes long")
	}
	for _, s := range []setting{
		with("a follower, packets late or lost, the client late", func(s *setting) {}),
		with("a follower, sessions of four ticks", func(s *setting) { s.tick = 4 }),
		with("a follower, the leader's loop late", func(s *setting) { s.late, s.prompt = 1, true }),
		with("a follower, an old connection", func(s *setting) { s.idle, s.prompt, s.eager = true, true, true }),
		with("the leader, an old connection", func(s *setting) { s.direct, s.idle = true, true }),
		with("a follower, after an attach", func(s *setting) { s.fresh, s.prompt = true, true }),
		with("the leader, after an attach", func(s *setting) { s.direct, s.fresh = true, true }),
		with("a follower, after an attach, the leader's loop late", func(s *setting) { s.fresh, s.late, s.prompt, s.eager = true, 1, true, true }),
		with("the leader, after an attach, which pauses", func(s *setting) { s.fresh, s.direct, s.pauses, s.syncLimit, s.eager = true, true, 1, 2, true }),
		with("the leader, an old connection, which the rest leaves", func(s *setting) { s.direct, s.idle, s.parts, s.prompt, s.eager = true, true, 1, true, true }),
		with("the leader, after an attach, which the rest leaves", func(s *setting) { s.direct, s.fresh, s.parts, s.prompt, s.eager = true, true, 1, true, true }),
		with("a follower, an old connection, the client moves", func(s *setting) { s.idle, s.moves, s.prompt, s.eager = true, 1, true, true }),
		with("a follower, the client moves", func(s *setting) { s.moves, s.prompt = 1, true }),
		with("a follower, the leader pauses", func(s *setting) { s.pauses, s.syncLimit, s.prompt, s.eager = 1, 2, true, true }),
		with("the leader, which pauses", func(s *setting) { s.pauses, s.syncLimit, s.direct, s.eager = 1, 2, true, true }),
		with("the leader, which the rest leaves", func(s *setting) { s.parts, s.direct, s.prompt = 1, true, true }),
		with("the leader, which the rest leaves, the client moves", func(s *setting) { s.parts, s.moves, s.direct, s.prompt, s.eager = 1, 1, true, true, true }),
		with("a follower, the rest leaves the leader", func(s *setting) { s.parts, s.prompt, s.eager = 1, true, true }),
		with("a follower, the rest leaves the leader, the client moves", func(s *setting) { s.parts, s.moves, s.prompt, s.eager = 1, 1, true, true }),
	} {
		if *deep && (s.parts == 0 || s.moves == 0) { // both at once are too many states
			s.prompt, s.eager = false, false
		}
		checkModel(t, s, true)
	}
}

// TestRoundsModelBites: simpler rules, and rounds without one of their parts, are
// unsafe in the same model. Else it would prove nothing.
func TestRoundsModelBites(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED: it takes long")
	}
	cut := func(r rule) setting {
		return with("a follower is cut off", func(s *setting) { s.rule, s.prompt = r, true })
	}
	checkModel(t, cut(anyPing), false)
	checkModel(t, cut(anySync), false)
	checkModel(t, cut(anyWrite), false)
	checkModel(t, cut(noGap), false)
	checkModel(t, with("a follower is cut off, an old connection", func(s *setting) { s.rule, s.idle, s.prompt, s.eager = roundAtOnce, true, true, true }), false)
	checkModel(t, with("a follower is cut off, after an attach", func(s *setting) { s.rule, s.fresh, s.prompt, s.eager = roundAtOnce, true, true, true }), false)
	checkModel(t, with("the leader's loop late, after an attach", func(s *setting) { s.rule, s.fresh, s.late, s.prompt, s.eager = noWait, true, 1, true, true }), false)
	checkModel(t, with("the rest leaves the leader", func(s *setting) { s.rule, s.parts, s.direct = anySync, 1, true }), false)
	checkModel(t, with("the leader pauses", func(s *setting) { s.rule, s.pauses, s.syncLimit, s.prompt, s.eager = noPause, 1, 2, true, true }), false)
	checkModel(t, with("the rest leaves the leader, the client moves", func(s *setting) {
		s.rule, s.parts, s.moves, s.direct, s.prompt, s.eager = anyAttach, 1, 1, true, true, true
	}), false)
}

// TestRoundsModelLimits: what doc.go says is still unsafe, is.
func TestRoundsModelLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED: it takes long")
	}
	pause := func(s *setting) { s.pauses, s.syncLimit, s.prompt, s.eager = 1, 2, true, true }
	checkModel(t, with("the leader pauses, a lock on an old connection", func(s *setting) { pause(s); s.idle = true }), false)
	checkModel(t, with("the leader's loop late, a lock on an old connection", func(s *setting) { s.idle, s.late, s.prompt, s.eager = true, 1, true, true }), false)
	checkModel(t, with("the leader pauses, its loop comes late afterwards", func(s *setting) { pause(s); s.late = 2 }), false)
	checkModel(t, with("the leader pauses twice", func(s *setting) { pause(s); s.pauses = 2 }), false)
	if *deep {
		checkModel(t, with("the leader pauses, a check as the session's time ends", func(s *setting) { pause(s); s.prompt, s.race = false, true }), false)
	}
}
