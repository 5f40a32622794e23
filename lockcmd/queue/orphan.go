package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/zksh/zksh/internal/cluster"
)

// An Orphan describes a contender whose session no longer exists although its ephemeral znode
// does. Bugs of servers leave such znodes behind, and no server deletes them.
//
// A contender is an orphan only if it has been seen twice, recheckPause apart, without a session
// in the leader's table and without a connection to any server. Each time, its znode was read
// before the table, so its session had been created before the table was read, and the znode
// still existed afterwards. Between the two times, Sync waits for the transactions that the
// leader has begun. A session that has just expired is such a transaction, which deletes the
// session's znodes.
type Orphan struct {
	Problem string `json:"problem"`
	Command string `json:"command"` // zksh command that removes the znode
}

// LookTwice reads the queue at path like Look. If a contender may be an orphan, LookTwice reads
// the queue again after recheckPause, and marks the orphans.
func LookTwice(ctx context.Context, e Ensemble, path string) (*Queue, error) {
	q, err := Look(ctx, e, path)
	if err != nil || !q.hasDisconnected() {
		return q, err
	}
	table, err := cluster.LeaderSessions(ctx, e)
	if err != nil {
		return q, nil // whether there are orphans is unknown
	}
	suspected := q.suspects(table)
	if len(suspected) == 0 {
		return q, nil
	}
	if err := Pause(ctx, recheckPause); err != nil {
		return nil, err
	}
	return confirmOrphans(ctx, e, path, suspected)
}

// recheckPause is the time between the two searches for orphans.
const recheckPause = 2 * time.Second

// Pause waits for the duration d. If ctx ends before, it returns the cause.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// suspects returns the identities of the contenders that may be orphans: they have no connection, and
// the leader's table does not contain their sessions. The queue must have been read before the table.
func (q *Queue) suspects(table *cluster.SessionTable) map[string]bool {
	found := map[string]bool{}
	for _, c := range q.Contenders {
		if c.Client == cluster.NoConnection && !table.Has(c.stat.EphemeralOwner) {
			found[c.identity()] = true
		}
	}
	return found
}

// identity returns a string that identifies the contender's znode: its path, the zxid of its
// creation, and the session that owns it. A znode that was deleted and created again has another
// identity.
func (c *Contender) identity() string {
	return fmt.Sprintf("%s %d %d", c.node.path, c.stat.Czxid, c.stat.EphemeralOwner)
}

// confirmOrphans reads the queue again, twice, and marks the suspected contenders that really are
// orphans.
func confirmOrphans(ctx context.Context, e Ensemble, path string, suspected map[string]bool) (*Queue, error) {
	if err := e.Sync(ctx, path); err != nil {
		return nil, err
	}
	q, err := Look(ctx, e, path)
	if err != nil {
		return nil, err
	}
	table, err := cluster.LeaderSessions(ctx, e)
	if err != nil {
		return q, nil // whether there are orphans is unknown
	}
	again := q.suspects(table)
	if q, err = Look(ctx, e, path); err != nil { // the znodes must still exist after the table was read
		return nil, err
	}
	for _, c := range q.Contenders {
		if id := c.identity(); c.Client == cluster.NoConnection && suspected[id] && again[id] {
			c.Orphan = q.orphan(e, c, table)
		}
	}
	return q, nil
}

// orphan returns a description of the orphan c, a contender in the queue.
func (q *Queue) orphan(e Ensemble, c *Contender, table *cluster.SessionTable) *Orphan {
	o := &Orphan{
		Problem: fmt.Sprintf("%s in the queue of %s belongs to session %s, which no longer exists, so no server deletes "+
			"the znode", c.Node, q.Path, c.Session),
		Command: q.removal(c),
	}
	listed := table.Ephemerals[c.stat.EphemeralOwner]
	if !slices.ContainsFunc(listed, func(p string) bool { return e.ClientPath(p) == c.node.path }) {
		o.Problem += "; the leader does not list the znode, so the servers may disagree"
	}
	return o
}
