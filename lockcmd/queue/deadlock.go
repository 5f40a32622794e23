package queue

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/cluster"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// What may be found to have no end by itself.
const (
	circleFound  = "circle"       // sessions that wait for each other
	twiceFound   = "twice"        // a session that waits for itself
	upgradeFound = "upgrade"      // the same, as it reads and wants to write
	unwatched    = "unwatched"    // a waiter that will not be woken
	disconnected = "disconnected" // a holder without a connection
	ignoring     = "families"     // recipes that take no notice of each other
)

// Deadlocks is what was found in the queues below a path.
type Deadlocks struct {
	Path     string     `json:"path"`
	Queues   int        `json:"queues"` // how many were looked at
	Findings []*Finding `json:"findings"`
	NotTold  []string   `json:"notTold,omitempty"` // what could not be looked for, and how to allow it
}

// Finding is one thing that does not end by itself.
type Finding struct {
	Kind    string `json:"kind"`
	Problem string `json:"problem"`
	Chain   []Step `json:"chain"`
	Command string `json:"command,omitempty"` // that ends it
}

// Step is one contender of a finding, and who is in its way.
type Step struct {
	Path      string     `json:"path"`
	Contender *Contender `json:"contender"`
	Behind    *Contender `json:"behind,omitempty"`
	// Runs is, for one that holds, who waits under its lock, elsewhere.
	Runs     *Contender `json:"runs,omitempty"`
	RunsPath string     `json:"runsPath,omitempty"`
}

// between is the time between the two cuts that a finding is in. What traffic leaves
// behind for a moment is gone by then.
const between = 2 * time.Second

