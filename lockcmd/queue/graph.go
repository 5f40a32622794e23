package queue

import (
	"bytes"
	"slices"
	"strings"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// String returns a short description of the contender, for messages.
func (c *Contender) String() string {
	if c.Who == "" {
		return render.Safe(c.Nodes[0])
	}
	return render.Safe(c.Who + " (" + c.Nodes[0] + ")")
}

// Excludes reports whether the contender conflicts with another lock that is held on the same
// path in this mode.
func (c *Contender) Excludes(mode zklock.Mode) bool {
	return zklock.Conflicts(c.Mode, mode)
}

// Contender returns the contender that has a znode with this name, or nil.
func (q *Queue) Contender(name string) *Contender {
	i := slices.IndexFunc(q.Contenders, func(c *Contender) bool { return slices.Contains(c.Nodes, name) })
	if i < 0 {
		return nil
	}
	return q.Contenders[i]
}

// ahead returns the contenders in the queue for which c waits.
func (q *Queue) ahead(c *Contender) (list []*Contender) {
	for _, a := range q.Contenders[:c.Place-1] {
		if a.Excludes(c.Mode) && c.waitsFor(a) {
			list = append(list, a)
		}
	}
	return list
}

// position identifies a contender in a queue.
type position struct {
	q *Queue
	c *Contender
}

func (s position) session() string { return s.c.Session }

// edge says that the session of blocked cannot continue before the session of blocker does.
// Either blocked waits for blocker in the same queue or, with runsCommand set, blocked holds a
// lock for a command, and blocker is a wait of that command.
type edge struct {
	blocked position
	blocker position
	// whether blocker is a contender of a command that runs under the lock of blocked. The
	// command has its own session, and its note lists the lock.
	runsCommand bool
}

// graph contains the edges between the sessions that contend in several queues.
type graph struct {
	sessions   []string              // in the order of their first contender in the queues
	positions  map[string][]position // all contenders, by session
	runsUnder  map[string][]position // contenders of commands, by the server path of a held znode in their notes
	serverPath func(string) string   // converts a path to a server path
}

// newGraph builds the graph of all contenders in queues. It ignores contenders whose znode is
// not ephemeral, because no session owns them.
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

// edges calls visit for each edge that leads from this session to another one, until visit
// returns false.
func (g *graph) edges(session string, visit func(edge) bool) {
	for _, from := range g.positions[session] {
		for _, a := range from.q.ahead(from.c) {
			if a.Session != "" && a.Session != session && !visit(edge{blocked: from, blocker: position{from.q, a}}) {
				return
			}
		}
		for _, n := range from.c.nodes {
			for _, to := range g.runsUnder[g.serverPath(n.path)] {
				if to.session() != session && !visit(edge{from, to, true}) {
					return
				}
			}
		}
	}
}

// shortestCycle returns a shortest cycle through the session start, or nil if there is none. It
// follows only sessions for which include returns true.
func (g *graph) shortestCycle(start string, include func(session string) bool) []edge {
	reachedBy := map[string]edge{} // edge on which the search reached each session
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

// shorten removes unnecessary sessions from a cycle. If a waits for b and b waits for c in the
// same queue, and a also waits for c, it removes b.
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

// cycles returns a shortest cycle for each session that is part of a cycle. It returns each
// cycle only once.
func (g *graph) cycles() (all [][]edge) {
	seen := map[string]bool{} // keys are the sorted sessions of a cycle
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

// components returns the strongly connected components with at least two sessions, found with
// Tarjan's algorithm. In such a component, each session waits for each other one, directly or
// indirectly.
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
