package queue

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/cluster"
	"github.com/zksh/zksh/internal/render"
)

// Watched is an ensemble that tells of changes: of the children that were listed,
// and of what is read by Watch.
type Watched interface {
	Ensemble
	// Watch is Nodes with a watch left on each.
	Watch(ctx context.Context, paths []string) ([]Node, error)
}

// Follower reads a queue at each of its changes.
type Follower struct {
	e       Watched
	path    string
	reader  reader
	clients *cluster.Clients // as they were told last
	asked   time.Time
	due     bool      // somebody has come since they were asked
	last    *Queue    // as it was read last
	count   *counting // nil: nobody wants it
}

// What happens to a contender.
const (
	cameEvent = "came"
	gotEvent  = "got"
	leftEvent = "left"
)

// askEvery is how often at most the servers are asked for their connections.
const askEvery = time.Second

// Follow makes a Follower of a lock's path.
func Follow(e Watched, path string) *Follower {
	return &Follower{e: e, path: path, clients: &cluster.Clients{}, reader: reader{e: e}}
}

// Update reads the queue after a change and gives what is new: the newcomers'
// znodes, and the holders', which may have been asked to let go.
func (f *Follower) Update(ctx context.Context) ([]Change, error) {
	c, err := f.reader.read(ctx, f.path)
	if err != nil {
		return nil, err
	}
	f.reader.known = f.reader.found
	if err := f.watchHolders(ctx, newQueue(f.path, c)); err != nil {
		return nil, err
	}
	q := newQueue(f.path, c)
	q.addClients(f.connections(ctx, q))
	before := f.last
	f.last = q
	now := time.Now()
	list := changes(before, q, now)
	if f.count != nil {
		f.count.add(list, now)
	}
	return list, nil
}

// Count has what happens from now on counted.
func (f *Follower) Count(ctx context.Context) { f.count = newCounting(ctx, f.e, f.path) }

// Stats is what was counted, or nil.
func (f *Follower) Stats(ctx context.Context) *Stats {
	if f.count == nil {
		return nil
	}
	return f.count.stats(ctx, f.e)
}

// watchHolders reads what the holders' znodes say now. One that has gone meanwhile
// is told of by the next change.
func (f *Follower) watchHolders(ctx context.Context, q *Queue) error {
	var holders []*node
	var paths []string
	for _, c := range q.holding() {
		holders, paths = append(holders, c.nodes[0]), append(paths, c.nodes[0].path)
	}
	now, err := f.e.Watch(ctx, paths)
	if err != nil {
		return err
	}
	for i, n := range holders {
		if now[i].Stat != nil {
			n.Node = now[i]
		}
	}
	return nil
}

// connections asks the servers if there is somebody whom they have not told of.
func (f *Follower) connections(ctx context.Context, q *Queue) *cluster.Clients {
	stranger := slices.ContainsFunc(q.Contenders, func(c *Contender) bool {
		return c.Session != "" && f.clients.Addrs[c.stat.EphemeralOwner] == ""
	})
	f.due = stranger && time.Since(f.asked) <= askEvery
	if stranger && !f.due {
		f.clients, f.asked = cluster.FindClients(ctx, f.e), time.Now()
		return f.clients
	}
	old := *f.clients
	old.All = old.All && !stranger // who has come since is not in it
	return &old
}

// AskServers asks for the clients' connections once more, if that can tell more
// than the last time: nothing else tells of somebody who connects again.
func (f *Follower) AskServers(ctx context.Context) {
	if q := f.last; q != nil && (f.due || q.orphans()) {
		q.addClients(f.connections(ctx, q))
	}
}

// Picture is the queue as it is now, or, without a connection, as it was, made to
// fit a terminal, with these figures if there are any; nil before the first reading.
func (f *Follower) Picture(columns, rows int, connected bool, stats *Stats) []string {
	q := f.last
	if q == nil {
		return nil
	}
	q.setAges(q.now(f.clients.Skew))
	lines := []string{q.title()}
	if !connected {
		lines = append(lines, "connection lost; last known state:")
	}
	lines = append(lines, q.Remarks()...)
	if stats != nil {
		lines = append(lines, stats.lines()...)
	}
	if len(q.Contenders) > 0 {
		lines = append(lines, q.lines(columns)...)
	}
	if most := max(rows-1, 2); len(lines) > most {
		lines = append(lines[:most-1], fmt.Sprintf("… and %d more", len(lines)-most+1))
	}
	return lines
}

// title says how things are in one line.
func (q *Queue) title() string {
	if q.Free() {
		return q.Path + ": free"
	}
	holding := len(q.holding())
	return fmt.Sprintf("%s: %d hold, %d wait", q.Path, holding, len(q.Contenders)-holding)
}

// Change is one thing that happened in a queue.
type Change struct {
	Time  string `json:"time"` // RFC 3339 in UTC
	Event string `json:"event"`
	*Contender
}

// Text is a line of words, the last but one of which may have blanks.
func (c Change) Text(w io.Writer) error {
	_, err := fmt.Fprintln(w, strings.Join(c.cells(c.Time, c.Event, c.word(), c.Session, c.Client), "  "))
	return err
}

// IsEvent is part of render.Event.
func (Change) IsEvent() {}

// changes returns what happened between two readings: who left, came and got the lock. The
// first reading returns everybody's state. Contenders that came and left in between are not seen.
func changes(before, now *Queue, at time.Time) []Change {
	var list []Change
	add := func(event string, c *Contender) {
		list = append(list, Change{render.Time(at), event, c})
	}
	was := map[string]*Contender{}
	if before != nil {
		was = byNode(before)
		is := byNode(now)
		for _, c := range before.Contenders {
			if is[c.Nodes[0]] == nil {
				add(leftEvent, c)
			}
		}
	}
	for _, c := range now.Contenders {
		old := was[c.Nodes[0]]
		switch {
		case before == nil:
			add(c.State, c)
			continue
		case old == nil:
			add(cameEvent, c)
		}
		if c.State == holds && (old == nil || old.State != holds) {
			add(gotEvent, c)
		}
	}
	return list
}

func byNode(q *Queue) map[string]*Contender {
	m := map[string]*Contender{}
	for _, c := range q.Contenders {
		m[c.Nodes[0]] = c
	}
	return m
}