// FindDeadlocks looks for what has no end by itself in all queues below a path. What
// is found is there in two cuts, the same znodes, some time apart: each of them was
// there, too, at a moment between the two, and so was the state that they make up.
func FindDeadlocks(ctx context.Context, e Whole, root string) (*Deadlocks, error) {
	s, err := LookAll(ctx, e, root)
	if err != nil {
		return nil, err
	}
	d := &Deadlocks{Path: root, Queues: len(s.Queues), Findings: []*Finding{}}
	if s.Walked != "" {
		d.NotTold = append(d.NotTold, "no server listed the queues, so zksh searched the tree: "+s.Walked)
	}
	if s.NoClients != "" {
		d.NotTold = append(d.NotTold, "holders without a connection: "+s.NoClients)
	}
	w := cluster.FindWatches(ctx, e)
	if w.Why != "" {
		d.NotTold = append(d.NotTold, "waiters that watch no contender: "+w.Why)
	}
	first := s.findings(e, w)
	if len(first) == 0 {
		return d, nil
	}
	select {
	case <-time.After(between):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	again := &Survey{Path: root}
	if err := again.read(ctx, e, pathsOf(first)); err != nil {
		return nil, err
	}
	still := again.findings(e, cluster.FindWatches(ctx, e))
	for _, f := range first {
		if again.has(f) && (!f.passing() || slices.ContainsFunc(still, f.same)) {
			d.Findings = append(d.Findings, f)
		}
	}
	return d, nil
}

// pathsOf are the queues that findings are about.
func pathsOf(list []*Finding) (dirs []string) {
	for _, f := range list {
		for _, s := range f.Chain {
			dirs = append(dirs, s.Path)
			if s.Runs != nil {
				dirs = append(dirs, s.RunsPath)
			}
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// passing tells what is not a matter of the znodes alone.
func (f *Finding) passing() bool { return f.Kind == unwatched || f.Kind == disconnected }

// same reports whether another finding is about the same znodes.
func (f *Finding) same(other *Finding) bool {
	return f.Kind == other.Kind && slices.Equal(f.nodes(), other.nodes())
}

// nodes are the paths of all znodes of a finding and the transactions that made them.
func (f *Finding) nodes() (list []string) {
	for _, s := range f.Chain {
		for _, c := range []*Contender{s.Contender, s.Behind, s.Runs} {
			if c != nil {
				list = append(list, c.identity())
			}
		}
	}
	return list
}

func (c *Contender) identity() string { return fmt.Sprintf("%s %d", c.nodes[0].path, c.stat.Czxid) }

// has reports whether all znodes of a finding are there.
func (s *Survey) has(f *Finding) bool {
	there := map[string]bool{}
	for _, q := range s.Queues {
		for _, c := range q.Contenders {
			there[c.identity()] = true
		}
	}
	return !slices.ContainsFunc(f.nodes(), func(n string) bool { return !there[n] })
}

// findings is all that there is in one cut.
func (s *Survey) findings(e Whole, w *cluster.Watches) (list []*Finding) {
	for _, way := range newGraph(s.Queues, e.ServerPath).circles() {
		list = append(list, circleFinding(way))
	}
	for _, q := range s.Queues {
		list = append(list, q.selves()...)
		list = append(list, q.unwatched(e, w)...)
		for _, c := range q.holding() {
			if c.Client == cluster.NoConnection {
				list = append(list, &Finding{disconnected, q.Path + " is held by a client without a connection, until its session expires",
					[]Step{{Path: q.Path, Contender: c}}, q.removal(c)})
			}
		}
		for _, text := range q.Warnings {
			f := &Finding{Kind: ignoring, Problem: q.Path + ": " + text}
			for _, c := range q.Contenders {
				f.Chain = append(f.Chain, Step{Path: q.Path, Contender: c})
			}
			list = append(list, f)
		}
	}
	return list
}

// circleFinding words a circle, beginning with the oldest wait. To end it, what the
// youngest waiter has the one before wait for is taken away: a waiter whose own znode
// goes would only come again.
func circleFinding(way []edge) *Finding {
	oldest, youngest := -1, -1
	for i, e := range way {
		if e.under {
			continue
		}
		if oldest < 0 || e.from.c.stat.Ctime < way[oldest].from.c.stat.Ctime {
			oldest = i
		}
		if youngest < 0 || e.from.c.stat.Ctime > way[youngest].from.c.stat.Ctime {
			youngest = i
		}
	}
	before := way[(youngest+len(way)-1)%len(way)]
	victim := before.to
	if before.under {
		victim = before.from
	}
	f := &Finding{Kind: circleFound, Problem: fmt.Sprintf("%d sessions are waiting for each other", len(way)), Command: victim.q.removal(victim.c)}
	for _, e := range append(slices.Clone(way[oldest:]), way[:oldest]...) {
		s := Step{Path: e.from.q.Path, Contender: e.from.c}
		if e.under {
			s.Runs, s.RunsPath = e.to.c, e.to.q.Path
		} else {
			s.Behind = e.to.c
		}
		f.Chain = append(f.Chain, s)
	}
	return f
}

// removal is the command that takes a contender out of its queue.
func (q *Queue) removal(c *Contender) string {
	return "unlock --force " + commandWord(path.Base(c.nodes[0].path)) + " " + commandWord(q.Path)
}

// commandWord is a word as it is typed.
func commandWord(s string) string {
	switch {
	case !strings.ContainsAny(s, " \t\"'"):
		return s
	case !strings.Contains(s, `"`):
		return `"` + s + `"`
	}
	return "'" + s + "'"
}

// selves finds sessions that wait for themselves, each once.
func (q *Queue) selves() (list []*Finding) {
	told := map[string]bool{}
	for _, c := range q.Contenders {
		if c.Session == "" || told[c.Session] {
			continue
		}
		for _, a := range q.ahead(c) {
			if a.Session != c.Session || told[c.Session] {
				continue
			}
			told[c.Session] = true
			f := &Finding{twiceFound, "one session is in the queue of " + q.Path + " twice, so it waits for itself, unless these are two threads",
				[]Step{{Path: q.Path, Contender: c, Behind: a}}, q.removal(a)}
			if a.Mode == zklock.Shared {
				f.Kind, f.Problem = upgradeFound, "a holder of the read lock on "+q.Path+" is waiting for the write lock on it, so it waits for itself, unless these are two threads"
			}
			list = append(list, f)
		}
	}
	return list
}

// watchers are the kinds whose recipes watch one who is ahead.
var watchers = []string{"Curator mutex", "Curator mutex, shared", "Curator write", "Curator read", "Curator latch",
	"kazoo lock", "kazoo read", "go-zookeeper lock", "ZooKeeper recipe"}

// unwatched finds waiters whose sessions watch nobody ahead.
func (q *Queue) unwatched(e Whole, w *cluster.Watches) (list []*Finding) {
	if w.Why != "" {
		return nil
	}
	for _, c := range q.Contenders {
		ahead := q.ahead(c)
		if len(ahead) == 0 || c.Session == "" || !c.liberal && !slices.Contains(watchers, c.Kind) {
			continue
		}
		set := w.Paths[c.stat.EphemeralOwner]
		watched := set[e.ServerPath(q.Path)] || slices.ContainsFunc(q.Contenders[:c.Place-1], func(a *Contender) bool {
			return slices.ContainsFunc(a.nodes, func(n *node) bool { return set[e.ServerPath(n.path)] })
		})
		if !watched {
			list = append(list, &Finding{unwatched, "a waiter for " + q.Path + " does not watch any contender ahead of it: it is stuck, polls, or watches the parent znode",
				[]Step{{Path: q.Path, Contender: c, Behind: ahead[len(ahead)-1]}}, q.removal(c)})
		}
	}
	return list
}

// label names a contender's client in a line.
func (c *Contender) label() string {
	words := []string{cmp.Or(c.Session, "no session")}
	for _, w := range []string{c.Client, c.Who} {
		if w != "" {
			words = append(words, w)
		}
	}
	return render.Safe(strings.Join(words, "  "))
}
