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

// Kinds of problems that FindDeadlocks reports.
const (
	cycleFound        = "circle"       // sessions wait for each other
	twiceFound        = "twice"        // a session waits for itself
	upgradeFound      = "upgrade"      // a session that holds the read lock waits for the write lock
	unwatchedFound    = "unwatched"    // a waiter does not watch any znode ahead of it
	disconnectedFound = "disconnected" // a client without a connection holds a lock
	familiesFound     = "families"     // lock recipes that ignore each other are used on the same path
	overdueFound      = "overdue"      // an owner holds a lock that should have expired
	orphanFound       = "orphan"       // the session of an ephemeral znode no longer exists
)

// Deadlocks is the result of a search for deadlocks in the queues below a path.
type Deadlocks struct {
	Path     string     `json:"path"`
	Queues   int        `json:"queues"` // number of queues searched
	Findings []*Finding `json:"findings"`
	NotTold  []string   `json:"notTold,omitempty"` // checks that were not possible, and the reasons
}

// A Finding is a problem that does not end without intervention, such as a deadlock.
type Finding struct {
	Kind    string `json:"kind"`
	Problem string `json:"problem"`
	Chain   []Step `json:"chain"`
	Command string `json:"command,omitempty"` // zksh command that resolves the problem
}

// A Step describes one contender in a finding, and the contender that blocks it.
type Step struct {
	Path      string     `json:"path"`
	Contender *Contender `json:"contender"`
	Behind    *Contender `json:"behind,omitempty"`
	// Runs is set if Contender holds its lock while it runs a command, and that command waits for
	// another lock. Runs is the command's own contender, in the queue at RunsPath.
	Runs     *Contender `json:"runs,omitempty"`
	RunsPath string     `json:"runsPath,omitempty"`
}

// recheckPause is the time between the two searches for a deadlock. It is long enough for states
// that are normal while a lock changes hands to end before the second search.
const recheckPause = 2 * time.Second

