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

// Kinds of findings.
const (
	cycleFound        = "circle"       // sessions wait for each other
	twiceFound        = "twice"        // a session waits for itself
	upgradeFound      = "upgrade"      // a session that holds the read lock waits for the write lock
	unwatchedFound    = "unwatched"    // a waiter has no watch that could wake it
	disconnectedFound = "disconnected" // a holder has no connection
	familiesFound     = "families"     // recipes ignore each other
)

// Deadlocks is the result of a search for deadlocks in the queues below a path.
type Deadlocks struct {
	Path     string     `json:"path"`
	Queues   int        `json:"queues"` // number of queues searched
	Findings []*Finding `json:"findings"`
	NotTold  []string   `json:"notTold,omitempty"` // searches that failed, and how to make them possible
}

// A Finding is a state that does not end without intervention, such as a deadlock.
type Finding struct {
	Kind    string `json:"kind"`
	Problem string `json:"problem"`
	Chain   []Step `json:"chain"`
	Command string `json:"command,omitempty"` // zksh command that resolves the problem
}

// A Step describes one contender of a finding, and the contender that blocks it.
type Step struct {
	Path      string     `json:"path"`
	Contender *Contender `json:"contender"`
	Behind    *Contender `json:"behind,omitempty"`
	// Runs is set if Contender holds its lock for a command that waits for another lock. Runs is
	// the contender of that command in the queue at RunsPath.
	Runs     *Contender `json:"runs,omitempty"`
	RunsPath string     `json:"runsPath,omitempty"`
}

// recheckPause is the time between the two searches in which a finding must be seen. States that
// are normal during a hand-over of a lock have passed by then.
const recheckPause = 2 * time.Second

// FindDeadlocks searches all queues below root for states that do not end without intervention.
// It reports a finding only if it sees the same znodes in two searches, recheckPause apart.
// Between the two searches, all these znodes existed at the same time, and so did the deadlock.
func FindDeadlocks(ctx context.Context, e TreeEnsemble, root string) (*Deadlocks, error) {
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
	case <-time.After(recheckPause):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	again := &Survey{Path: root}
	if err := again.read(ctx, e, findingPaths(first)); err != nil {
		return nil, err
	}
	still := again.findings(e, cluster.FindWatches(ctx, e))
	for _, f := range first {
		if again.hasAll(f) && (!f.transient() || slices.ContainsFunc(still, f.same)) {
			d.Findings = append(d.Findings, f)
		}
	}
	return d, nil
}

