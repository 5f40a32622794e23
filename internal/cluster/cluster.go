// Package cluster reports the state of a ZooKeeper ensemble: its servers (FindServers), its
// sessions (FindSession, LeaderSessions, Ephemerals) and the addresses of its clients
// (FindClients). It uses four-letter commands, and does not depend on the packages for locks.
//
// Start reading at Ensemble, the interface through which all requests are made.
package cluster

import (
	"context"
	"net"
	"time"
)

// An Ensemble is a ZooKeeper client that can send a request to each server of its ensemble.
type Ensemble interface {
	// Hosts returns the servers that the client knows, as host:port. The server to which the
	// client is connected comes first.
	Hosts() []string
	// Word sends a four-letter command to a server and returns the server's reply.
	Word(ctx context.Context, addr, word string) (string, error)
	// Dial opens a TCP connection to addr in the same way as the client does.
	Dial(ctx context.Context, network, addr string) (net.Conn, error)
	// LookupHost returns the addresses of a host, or only the host itself if the client leaves
	// the resolution of names to a proxy.
	LookupHost(ctx context.Context, host string) ([]string, error)
	// Config returns the ensemble's configuration, which lists its members, in the format in which
	// the servers store it.
	Config(ctx context.Context) (string, error)
	// Self returns the client's own session ID, and the time when the client sent the connect
	// request for its current connection.
	Self() (session int64, since time.Time)
	// ClientPath converts a server path to a path of this client, by removing the client's chroot.
	ClientPath(path string) string
}

// Time limits for a request to all servers.
const (
	serversLimit = 3 * time.Second
	dumpLimit    = 10 * time.Second // longer, because the replies grow with the number of sessions
	clientsLimit = time.Second      // shorter, so that commands that also show client addresses stay fast
)
