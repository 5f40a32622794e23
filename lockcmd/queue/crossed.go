package queue

import (
	"bytes"
	"slices"
	"strings"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// String names a contender for a line of text.
func (c *Contender) String() string {
	if c.Who == "" {
		return render.Safe(c.Nodes[0])
	}
	return render.Safe(c.Who + " (" + c.Nodes[0] + ")")
}

// Excludes reports whether who holds, or is to hold, in a mode cannot do so beside this one.
func (c *Contender) Excludes(mode zklock.Mode) bool {
	return zklock.Conflicts(c.Mode, mode)
}

// Contender finds one by the name of a node of its; nil if there is none.
func (q *Queue) Contender(name string) *Contender {
	i := slices.IndexFunc(q.Contenders, func(c *Contender) bool { return slices.Contains(c.Nodes, name) })
	if i < 0 {
		return nil
	}
	return q.Contenders[i]
}

// ahead lists those whom a contender waits for.
func (q *Queue) ahead(c *Contender) (list []*Contender) {
	for _, a := range q.Contenders[:c.Place-1] {
		if a.Excludes(c.Mode) && c.waitsFor(a) {
			list = append(list, a)
		}
	}
	return list
}

// spot is a contender in its queue.
type spot struct {
	q *Queue
	c *Contender
}

func (s spot) session() string { return s.c.Session }

// edge is why one session cannot go on before another does: what it waits for, or
// holds, and who is in the way.
type edge struct {
	from spot
	to   spot
	// under: from is held for a command, whose program is to, a session of its own
	// that waits. Its node tells so.
	under bool
}

// graph tells which session waits for which over several queues.
type graph struct {
	sessions []string            // in the order of the queues
	spots    map[string][]spot   // by session
	under    map[string][]spot   // who runs under what is held, by its znode's path on the server
	server   func(string) string // the path on the server
}

// newGraph makes one of queues. A znode that outlives sessions is in nobody's way
// but for its queue.
func newGraph(queues []*Queue, server func(string) string) *graph {
	g := &graph{spots: map[string][]spot{}, under: map[string][]spot{}, server: server}
	for _, q := range queues {
		for _, c := range q.Contenders {
			if c.Session == "" {
				continue
			}
			if g.spots[c.Session] == nil {
				g.sessions = append(g.sessions, c.Session)
			}
			g.spots[c.Session] = append(g.spots[c.Session], spot{q, c})
			if bytes.Contains(c.Data, []byte(`"held"`)) {
				n, _ := parseNote(c.Data)
				for _, node := range n.Held {
					g.under[node] = append(g.under[node], spot{q, c})
				}
			}
		}
	}
	return g
}

// edges calls visit for each edge from a session to another, until it is false.
func (g *graph) edges(session string, visit func(edge) bool) {
	for _, from := range g.spots[session] {
		for _, a := range from.q.ahead(from.c) {
			if a.Session != "" && a.Session != session && !visit(edge{from: from, to: spot{from.q, a}}) {
				return
			}
		}
		for _, n := range from.c.nodes {
			for _, to := range g.under[g.server(n.path)] {
				if to.session() != session && !visit(edge{from, to, true}) {
					return
				}
			}
		}
	}
}

// circle is the shortest way from a session back to itself, over the sessions that
// may be passed; nil if there is none.
func (g *graph) circle(start string, pass func(session string) bool) []edge {
	came := map[string]edge{} // how a session was reached
	for level := []string{start}; len(level) > 0; {
		var next []string
		for _, s := range level {
			g.edges(s, func(e edge) bool {
				to := e.to.session()
				if _, seen := came[to]; !seen && pass(to) {
					came[to] = e
					next = append(next, to)
				}
				return true
			})
		}
		if last, closed := came[start]; closed {
			way := []edge{last}
			for s := last.from.session(); s != start; s = came[s].from.session() {
				way = append(way, came[s])
			}
			slices.Reverse(way)
			return way
		}
		level = next
	}
	return nil
}

// straight is a circle without those whom nobody has to wait for: one who waits in a
// queue for somebody that the one behind him waits for as well.
func straight(way []edge) []edge {
	way = slices.Clone(way)
	for i := 0; i < len(way) && len(way) > 1; {
		next := (i + 1) % len(way)
		e, n := way[i], way[next]
		if e.under || n.under || e.to.c != n.from.c || !slices.Contains(e.from.q.ahead(e.from.c), n.to.c) {
			i++
			continue
		}
		way[i].to = n.to
		way = slices.Delete(way, next, next+1)
		i = 0
	}
	return way
}

// circles finds for each session that is in a circle a shortest one, each but once.
func (g *graph) circles() (all [][]edge) {
	told := map[string]bool{} // by their sessions
	covered := map[string]bool{}
	for _, knot := range g.knots() {
		in := map[string]bool{}
		for _, s := range knot {
			in[s] = true
		}
		for _, s := range knot {
			if covered[s] {
				continue
			}
			way := straight(g.circle(s, func(other string) bool { return in[other] }))
			var sessions []string
			for _, e := range way {
				covered[e.from.session()] = true
				sessions = append(sessions, e.from.session())
			}
			slices.Sort(sessions)
			if key := strings.Join(sessions, " "); len(way) > 1 && !told[key] {
				told[key] = true
				all = append(all, way)
			}
		}
	}
	return all
}

// knots are the sets of two sessions or more each of which waits, by others, for
// each other one: Tarjan's strongly connected components.
func (g *graph) knots() (knots [][]string) {
	index, low := map[string]int{}, map[string]int{}
	var stack []string
	on := map[string]bool{}
	var visit func(s string)
	visit = func(s string) {
		index[s] = len(index) + 1
		low[s] = index[s]
		stack, on[s] = append(stack, s), true
		g.edges(s, func(e edge) bool {
			switch to := e.to.session(); {
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
		knot := slices.Clone(stack[at:])
		stack = stack[:at]
		for _, k := range knot {
			on[k] = false
		}
		if len(knot) > 1 {
			knots = append(knots, knot)
		}
	}
	for _, s := range g.sessions {
		if index[s] == 0 {
			visit(s)
		}
	}
	return knots
}
