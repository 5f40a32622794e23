package queue

import (
	"context"
	"slices"
	"time"

	"github.com/zksh/zksh/internal/cluster"
)

// Look reads the queue at path like Read, and adds the addresses of the clients. It queries the
// servers for the addresses while it reads the queue. If a client seems to be disconnected, it
// queries the servers again, because the client may have connected in between.
func Look(ctx context.Context, e Ensemble, path string) (*Queue, error) {
	found := make(chan *cluster.Clients, 1)
	go func() { found <- cluster.FindClients(ctx, e) }() // ends after the timeouts of FindClients; its result is received below
	q, err := Read(ctx, e, path)
	c := <-found
	if err != nil {
		return nil, err
	}
	q.addClients(c)
	if q.hasDisconnected() {
		q.addClients(cluster.FindClients(ctx, e))
	}
	return q, nil
}

// addClients adds the clients' addresses, and whether a client is disconnected, as the servers
// reported them in c.
func (q *Queue) addClients(c *cluster.Clients) {
	missing := false
	for _, who := range q.Contenders {
		owner := who.stat.EphemeralOwner
		addr, known := c.Addrs[owner]
		switch {
		case known:
			who.Client = addr
		case who.Session == "": // the znode is not ephemeral
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

// now returns the current time by the server's clock. This is the local time plus skew, but not
// earlier than the creation of any contender's znode.
func (q *Queue) now(skew time.Duration) time.Time {
	now := time.Now()
	if skew.Abs() > time.Second { // a smaller skew may be network delay
		now = now.Add(skew)
	}
	for _, who := range q.Contenders {
		if made := time.UnixMilli(who.stat.Ctime); made.After(now) {
			now = made
		}
	}
	return now
}

// hasDisconnected reports whether any contender's client has no connection.
func (q *Queue) hasDisconnected() bool {
	return slices.ContainsFunc(q.Contenders, func(c *Contender) bool { return c.Client == cluster.NoConnection })
}
