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

// A WatchableEnsemble is an ensemble whose Children method sets a watch on the children, and
// whose Watch method sets a watch on the data.
type WatchableEnsemble interface {
	Ensemble
	// Watch is like Nodes, but also sets a data watch on each znode.
	Watch(ctx context.Context, paths []string) ([]Node, error)
}

// A Follower observes one queue. It reads the queue again after each change.
type Follower struct {
	e       WatchableEnsemble
	path    string
	reader  reader
	clients *cluster.Clients // latest report of the servers about their clients' connections
	askedAt time.Time
	// queryDue means that the connection of a contender is unknown, and that the servers must be
	// queried again as soon as askEvery has passed since the last query.
	queryDue bool
	last     *Queue // queue as of the latest reading; nil before the first one
}

// Events in the life of a contender: it arrived, acquired the lock, or left the queue.
const (
	cameEvent = "came"
	gotEvent  = "got"
	leftEvent = "left"
)

// askEvery is the minimum time between two queries to the servers about client connections.
const askEvery = time.Second

// Follow returns a Follower for the queue at path. Call Update to read the queue.
func Follow(e WatchableEnsemble, path string) *Follower {
	return &Follower{e: e, path: path, clients: &cluster.Clients{}, reader: reader{e: e}}
}

// Update reads the queue and returns the changes since the previous call. It does not read the
// znodes of known waiters again. It does read those of the holders, whose data changes when
// another client asks for the lock.
func (f *Follower) Update(ctx context.Context) ([]Change, error) {
	c, err := f.reader.readAll(ctx, f.path)
	if err != nil {
		return nil, err
	}
	f.reader.cache = f.reader.found
	if err := f.watchHolders(ctx, newQueue(f.path, c)); err != nil {
		return nil, err
	}
	q := newQueue(f.path, c)
	q.addClients(f.connections(ctx, q))
	before := f.last
	f.last = q
	return changes(before, q, time.Now()), nil
}

// watchHolders reads the znodes of the lock's holders and watches their data. It ignores a znode
// that no longer exists, because the next Update reports that its holder has left.
func (f *Follower) watchHolders(ctx context.Context, q *Queue) error {
	var holders []*node
	var paths []string
	for _, c := range q.holders() {
		holders, paths = append(holders, c.node), append(paths, c.node.path)
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

// connections returns the servers' latest report about the clients' connections. It queries the
// servers only if a contender's connection is unknown and the last query is more than askEvery
// ago.
func (f *Follower) connections(ctx context.Context, q *Queue) *cluster.Clients {
	unknown := slices.ContainsFunc(q.Contenders, func(c *Contender) bool {
		return c.Session != "" && f.clients.Addrs[c.stat.EphemeralOwner] == ""
	})
	f.queryDue = unknown && time.Since(f.askedAt) <= askEvery
	if unknown && !f.queryDue {
		f.clients, f.askedAt = cluster.FindClients(ctx, f.e), time.Now()
		return f.clients
	}
	old := *f.clients
	old.All = old.All && !unknown // the old report does not include the new contender
	return &old
}

// AskServers queries the servers about client connections again if a client in the queue is
// disconnected or its connection is unknown. Such queries are necessary because no watch reports
// that a client has reconnected.
func (f *Follower) AskServers(ctx context.Context) {
	if q := f.last; q != nil && (f.queryDue || q.hasDisconnected()) {
		q.addClients(f.connections(ctx, q))
	}
}

// Picture returns the queue as lines that fit a terminal of the given size. If connected is false,
// the lines say that they show the last known state. Picture returns nil until the first Update has
// succeeded.
func (f *Follower) Picture(columns, rows int, connected bool) []string {
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
	if !q.Free() {
		lines = append(lines, q.lines(columns)...)
	}
	if most := max(rows-1, 2); len(lines) > most {
		lines = append(lines[:most-1], fmt.Sprintf("… and %d more", len(lines)-most+1))
	}
	return lines
}

// waiters returns the number of contenders that wait.
func (q *Queue) waiters() int { return len(q.Contenders) - len(q.holders()) }

// title returns a one-line summary, such as "/lock: 1 hold, 3 wait".
func (q *Queue) title() string {
	switch {
	case q.Free():
		return q.Path + ": free"
	case q.State == unknown:
		return q.Path + ": unknown"
	}
	return fmt.Sprintf("%s: %d hold, %d wait", q.Path, len(q.holders()), q.waiters())
}

// A Change is an event in a queue, such as the arrival of a contender.
type Change struct {
	Time  string `json:"time"` // time at which zksh saw the change, RFC 3339 in UTC
	Event string `json:"event"`
	*Contender
}

// Text writes the change as one line of columns. Only the description of the client, in the last
// column but one, can contain spaces.
func (c Change) Text(w io.Writer) error {
	words := c.cells(c.Time, c.Event, c.modeName(), c.Session, c.Client)
	_, err := fmt.Fprintln(w, strings.Join(words, "  "))
	return err
}

// IsEvent marks Change as a render.Event.
func (Change) IsEvent() {}

// changes returns the differences between two readings of a queue: which contenders arrived,
// acquired the lock or left. If before is nil, it returns the state of each contender instead. It
// does not report contenders that arrived and left between the two readings.
func changes(before, now *Queue, at time.Time) []Change {
	var list []Change
	add := func(event string, c *Contender) {
		list = append(list, Change{Time: render.Time(at), Event: event, Contender: c})
	}
	was := map[string]*Contender{}
	if before != nil {
		was = byNode(before)
		is := byNode(now)
		for _, c := range before.Contenders {
			if is[c.Node] == nil {
				add(leftEvent, c)
			}
		}
	}
	for _, c := range now.Contenders {
		old := was[c.Node]
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
		m[c.Node] = c
	}
	return m
}
