// Package cluster asks the servers of a ZooKeeper ensemble about themselves (FindServers), their
// sessions (FindSession, Ephemerals, FindWatches) and the addresses of clients (FindClients). It
// uses four-letter commands, and is independent of locks. Start reading at Ensemble: all
// requests to servers are made through it.
package cluster

import (
	"context"
	"time"
)

// An Ensemble is a ZooKeeper client that can send a request to each server of its ensemble.
type Ensemble interface {
	// Hosts returns the servers that the client knows, as host:port. The server to which the
	// client is connected comes first.
	Hosts() []string
	// Word sends a four-letter command to a server and returns the server's reply.
	Word(ctx context.Context, addr, word string) (string, error)
	// Config returns the list of the ensemble's members in the format in which the servers store
	// it.
	Config(ctx context.Context) (string, error)
	// Self returns the client's own session ID, and the time when it asked the server for its
	// connection.
	Self() (session int64, since time.Time)
	// ClientPath converts a server's path to a path as seen by this client, that is, without the
	// client's chroot.
	ClientPath(path string) string
}

// Time limits for a request to all servers.
const (
	serversLimit = 3 * time.Second
	dumpLimit    = 10 * time.Second // longer, because the replies grow with the number of sessions
	clientsLimit = time.Second      // shorter, because no command may have to wait for client addresses
)