// FindDeadlocks searches the queues below root for problems that do not end without intervention.
// To avoid false alarms, it searches twice, recheckPause apart. It reports a problem only if all
// its znodes exist both times. Between the searches, these znodes all existed at the same time, so
// the problem was real.
func FindDeadlocks(ctx context.Context, e TreeEnsemble, root string) (*Deadlocks, error) {
	s, err := LookAll(ctx, e, root)
	if err != nil {
		return nil, err
	}
	d := &Deadlocks{Path: root, Queues: len(s.Queues), Findings: []*Finding{}}
	if s.NoOwners != "" {
		d.NotTold = append(d.NotTold, noOwners+s.NoOwners)
	}
	if s.Walked != "" {
		d.NotTold = append(d.NotTold, "no server listed the queues, so zksh searched the tree: "+s.Walked)
	}
	suspected := d.suspects(ctx, e, s)
	w := cluster.FindWatches(ctx, e)
	if w.Why != "" {
		d.NotTold = append(d.NotTold, "waiters that watch no contender: "+w.Why)
	}
	first := s.findings(e, w)
	if len(first)+len(suspected) == 0 {
		return d, nil
	}
	if err := Pause(ctx, recheckPause); err != nil {
		return nil, err
	}
	again := &Survey{Path: root}
	dirs := findingPaths(first)
	for _, dir := range suspected {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	dirs = slices.Compact(dirs)
	unconfirmed, err := confirmOrphans(ctx, e, root, suspected, func() ([]*Queue, error) {
		err := again.read(ctx, e, dirs)
		return again.Queues, err
	})
	if err != nil {
		return nil, err
	}
	d.missOrphans(unconfirmed)
	d.add(first, again, again.findings(e, cluster.FindWatches(ctx, e)))
	return d, nil
}

// suspects returns the contenders in the survey that may be orphans, in the form of the function
// suspects. If zksh cannot find orphans, the method records the reason.
func (d *Deadlocks) suspects(ctx context.Context, e TreeEnsemble, s *Survey) map[string]string {
	if s.NoClients != "" {
		d.NotTold = append(d.NotTold, "holders without a connection, and orphans: "+s.NoClients)
		return nil
	}
	table, err := cluster.LeaderSessions(ctx, e)
	d.missOrphans(err)
	if err != nil {
		return nil
	}
	return suspects(s.Queues, table)
}

// missOrphans records why zksh cannot find orphans. If why is nil, it does nothing.
func (d *Deadlocks) missOrphans(why error) {
	if why != nil {
		d.NotTold = append(d.NotTold, "orphans: "+why.Error())
	}
}

// add adds the findings that were seen twice, beginning with the orphans, because orphans can
// cause the other problems. first contains the findings of the first search. again is the survey
// of the second search, and second contains its findings.
func (d *Deadlocks) add(first []*Finding, again *Survey, second []*Finding) {
	for _, f := range second {
		if f.Kind == orphanFound { // confirmOrphans reports only those that it saw twice
			d.Findings = append(d.Findings, f)
		}
	}
	for _, f := range first {
		if again.hasAll(f) && (!f.transient() || slices.ContainsFunc(second, f.same)) {
			d.Findings = append(d.Findings, f)
		}
	}
}

// findingPaths returns the sorted paths of all queues that occur in a list of findings.
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

// transient reports whether the finding depends on watches or connections, which can change while
// all znodes stay the same.
func (f *Finding) transient() bool { return f.Kind == unwatchedFound || f.Kind == disconnectedFound }

// same reports whether other is a finding of the same kind about the same znodes.
func (f *Finding) same(other *Finding) bool {
	return f.Kind == other.Kind && slices.Equal(f.nodes(), other.nodes())
}

// nodes returns the identity of each contender in the finding, in the order of the chain.
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

// identity returns a string that identifies the contender's znode: its path, the zxid of its
// creation, and the session that owns it. A znode that was deleted and created again has another
// identity.
func (c *Contender) identity() string {
	return fmt.Sprintf("%s %d %d", c.nodes[0].path, c.stat.Czxid, c.stat.EphemeralOwner)
}

// hasAll reports whether all contenders of the finding f are still in the queues of the survey.
func (s *Survey) hasAll(f *Finding) bool {
	there := map[string]bool{}
	for _, q := range s.Queues {
		for _, c := range q.Contenders {
			there[c.identity()] = true
		}
	}
	return !slices.ContainsFunc(f.nodes(), func(n string) bool { return !there[n] })
}

// findings returns all problems in the queues of the survey. w contains the watches of all
// sessions.
func (s *Survey) findings(e TreeEnsemble, w *cluster.Watches) (list []*Finding) {
	for _, way := range newGraph(s.Queues, e.ServerPath).cycles() {
		list = append(list, cycleFinding(way))
	}
	for _, q := range s.Queues {
		list = append(list, q.selfWaits()...)
		list = append(list, q.unwatched(e, w)...)
		list = append(list, q.orphans()...)
		for _, c := range q.holders() {
			if f := q.overdue(c); f != nil {
				list = append(list, f)
			}
			if c.Client == cluster.NoConnection && c.Orphan == nil {
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

// expireMargin is the time that zksh allows a server to delete an expired znode. By default, a
// server searches for expired znodes once a minute.
const expireMargin = 5 * time.Minute

// overdue returns a finding if an owner holds the lock through c, and c should have expired.
// Otherwise, it returns nil.
func (q *Queue) overdue(c *Contender) *Finding {
	expire := c.nodes[0].Expire
	if expire == 0 || !c.statKnown() || q.now(0).Sub(time.UnixMilli(c.stat.Mtime)) < expire+expireMargin {
		return nil
	}
	return &Finding{Kind: overdueFound, Problem: fmt.Sprintf("%s is held by an owner whose lock should have expired %s after the last request: the servers do not delete expired znodes", q.Path, c.Expire),
		Chain: []Step{{Path: q.Path, Contender: c}}, Command: q.removal(c)}
}

// cycleFinding describes a deadlock cycle, beginning with the contender that has waited longest.
// The suggested command removes a lock that the most recent waiter holds and that another client
// in the cycle waits for. Removing that waiter from its queue would not help, because its client
// would only join the queue again.
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

// removal returns the zksh command that removes the contender c from the queue, by deleting its
// znode.
func (q *Queue) removal(c *Contender) string {
	return "unlock --force " + quoteWord(path.Base(c.nodes[0].path)) + " " + quoteWord(q.Path)
}

// quoteWord adds quotes to s if a zksh command line would otherwise split it.
func quoteWord(s string) string {
	switch {
	case !strings.ContainsAny(s, " \t\"'"):
		return s
	case !strings.Contains(s, `"`):
		return `"` + s + `"`
	}
	return "'" + s + "'"
}

// selfWaits returns a finding for each session that waits for a lock that the same session holds.
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

// watchingKinds lists the recipes whose waiters each watch the znode of a contender ahead of
// them.
var watchingKinds = []string{"Curator mutex", "Curator mutex, shared", "Curator write", "Curator read", "Curator latch",
	"kazoo lock", "kazoo read", "go-zookeeper lock", "ZooKeeper recipe"}

// unwatched returns a finding for each waiter that watches none of the contenders ahead of it.
func (q *Queue) unwatched(e TreeEnsemble, w *cluster.Watches) (list []*Finding) {
	if w.Why != "" {
		return nil
	}
	for _, c := range q.Contenders {
		ahead := q.ahead(c)
		if len(ahead) == 0 || c.Session == "" || c.Orphan != nil || !c.waitsForAll && !slices.Contains(watchingKinds, c.Kind) {
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

// label returns the contender's session, client address and description on one line.
func (c *Contender) label() string {
	words := []string{cmp.Or(c.Session, "no session")}
	for _, w := range []string{c.Client, c.Who} {
		if w != "" {
			words = append(words, w)
		}
	}
	return render.Safe(strings.Join(words, "  "))
}
