// Package cluster asks the servers of an ensemble about themselves (FindServers), their sessions
// (FindSession, Ephemerals, FindWatches) and the addresses of clients (FindClients), with
// four-letter commands. It is independent of locks. Start reading at Ensemble, through which all
// questions go.
package cluster

import (
	"context"
	"time"
)

// An Ensemble is a client of ZooKeeper that can ask its servers one by one.
type Ensemble interface {
	// Hosts returns the servers that the client knows, as host:port. The one that it is
	// connected to comes first.
	Hosts() []string
	// Word sends a four-letter command to a server and returns the reply.
	Word(ctx context.Context, addr, word string) (string, error)
	// Config returns the list of the ensemble's members, as its servers store it.
	Config(ctx context.Context) (string, error)
	// Self returns the client's own session, and when it asked for its connection.
	Self() (session int64, since time.Time)
	// ClientPath returns a server's path as the client knows it, without its chroot.
	ClientPath(path string) string
}

// Time limits of a request to all servers.
const (
	serversLimit = 3 * time.Second
	dumpLimit    = 10 * time.Second // for replies that grow with the number of sessions
	clientsLimit = time.Second      // for client addresses, which no command may wait for
)