// findingPaths returns the paths of the queues in the findings, sorted.
func findingPaths(list []*Finding) (dirs []string) {
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

// transient reports whether the finding depends not only on znodes, but also on watches or
// connections, which may change.
func (f *Finding) transient() bool { return f.Kind == unwatchedFound || f.Kind == disconnectedFound }

// same reports whether other is a finding of the same kind about the same znodes.
func (f *Finding) same(other *Finding) bool {
	return f.Kind == other.Kind && slices.Equal(f.nodes(), other.nodes())
}

// nodes returns the identities of the contenders in the finding, in the order of the chain.
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

// identity returns the path of the contender's znode and the transaction that created it.
func (c *Contender) identity() string { return fmt.Sprintf("%s %d", c.nodes[0].path, c.stat.Czxid) }

// hasAll reports whether the survey contains the znodes of all contenders in the finding.
func (s *Survey) hasAll(f *Finding) bool {
	there := map[string]bool{}
	for _, q := range s.Queues {
		for _, c := range q.Contenders {
			there[c.identity()] = true
		}
	}
	return !slices.ContainsFunc(f.nodes(), func(n string) bool { return !there[n] })
}

// findings returns all problems that one survey shows. w contains the watches of the sessions.
func (s *Survey) findings(e TreeEnsemble, w *cluster.Watches) (list []*Finding) {
	for _, way := range newGraph(s.Queues, e.ServerPath).cycles() {
		list = append(list, cycleFinding(way))
	}
	for _, q := range s.Queues {
		list = append(list, q.selfWaits()...)
		list = append(list, q.unwatched(e, w)...)
		for _, c := range q.holders() {
			if c.Client == cluster.NoConnection {
				list = append(list, &Finding{disconnectedFound, q.Path + " is held by a client without a connection, until its session expires",
					[]Step{{Path: q.Path, Contender: c}}, q.removal(c)})
			}
		}
		for _, text := range q.Warnings {
			f := &Finding{Kind: familiesFound, Problem: q.Path + ": " + text}
			for _, c := range q.Contenders {
				f.Chain = append(f.Chain, Step{Path: q.Path, Contender: c})
			}
			list = append(list, f)
		}
	}
	return list
}

// cycleFinding returns the finding for a cycle, beginning with the oldest wait. The finding's
// command removes the lock that the youngest waiter holds and for which its predecessor in the
// cycle waits. It does not remove the youngest waiter from the queue in which it waits, because
// that client would only join the queue again.
func cycleFinding(cycle []edge) *Finding {
	oldest, youngest := -1, -1
	for i, e := range cycle {
		if e.runsCommand {
			continue
		}
		if oldest < 0 || e.blocked.c.stat.Ctime < cycle[oldest].blocked.c.stat.Ctime {
			oldest = i
		}
		if youngest < 0 || e.blocked.c.stat.Ctime > cycle[youngest].blocked.c.stat.Ctime {
			youngest = i
		}
	}
	before := cycle[(youngest+len(cycle)-1)%len(cycle)]
	victim := before.blocker
	if before.runsCommand {
		victim = before.blocked
	}
	f := &Finding{Kind: cycleFound, Problem: fmt.Sprintf("%d sessions are waiting for each other", len(cycle)), Command: victim.q.removal(victim.c)}
	for _, e := range append(slices.Clone(cycle[oldest:]), cycle[:oldest]...) {
		s := Step{Path: e.blocked.q.Path, Contender: e.blocked.c}
		if e.runsCommand {
			s.Runs, s.RunsPath = e.blocker.c, e.blocker.q.Path
		} else {
			s.Behind = e.blocker.c
		}
		f.Chain = append(f.Chain, s)
	}
	return f
}

// removal returns the zksh command that removes a contender from the queue. The command deletes
// the contender's znode.
func (q *Queue) removal(c *Contender) string {
	return "unlock --force " + quoteWord(path.Base(c.nodes[0].path)) + " " + quoteWord(q.Path)
}

// quoteWord returns s as the user must type it as an argument of a zksh command, with quotes if
// necessary.
func quoteWord(s string) string {
	switch {
	case !strings.ContainsAny(s, " \t\"'"):
		return s
	case !strings.Contains(s, `"`):
		return `"` + s + `"`
	}
	return "'" + s + "'"
}

// selfWaits returns a finding for each session that waits for a lock that it holds itself.
func (q *Queue) selfWaits() (list []*Finding) {
	done := map[string]bool{}
	for _, c := range q.Contenders {
		if c.Session == "" || done[c.Session] {
			continue
		}
		for _, a := range q.ahead(c) {
			if a.Session != c.Session || done[c.Session] {
				continue
			}
			done[c.Session] = true
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

// watchingKinds lists the kinds of recipe in which each waiter watches a contender ahead of it in
// the queue.
var watchingKinds = []string{"Curator mutex", "Curator mutex, shared", "Curator write", "Curator read", "Curator latch",
	"kazoo lock", "kazoo read", "go-zookeeper lock", "ZooKeeper recipe"}

// unwatched returns a finding for each waiter whose session watches none of the contenders ahead
// of it.
func (q *Queue) unwatched(e TreeEnsemble, w *cluster.Watches) (list []*Finding) {
	if w.Why != "" {
		return nil
	}
	for _, c := range q.Contenders {
		ahead := q.ahead(c)
		if len(ahead) == 0 || c.Session == "" || !c.waitsForAll && !slices.Contains(watchingKinds, c.Kind) {
			continue
		}
		set := w.Paths[c.stat.EphemeralOwner]
		watched := set[e.ServerPath(q.Path)] || slices.ContainsFunc(q.Contenders[:c.Place-1], func(a *Contender) bool {
			return slices.ContainsFunc(a.nodes, func(n *node) bool { return set[e.ServerPath(n.path)] })
		})
		if !watched {
			list = append(list, &Finding{unwatchedFound, "a waiter for " + q.Path + " does not watch any contender ahead of it: it is stuck, polls, or watches the parent znode",
				[]Step{{Path: q.Path, Contender: c, Behind: ahead[len(ahead)-1]}}, q.removal(c)})
		}
	}
	return list
}

// label returns the session, the client address and the note of a contender, on one line.
func (c *Contender) label() string {
	words := []string{cmp.Or(c.Session, "no session")}
	for _, w := range []string{c.Client, c.Who} {
		if w != "" {
			words = append(words, w)
		}
	}
	return render.Safe(strings.Join(words, "  "))
}
