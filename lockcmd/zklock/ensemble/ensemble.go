// Package ensemble connects Go programs to a ZooKeeper ensemble, over zksh's own
// connection layer, for the locks of package zklock.
//
// This package and package zklock are the only packages of this module that are meant to
// be imported. Their exported names follow semantic versioning.
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

// Options of a connection. The zero value connects without credentials and without TLS,
// and asks for a session timeout of 30 s.
type Options struct {
	// Timeout is the session timeout to ask for, from 1 ms to about 24 days; 30 s if
	// zero. The server may choose another one. When a program dies, its locks become
	// free after this time. Use at least 10 s.
	Timeout time.Duration
	// Credentials authenticate the session, and each session that follows it. They are
	// sent on every connection.
	Credentials []Credential
	// Secure has the settings for TLS and SASL. They apply to Dial alone: if the program
	// starts zksh, that zksh needs its own options.
	Secure Secure
}

// Secure has the settings for TLS and SASL. The zero value uses neither. Each field
// corresponds to an option of zksh. Fields that are set take precedence over the client
// configuration.
//
// The password of a PKCS12 or JKS store comes from the environment variable
// ZKSH_KEYSTORE_PASSWORD (for Cert) or ZKSH_TRUSTSTORE_PASSWORD (for CACert). The client
// configuration can contain the passwords of its own stores. Dial reads all files once.
type Secure struct {
	// TLS turns on TLS. CACert, Cert, Key, Name and Insecure imply it, as does a client
	// configuration with zookeeper.client.secure=true.
	TLS bool
	// CACert is the name of a file with the certificate authorities to trust, in PEM,
	// PKCS12 or JKS format. The default is those of the system.
	CACert string
	// Cert is the name of a file with the certificate of this program, in PEM, PKCS12 or
	// JKS format. The default is to present none. The file also contains the private
	// key, unless Key is set.
	Cert string
	// Key is the name of a PEM file with the private key of Cert. It needs Cert.
	Key string
	// Name is the name that the server's certificate must have. The default is the
	// host's name in the connect string.
	Name string
	// Insecure turns off the verification of the server's certificate: anyone on the
	// network can then pose as the server.
	Insecure bool
	// ClientConfiguration is the name of a Java properties file, as zkCli.sh reads it
	// with -client-configuration.
	ClientConfiguration string
	// JAAS is the name of a JAAS file, whose login section is used for SASL with
	// DIGEST-MD5. The default is that of the client configuration, if it has one, or no
	// SASL.
	JAAS string
}

// Credential identifies a client to ZooKeeper, as addauth does in zkCli.
type Credential struct {
	// Scheme is the authentication scheme, such as "digest".
	Scheme string
	// Auth is the scheme's data: "user:password" for digest. It can be nil for a scheme
	// that needs none.
	Auth []byte
}

// credentials are those of the connection layer.
func credentials(list []Credential) []zkconn.Credential {
	creds := make([]zkconn.Credential, len(list))
	for i, c := range list {
		creds[i] = zkconn.Credential(c)
	}
	return creds
}

// ErrClosed is the error of requests for locks after Close.
var ErrClosed = zkconn.ErrNotConnected

// Client is a connection to one ensemble, kept up until Close. Its methods may be
// called from any goroutine.
type Client struct{ s *zkconn.Session }

// Dial connects to the servers: host[:port][,host[:port]…][/chroot], as in zkCli, with
// port 2181 by default. It fails if a file of Options.Secure cannot be used, if a
// credential is rejected, if no server can be reached within Options.Timeout, or when
// ctx ends.
func Dial(ctx context.Context, servers string, opt Options) (*Client, error) {
	timeout := cmp.Or(opt.Timeout, 30*time.Second)
	if ms := timeout.Milliseconds(); ms < 1 || ms > math.MaxInt32 {
		return nil, fmt.Errorf("invalid session timeout %s: must be between 1 and %d ms", timeout, math.MaxInt32)
	}
	secured, err := secure.Settings(opt.Secure).Load(os.Getenv)
	if err != nil {
		return nil, err
	}
	s, err := zkconn.Open(zkconn.Config{Servers: servers, Timeout: timeout, NoEvents: true, Auth: credentials(opt.Credentials), Secure: secured})
	if err != nil {
		return nil, err
	}
	c := &Client{s}
	if err = s.Ready(ctx); err == nil && len(opt.Credentials) > 0 {
		err = zkconn.Exec(ctx, s, zkconn.Sync("/")) // is answered behind them
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Session returns the present session of the client, which makes Client a zklock.Conn:
// use zklock.New for locks with a note, an ACL or another family of names. A program can
// also send requests of its own in it, such as a Multi that checks the znode of a lock.
func (c *Client) Session(ctx context.Context) (zklock.Session, error) { return c.s.Ensemble().Pin(ctx) }

// Mutex returns a lock on a path, which is created if it does not exist: the same lock
// as Curator's InterProcessMutex and go-zookeeper's Lock. Nothing is sent yet.
func (c *Client) Mutex(path string) *zklock.Lock { return zklock.New(c, path, zklock.Options{}) }

// RWMutex returns a lock that readers can hold together, with RLock and RDo: the same lock
// as Curator's InterProcessReadWriteLock. Nothing is sent yet.
func (c *Client) RWMutex(path string) *zklock.Lock {
	return zklock.New(c, path, zklock.Options{Family: zklock.RW})
}

// Close ends the session, and with it all of its locks, whose contexts are cancelled. It
// waits at most 5 s for a server. If no server can be reached, the locks become free when
// the session times out.
func (c *Client) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return c.s.Close(ctx)
}
