package queue

import (
	"context"
	"slices"
	"time"

	"github.com/zksh/zksh/internal/cluster"
)

// Look returns the queue at path, like Read, together with the addresses of the clients. It
// queries the servers for the addresses while it reads the queue. If a client seems to be
// disconnected, Look queries the servers again, because the client may have connected in the
// meantime.
func Look(ctx context.Context, e Ensemble, path string) (*Queue, error) {
	found := make(chan *cluster.Clients, 1)
	// This goroutine ends after the timeouts of FindClients. Its result is received below.
	go func() { found <- cluster.FindClients(ctx, e) }()
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

// addClients sets the client address of each contender. c contains the servers' reports about their
// connections. If a client has no connection, addClients marks it as disconnected.
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

// now returns the current time according to the server's clock, which is ahead of the local clock
// by skew. The result is never earlier than the creation of a contender's znode.
func (q *Queue) now(skew time.Duration) time.Time {
	now := time.Now()
	if skew.Abs() > time.Second { // a smaller difference may be network delay
		now = now.Add(skew)
	}
	for _, who := range q.Contenders {
		if made := time.UnixMilli(who.stat.Ctime); made.After(now) {
			now = made
		}
	}
	return now
}

// hasDisconnected reports whether a client in the queue has no connection to any server.
func (q *Queue) hasDisconnected() bool {
	return slices.ContainsFunc(q.Contenders, func(c *Contender) bool { return c.Client == cluster.NoConnection })
}
