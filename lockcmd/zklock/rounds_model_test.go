//go:build !race

package zklock

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"
)

// The model of the argument in doc.go runs the code of the proof that a held lock uses. It
// explores, in every order, all events of a client, its server, the leader and the rest of
// the ensemble. A state is bad if the lease lasts although the session has ended.
//
// Time advances in units of a sixteenth of the session timeout or finer. The events within a
// unit happen in any order. Messages between the client and its server take no time: a
// request that is in transit for long is no worse than a request that is sent later, and the
// client may send as late as it likes. The links between servers are FIFO streams; a packet
// may take any time, or never arrive. Events that ZooKeeper guarantees within a certain time
// are forced to happen before time advances: the leader's loop, the end of a session, and the
// moment at which the rest gives up the leader. An election takes no time, and a session's
// end is not rounded up to a tick: both are the worst case.

// A rule decides what the client accepts as a proof.
type rule string

const (
	rounds      rule = "rounds"                // the real rule
	noPause     rule = "rounds, no pause"      // rounds without the time between the two syncs
	noGap       rule = "rounds, no gap"        // rounds without the time between two rounds
	anyPing     rule = "any answered ping"     // a ping proves its own sending, as other clients assume
	anySync     rule = "any answered sync"     // a sync proves its own sending
	anyWrite    rule = "any answered write"    // a transaction proves its own sending
	anyAttach   rule = "any attach"            // rounds, and attaching proves the connect request
	roundAtOnce rule = "first round at once"   // rounds, and the first begins right after a short proof
	noWait      rule = "no wait after a check" // rounds, and the first begins sooner after a check alone
)

// setting is one exploration: the constants, the start, and the faults that may happen.
type setting struct {
	name          string
	rule          rule
	timeout       int8 // session timeout, in units
	tick          int8 // in units
	syncLimit     int8 // in ticks
	loopDelay     int8 // maximum delay of the leader's loop, in units
	oldConnection bool // start on an old connection; the lock may be requested at any time
	reattached    bool // start on a new connection with an old znode: a check is needed
	pauses        int8 // maximum number of pauses of the leader, of any length
	partitions    int8 // maximum number of partitions between the leader and the rest
	moves         int8 // maximum number of times that the client changes servers
	onLeader      bool // the client's server is the leader
	promptLinks   bool // a packet passes at once or never: a slow link is cut for good
	promptClient  bool // the client is never late
	raceAtExpiry  bool // requests pass between the end of a session's time and the mark that records it
}

// initialStates calls f with each state in which the exploration begins.
func (m *model) initialStates(f func(world)) {
	for phase := range m.tick / 2 {
		for _, odd := range []bool{false, true} {
			w := world{conn: true, laterAnswered: never, onLeader: m.onLeader, leads: true, oddPing: odd, sincePing: phase, quorumTicks: m.syncLimit, left: m.timeout}
			c := newProof(time.Duration(m.timeout))
			c.attach(epoch)
			switch {
			case m.reattached:
			case m.oldConnection:
				c.startShort(time.Time{})
			default: // the session was created, and the lock right after it
				c.done(epoch, epoch)
				w.held = true
			}
			m.store(&w, c)
			f(w)
		}
	}
}

// explore visits all reachable states, breadth first. It returns their number, whether a
// proof ever extended the lease, and the shortest path to a bad state, if there is one.
func (m *model) explore(t *testing.T) (states int, extended bool, path []string) {
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
		path = append([]string{visits[i].what}, path...)
	}
	return len(visits), extended, path
}

// formatPath formats a path with the times of its steps, in units.
func formatPath(path []string) string {
	var b strings.Builder
	now := 0
	for _, what := range path[1:] {
		if what == "" {
			now++
			continue
		}
		fmt.Fprintf(&b, "\n%4d %s", now, what)
	}
	return b.String()
}

// checkModel explores a setting, and checks that it is safe or that it is not.
func checkModel(t *testing.T, s setting, safe bool) {
	t.Run(s.name+": "+string(s.rule), func(t *testing.T) {
		if !*deep { // a deep exploration needs all the memory for itself
			t.Parallel()
		}
		start := time.Now()
		m := model{s}
		states, extended, path := m.explore(t)
		t.Logf("%d states, %v", states, time.Since(start).Round(time.Millisecond))
		switch {
		case safe && path != nil:
			t.Errorf("the lease lasts and the session has ended:%s", formatPath(path))
		case safe && !extended:
			t.Error("nothing was ever proven")
		case !safe && path == nil:
			t.Error("a rule that is known to be unsafe was found safe: the model proves nothing")
		case !safe:
			t.Logf("the lease lasts and the session has ended:%s", formatPath(path))
		}
	})
}

var deep = flag.Bool("deep", false, "explore the model of the lease with late packets and a late client everywhere: minutes, and 10 GB")

// base is the worst case that ZooKeeper allows by default: a session of two ticks.
var base = setting{rule: rounds, timeout: 16, tick: 8, syncLimit: 1}

// with returns the setting base with a name and a change.
func with(name string, change func(*setting)) setting {
	s := base
	s.name = name
	change(&s)
	return s
}

