// Package ensemble connects Go programs to a ZooKeeper ensemble, over zksh's own
// connection layer, for the locks of package zklock.
//
// # What is guaranteed
//
// Two owners that exclude each other never hold a lock at once, as far as ZooKeeper
// can tell. The others may be zksh's commands, or Curator, go-zookeeper and kazoo,
// if the lock's family has their names. Waiting is in the order of arrival, through
// lost connections; whose session is lost queues up again. The context that Do gives
// to its function is cancelled when the lease is over, with zklock.ErrLost as its
// cause, before ZooKeeper gives the lock to anybody else. How the lease is counted,
// and which faults no client can outwit, is told in package zklock.
//
// A lock is released when Do returns, when its lease is given back, and when Close
// ends the session; when the program dies, as the session times out. No znode of an
// attempt that was given up stays behind.
//
// # What is not
//
// The context ends with the lease, not before, and stops nothing by itself: whoever
// does not look at it, or is in the middle of a call, acts on without the lock. So
// does a process that was stopped, or a machine that was asleep, until it looks; so
// does a packet on its way. A ClickHouse Keeper ends a session with its connection: there
// the context ends as the disconnect is noticed, and others may hold the lock by then.
// Lease.Left tells how much time there surely is. What must never be written by two
// belongs under the token, which grows from holder to holder, in a store that refuses an
// older one.
//
// A zklock.Lock is one owner's: goroutines that share one are in it together.
// Those that are to exclude each other need a Lock each, and may share the Client.
//
// # Why not a bare *zk.Conn
//
// No adapter from go-zookeeper's connection to zklock.Conn can be right. It does not
// tell the timeout that was negotiated, nor when an answered ping had been sent, so
// nobody can know until when a lock is held. Its requests take no context, and wait
// as long as there is no connection. Its watches cannot be taken back, so each wait
// that is given up leaves one behind. And requests that are queued as the session
// expires may run in the next: then a lock's znode stays for which nobody waits.
package ensemble

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/zksh/zksh/internal/secure"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// Options of a connection. The zero value asks for a session of 30 s.
type Options struct {
	// Timeout is the session timeout that is asked for; the server may choose
	// another. The locks of a program that died are free after it. Ask for 10 s at
	// least.
	Timeout time.Duration
	// Credentials authenticate the session, and each that follows it.
	Credentials []Credential
	// Secure is for an ensemble that lets clients in by TLS or SASL. Secure is an
	// option of Dial alone: a zksh that the program starts has its own.
	Secure Secure
}

// Secure says by which files to connect, as zksh's options of these names do: TLS,
// CACert, Cert, Key, Name, Insecure, ClientConfiguration and JAAS. Passwords of
// stores come from the client configuration, or from the environment as
// ZKSH_KEYSTORE_PASSWORD and ZKSH_TRUSTSTORE_PASSWORD.
type Secure = secure.Settings

// Credential is what addauth takes: a Scheme and an Auth, such as "digest" and
// "user:password".
type Credential = zkconn.Credential

// ErrClosed is the error of locks whose Client was closed.
var ErrClosed = zkconn.ErrNotConnected

// Client is a connection to one ensemble, kept up until Close. Its methods may be
// called from any goroutine.
type Client struct{ s *zkconn.Session }

// Dial connects to the servers, host[:port][,host[:port]…][/chroot] as in zkCli. It
// fails when a credential is refused, when no server can be reached, which takes
// the Timeout at most, or when ctx ends.
func Dial(ctx context.Context, servers string, opt Options) (*Client, error) {
	timeout := cmp.Or(opt.Timeout, 30*time.Second)
	if ms := timeout.Milliseconds(); ms < 1 || ms > math.MaxInt32 {
		return nil, fmt.Errorf("invalid session timeout %s: must be between 1 and %d ms", timeout, math.MaxInt32)
	}
	secured, err := opt.Secure.Load(os.Getenv)
	if err != nil {
		return nil, err
	}
	s, err := zkconn.Open(zkconn.Config{Servers: servers, Timeout: timeout, NoEvents: true, Auth: opt.Credentials, Secure: secured})
	if err != nil {
		return nil, err
	}
	c := &Client{s}
	if err = s.Ready(ctx); err == nil && len(opt.Credentials) > 0 {
		err = s.Sync(ctx, "/") // is answered behind them
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Session makes Client a zklock.Conn: zklock.New makes locks that have a note, an
// ACL or a family of their own.
func (c *Client) Session(ctx context.Context) (zklock.Session, error) { return c.s.Stay().Pin(ctx) }

// Mutex is a lock on a path, which is made if need be: Curator's InterProcessMutex
// and go-zookeeper's Lock.
func (c *Client) Mutex(path string) *zklock.Lock { return zklock.New(c, path, zklock.Options{}) }

// RWMutex is a lock that readers hold together, with RLock and RDo: Curator's
// InterProcessReadWriteLock.
func (c *Client) RWMutex(path string) *zklock.Lock {
	return zklock.New(c, path, zklock.Options{Family: zklock.RW})
}

// Close ends the session, and with it its locks; their contexts are cancelled.
// While no server is there, none can be told: then the locks go as the session
// times out.
func (c *Client) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return c.s.Close(ctx)
}
