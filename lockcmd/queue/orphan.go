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
	suspected := suspects([]*Queue{q}, table)
	if len(suspected) == 0 {
		return q, nil
	}
	if err := Pause(ctx, recheckPause); err != nil {
		return nil, err
	}
	_, err = confirmOrphans(ctx, e, path, suspected, func() ([]*Queue, error) {
		q, err = Look(ctx, e, path)
		return []*Queue{q}, err
	})
	return q, err
}

// Pause waits for the duration d. If ctx ends before, it returns the cause.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// suspects returns the contenders that may be orphans: they have no connection, and the leader's
// table does not contain their sessions. The map contains the path of each contender's queue, by
// the contender's identity. The queues must have been read before the table.
func suspects(queues []*Queue, table *cluster.SessionTable) map[string]string {
	found := map[string]string{}
	for _, q := range queues {
		for _, c := range q.Contenders {
			if c.Client == cluster.NoConnection && !table.Has(c.stat.EphemeralOwner) {
				found[c.identity()] = q.Path
			}
		}
	}
	return found
}

// confirmOrphans calls read to read the queues again, and marks the suspected contenders that
// really are orphans. It may call read twice; the marks are in the queues of the last call. If the
// suspected contenders cannot be checked, why is the reason.
func confirmOrphans(ctx context.Context, e Ensemble, path string, suspected map[string]string, read func() ([]*Queue, error)) (why, err error) {
	if err := e.Sync(ctx, path); err != nil {
		return nil, err
	}
	queues, err := read()
	if err != nil || len(suspected) == 0 {
		return nil, err
	}
	table, why := cluster.LeaderSessions(ctx, e)
	if why != nil {
		return why, nil
	}
	again := suspects(queues, table)
	if queues, err = read(); err != nil { // the znodes must still exist after the table was read
		return nil, err
	}
	for _, q := range queues {
		for _, c := range q.Contenders {
			id := c.identity()
			if c.Client == cluster.NoConnection && suspected[id] != "" && again[id] != "" {
				c.Orphan = q.orphan(e, c, table)
			}
		}
	}
	return nil, nil
}

// orphan returns a description of the orphan c, a contender in the queue.
func (q *Queue) orphan(e Ensemble, c *Contender, table *cluster.SessionTable) *Orphan {
	o := &Orphan{
		Problem: fmt.Sprintf("%s in the queue of %s belongs to session %s, which no longer exists, so no server deletes the znode", c.Nodes[0], q.Path, c.Session),
		Command: q.removal(c),
	}
	listed := slices.ContainsFunc(table.Ephemerals[c.stat.EphemeralOwner], func(p string) bool { return e.ClientPath(p) == c.nodes[0].path })
	if !listed {
		o.Problem += "; the leader does not list the znode, so the servers may disagree"
	}
	return o
}

// orphans returns a finding for each orphan in the queue.
func (q *Queue) orphans() (list []*Finding) {
	for _, c := range q.Contenders {
		if c.Orphan != nil {
			list = append(list, &Finding{orphanFound, c.Orphan.Problem, []Step{{Path: q.Path, Contender: c}}, c.Orphan.Command})
		}
	}
	return list
}