// TestRoundsModel proves the rule of doc.go within the model: no bad state can be reached.
func TestRoundsModel(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED: it takes long")
	}
	for _, s := range []setting{
		with("a follower, packets late or lost, the client late", func(s *setting) {}),
		with("a follower, sessions of four ticks", func(s *setting) { s.tick = 4 }),
		with("a follower, the leader's loop late", func(s *setting) { s.loopDelay, s.promptLinks = 1, true }),
		with("a follower, an old connection", func(s *setting) { s.oldConnection, s.promptLinks, s.promptClient = true, true, true }),
		with("the leader, an old connection", func(s *setting) { s.onLeader, s.oldConnection = true, true }),
		with("a follower, after an attach", func(s *setting) { s.reattached, s.promptLinks = true, true }),
		with("the leader, after an attach", func(s *setting) { s.onLeader, s.reattached = true, true }),
		with("a follower, after an attach, the leader's loop late", func(s *setting) { s.reattached, s.loopDelay, s.promptLinks, s.promptClient = true, 1, true, true }),
		with("the leader, after an attach, which pauses", func(s *setting) {
			s.reattached, s.onLeader, s.pauses, s.syncLimit, s.promptClient = true, true, 1, 2, true
		}),
		with("the leader, an old connection, which the rest leaves", func(s *setting) {
			s.onLeader, s.oldConnection, s.partitions, s.promptLinks, s.promptClient = true, true, 1, true, true
		}),
		with("the leader, after an attach, which the rest leaves", func(s *setting) {
			s.onLeader, s.reattached, s.partitions, s.promptLinks, s.promptClient = true, true, 1, true, true
		}),
		with("a follower, an old connection, the client moves", func(s *setting) { s.oldConnection, s.moves, s.promptLinks, s.promptClient = true, 1, true, true }),
		with("a follower, the client moves", func(s *setting) { s.moves, s.promptLinks = 1, true }),
		with("a follower, the leader pauses", func(s *setting) { s.pauses, s.syncLimit, s.promptLinks, s.promptClient = 1, 2, true, true }),
		with("the leader, which pauses", func(s *setting) { s.pauses, s.syncLimit, s.onLeader, s.promptClient = 1, 2, true, true }),
		with("the leader, which the rest leaves", func(s *setting) { s.partitions, s.onLeader, s.promptLinks = 1, true, true }),
		with("the leader, which the rest leaves, the client moves", func(s *setting) {
			s.partitions, s.moves, s.onLeader, s.promptLinks, s.promptClient = 1, 1, true, true, true
		}),
		with("a follower, the rest leaves the leader", func(s *setting) { s.partitions, s.promptLinks, s.promptClient = 1, true, true }),
		with("a follower, the rest leaves the leader, the client moves", func(s *setting) { s.partitions, s.moves, s.promptLinks, s.promptClient = 1, 1, true, true }),
	} {
		if *deep && (s.partitions == 0 || s.moves == 0) { // together they have too many states
			s.promptLinks, s.promptClient = false, false
		}
		checkModel(t, s, true)
	}
}

// The model finds bad states under simpler rules, and under rounds without one of their
// parts. Otherwise the model would prove nothing.
func TestRoundsModelBites(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED: it takes long")
	}
	cut := func(r rule) setting {
		return with("a follower is cut off", func(s *setting) { s.rule, s.promptLinks = r, true })
	}
	checkModel(t, cut(anyPing), false)
	checkModel(t, cut(anySync), false)
	checkModel(t, cut(anyWrite), false)
	checkModel(t, cut(noGap), false)
	checkModel(t, with("a follower is cut off, an old connection", func(s *setting) {
		s.rule, s.oldConnection, s.promptLinks, s.promptClient = roundAtOnce, true, true, true
	}), false)
	checkModel(t, with("a follower is cut off, after an attach", func(s *setting) { s.rule, s.reattached, s.promptLinks, s.promptClient = roundAtOnce, true, true, true }), false)
	checkModel(t, with("the leader's loop late, after an attach", func(s *setting) {
		s.rule, s.reattached, s.loopDelay, s.promptLinks, s.promptClient = noWait, true, 1, true, true
	}), false)
	checkModel(t, with("the rest leaves the leader", func(s *setting) { s.rule, s.partitions, s.onLeader = anySync, 1, true }), false)
	checkModel(t, with("the leader pauses", func(s *setting) {
		s.rule, s.pauses, s.syncLimit, s.promptLinks, s.promptClient = noPause, 1, 2, true, true
	}), false)
	checkModel(t, with("the rest leaves the leader, the client moves", func(s *setting) {
		s.rule, s.partitions, s.moves, s.onLeader, s.promptLinks, s.promptClient = anyAttach, 1, 1, true, true, true
	}), false)
}

// The model finds bad states in the cases that doc.go lists as unsafe. Only make full runs this test,
// because no change can make it fail that makes locks less safe.
func TestRoundsModelLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED: it takes long")
	}
	pause := func(s *setting) { s.pauses, s.syncLimit, s.promptLinks, s.promptClient = 1, 2, true, true }
	checkModel(t, with("the leader pauses, a lock on an old connection", func(s *setting) {
		pause(s)
		s.oldConnection = true
		s.timeout, s.tick = 8, 4 // units twice as long have a tenth of the states, and show it as well
	}), false)
	checkModel(t, with("the leader's loop late, a lock on an old connection", func(s *setting) { s.oldConnection, s.loopDelay, s.promptLinks, s.promptClient = true, 1, true, true }), false)
	checkModel(t, with("the leader pauses, its loop comes late afterwards", func(s *setting) { pause(s); s.loopDelay = 2 }), false)
	checkModel(t, with("the leader pauses twice", func(s *setting) { pause(s); s.pauses = 2 }), false)
	if *deep {
		checkModel(t, with("the leader pauses, a check as the session's time ends", func(s *setting) { pause(s); s.promptLinks, s.raceAtExpiry = false, true }), false)
	}
}
