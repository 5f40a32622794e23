package queue

import (
	"context"
	"slices"
	"time"

	"github.com/zksh/zksh/internal/cluster"
)

// Look reads a queue as Read does, and adds what the servers report about the clients. It asks
// them while it reads. It asks again if a client seems to be disconnected, because that client
// may have connected in between.
func Look(ctx context.Context, e Ensemble, path string) (*Queue, error) {
	found := make(chan *cluster.Clients, 1)
	go func() { found <- cluster.FindClients(ctx, e) }() // bounded, and received below
	q, err := Read(ctx, e, path)
	c := <-found
	if err != nil {
		return nil, err
	}
	q.addClients(c)
	if q.orphans() {
		q.addClients(cluster.FindClients(ctx, e))
	}
	return q, nil
}

// addClients adds what the servers reported about the contenders' connections.
func (q *Queue) addClients(c *cluster.Clients) {
	missing := false
	for _, who := range q.Contenders {
		owner := who.stat.EphemeralOwner
		addr, known := c.Addrs[owner]
		switch {
		case known:
			who.Client = addr
		case who.Session == "": // a znode that outlives sessions
		case c.All:
			who.Client = cluster.NoConnection
		default:
			missing = true
		}
	}
	if missing {
		q.NoClients = c.Why
		if q.NoClients == "" {
			q.NoClients = "zksh does not know all servers of the ensemble"
		}
	}
	q.setAges(q.now(c.Skew))
}

// now returns the server's time, which is ours plus skew, but no earlier than the creation of
// any contender's znode.
func (q *Queue) now(skew time.Duration) time.Time {
	now := time.Now()
	if skew.Abs() > time.Second { // a smaller one may be the network's delay
		now = now.Add(skew)
	}
	for _, who := range q.Contenders {
		if made := time.UnixMilli(who.stat.Ctime); made.After(now) {
			now = made
		}
	}
	return now
}

// orphans reports whether a contender has no connection.
func (q *Queue) orphans() bool {
	return slices.ContainsFunc(q.Contenders, func(c *Contender) bool { return c.Client == cluster.NoConnection })
}
