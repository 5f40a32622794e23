package queue

import (
	"bytes"
	"slices"
	"strings"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// String returns a short description of the contender for use in messages.
func (c *Contender) String() string {
	if c.Who == "" {
		return render.Safe(c.Node)
	}
	return render.Safe(c.Who + " (" + c.Node + ")")
}

// Excludes reports whether the contender's lock and a lock with the given mode on the same path
// exclude each other.
func (c *Contender) Excludes(mode zklock.Mode) bool {
	return zklock.Conflicts(c.Mode, mode)
}

// Contender returns the contender whose znode has the given name, or nil if there is none.
func (q *Queue) Contender(name string) *Contender {
	i := slices.IndexFunc(q.Contenders, func(c *Contender) bool { return c.Node == name })
	if i < 0 {
		return nil
	}
	return q.Contenders[i]
}

// ahead returns those contenders earlier in the queue that c waits for.
func (q *Queue) ahead(c *Contender) (list []*Contender) {
	for _, a := range q.Contenders[:c.Place-1] {
		if a.Excludes(c.Mode) && c.waitsFor(a) {
			list = append(list, a)
		}
	}
	return list
}

// A position is one contender and its queue, in which it either holds the lock or waits for it.
type position struct {
	q *Queue
	c *Contender
}

func (s position) session() string { return s.c.Session }

// An edge means that the session of blocked cannot continue until the session of blocker does.
// Usually, blocked waits behind blocker in the same queue. If runsCommand is set, blocked holds a
// lock for a command that it runs, and blocker is a contender of that command.
type edge struct {
	blocked position
	blocker position
	// runsCommand means that blocker belongs to a command that runs while blocked holds its lock.
	// The command has its own session. Its znode contains a note with the name of the held lock.
	runsCommand bool
}

// A graph records which sessions block each other in a set of queues.
type graph struct {
	sessions  []string              // in the order of their first occurrence in the queues
	positions map[string][]position // all contenders, by session id
	// runsUnder maps a lock znode, by its server path, to the contenders whose notes say that they
	// run under this lock.
	runsUnder  map[string][]position
	serverPath func(string) string // converts a client path to a server path, by adding the chroot
}

// newGraph returns the graph of all contenders in queues. It ignores contenders whose znodes are
// not ephemeral, because they do not belong to a session. The function server converts a client
// path to a server path.
func newGraph(queues []*Queue, server func(string) string) *graph {
	g := &graph{positions: map[string][]position{}, runsUnder: map[string][]position{}, serverPath: server}
	for _, q := range queues {
		for _, c := range q.Contenders {
			if c.Session == "" {
				continue
			}
			if g.positions[c.Session] == nil {
				g.sessions = append(g.sessions, c.Session)
			}
			g.positions[c.Session] = append(g.positions[c.Session], position{q, c})
			if bytes.Contains(c.Data, []byte(`"held"`)) {
				n, _ := parseNote(c.Data)
				for _, node := range n.Held {
					g.runsUnder[node] = append(g.runsUnder[node], position{q, c})
				}
			}
		}
	}
	return g
}

// edges calls visit for each edge from the given session to another one. It stops when visit
// returns false.
func (g *graph) edges(session string, visit func(edge) bool) {
	for _, from := range g.positions[session] {
		for _, a := range from.q.ahead(from.c) {
			if a.Session != "" && a.Session != session && !visit(edge{blocked: from, blocker: position{from.q, a}}) {
				return
			}
		}
		for _, to := range g.runsUnder[g.serverPath(from.c.node.path)] {
			if to.session() != session && !visit(edge{from, to, true}) {
				return
			}
		}
	}
}

// shortestCycle returns a shortest cycle that contains the session start, or nil if there is none.
// It considers only sessions that include accepts. include must accept start.
func (g *graph) shortestCycle(start string, include func(session string) bool) []edge {
	// reachedBy contains, for each session found so far, the edge through which the breadth-first
	// search first reached it.
	reachedBy := map[string]edge{}
	for level := []string{start}; len(level) > 0; {
		var next []string
		for _, s := range level {
			g.edges(s, func(e edge) bool {
				to := e.blocker.session()
				if _, seen := reachedBy[to]; !seen && include(to) {
					reachedBy[to] = e
					next = append(next, to)
				}
				return true
			})
		}
		if last, closed := reachedBy[start]; closed {
			cycle := []edge{last}
			for s := last.blocked.session(); s != start; s = reachedBy[s].blocked.session() {
				cycle = append(cycle, reachedBy[s])
			}
			slices.Reverse(cycle)
			return cycle
		}
		level = next
	}
	return nil
}

// shorten removes unnecessary sessions from a deadlock cycle. Suppose that a waits for b and b
// waits for c in one queue. If a also waits for c directly, shorten removes b.
func shorten(cycle []edge) []edge {
	cycle = slices.Clone(cycle)
	for i := 0; i < len(cycle) && len(cycle) > 1; {
		next := (i + 1) % len(cycle)
		e, n := cycle[i], cycle[next]
		if e.runsCommand || n.runsCommand || e.blocker.c != n.blocked.c || !slices.Contains(e.blocked.q.ahead(e.blocked.c), n.blocker.c) {
			i++
			continue
		}
		cycle[i].blocker = n.blocker
		cycle = slices.Delete(cycle, next, next+1)
		i = 0
	}
	return cycle
}

// cycles returns, for each session that is part of a deadlock cycle, a shortest such cycle. It
// returns no cycle twice.
func (g *graph) cycles() (all [][]edge) {
	seen := map[string]bool{} // keys are the sorted session ids of each cycle found so far
	covered := map[string]bool{}
	for _, component := range g.components() {
		in := map[string]bool{}
		for _, s := range component {
			in[s] = true
		}
		for _, s := range component {
			if covered[s] {
				continue
			}
			cycle := shorten(g.shortestCycle(s, func(other string) bool { return in[other] }))
			var sessions []string
			for _, e := range cycle {
				covered[e.blocked.session()] = true
				sessions = append(sessions, e.blocked.session())
			}
			slices.Sort(sessions)
			if key := strings.Join(sessions, " "); len(cycle) > 1 && !seen[key] {
				seen[key] = true
				all = append(all, cycle)
			}
		}
	}
	return all
}

// components returns the strongly connected components of the graph that have at least two
// sessions. It uses Tarjan's algorithm. In such a component, each session waits for every other
// one, directly or indirectly.
func (g *graph) components() (components [][]string) {
	index, low := map[string]int{}, map[string]int{}
	var stack []string
	on := map[string]bool{}
	var visit func(s string)
	visit = func(s string) {
		index[s] = len(index) + 1
		low[s] = index[s]
		stack, on[s] = append(stack, s), true
		g.edges(s, func(e edge) bool {
			switch to := e.blocker.session(); {
			case index[to] == 0:
				visit(to)
				low[s] = min(low[s], low[to])
			case on[to]:
				low[s] = min(low[s], index[to])
			}
			return true
		})
		if low[s] != index[s] {
			return
		}
		at := slices.Index(stack, s)
		component := slices.Clone(stack[at:])
		stack = stack[:at]
		for _, k := range component {
			on[k] = false
		}
		if len(component) > 1 {
			components = append(components, component)
		}
	}
	for _, s := range g.sessions {
		if index[s] == 0 {
			visit(s)
		}
	}
	return components
}
