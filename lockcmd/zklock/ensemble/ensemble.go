// Package ensemble connects Go programs to a ZooKeeper ensemble, so that they can use the
// locks of package zklock. It uses the connection layer of zksh.
//
// Begin with [Dial], [Client.Mutex] and the method Do of the lock; the examples show them.
//
// This package and package zklock are the only packages of this module that are meant to be
// imported. Their exported names follow semantic versioning.
//
// # Guarantees
//
// From ZooKeeper's point of view, two owners that exclude each other never hold a lock at the
// same time. The other owner may be a command of zksh, or a client of Curator, go-zookeeper or
// kazoo, if the lock's family uses their znode names.
//
// Contenders get the lock in the order in which they arrived, across lost connections. A
// contender whose session ends joins the queue again.
//
// The context that Do passes to its function is canceled when the lease ends, with
// zklock.ErrLost as its cause, before ZooKeeper grants the lock to another client. The
// documentation of package zklock explains how the end of the lease is computed, and lists
// the faults that no client can detect.
//
// A lock is released when Do returns, when its lease is released, and when Close ends the
// session. If the program dies, the lock is released when the session times out. No znode of
// an abandoned attempt remains.
//
// # Limits
//
// The context ends when the lease ends, not before, and does not stop anything itself. After
// that, the following may continue without the lock:
//
//   - code that does not check the context, or is in the middle of a call
//   - a process that was stopped, or a machine that was asleep, until it checks the context
//   - a packet in transit
//
// ClickHouse Keeper ends a session when its connection ends. The context then ends when the
// disconnect is noticed, and another client may already hold the lock.
//
// Lease.Left returns the time for which the lock is certain to be held. Data that must never
// have two writers needs a store that checks the token: each new holder gets a larger token,
// and the store rejects a token that is smaller than the last.
//
// A zklock.Lock belongs to one owner: goroutines that share a Lock do not exclude each other.
// Goroutines that must exclude each other need a Lock each, and may share the Client.
//
// # Why not a bare *zk.Conn
//
// No adapter from go-zookeeper's connection to zklock.Conn can be correct:
//
//   - It reports neither the negotiated timeout nor the time at which an answered ping was
//     sent, so the end of a lease cannot be computed.
//   - Its requests take no context, and wait as long as there is no connection.
//   - Its watches cannot be removed, so every abandoned wait leaves a watch behind.
//   - Requests that are queued when the session expires may run in the next session. The
//     znode of a lock then stays, although no client waits for it.
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

// Options configure a connection. The zero value connects without credentials and without
// TLS, and requests a session timeout of 30 s.
type Options struct {
	// Timeout is the session timeout to request, from 1 ms to about 24 days. Zero means
	// 30 s. The server may choose another timeout. When a program dies, its locks
	// become free after this time. Use at least 10 s.
	Timeout time.Duration
	// Credentials authenticate the session, and every later session of the client. They
	// are sent on every connection.
	Credentials []Credential
	// Secure holds the settings for TLS and SASL. They apply only to Dial: if the program
	// starts zksh as a command, that command needs its own options.
	Secure Secure
}

// Secure holds the settings for TLS and SASL. The zero value uses neither. Each field
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
	// PKCS12 or JKS format. The default is to trust the authorities of the system.
	CACert string
	// Cert is the name of a file with the certificate of this program, in PEM, PKCS12 or
	// JKS format. The default is to present none. The file also contains the private
	// key, unless Key is set.
	Cert string
	// Key is the name of a PEM file with the private key of Cert. Key requires Cert.
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
	// DIGEST-MD5 or Kerberos. The default is the JAAS file of the client configuration, if it names
	// one, or no SASL.
	JAAS string
	// Kerberos turns on SASL with the ticket cache of Kerberos. It takes precedence over
	// JAAS. Renew the ticket with kinit before it ends: after that, the client cannot
	// reconnect, and so loses its locks when the connection is lost. Client.TicketEnd returns
	// that time. A keytab, set in JAAS, needs no renewal.
	Kerberos bool
}

// Credential identifies a client to ZooKeeper, as addauth does in zkCli.
type Credential struct {
	// Scheme is the authentication scheme, such as "digest".
	Scheme string
	// Auth is the scheme's data: "user:password" for digest. It can be nil for a scheme
	// that needs none.
	Auth []byte
}

// credentials converts a list of credentials to the type of package zkconn.
func credentials(list []Credential) []zkconn.Credential {
	creds := make([]zkconn.Credential, len(list))
	for i, c := range list {
		creds[i] = zkconn.Credential(c)
	}
	return creds
}

// ErrClosed is returned when a lock is requested after Close.
var ErrClosed = zkconn.ErrNotConnected

// A Client is a connection to one ensemble, maintained until Close. Its methods are safe
// for concurrent use.
type Client struct{ s *zkconn.Session }

// Dial connects to one of the servers. The list of servers has the form
// host[:port][,host[:port]…][/chroot], as in zkCli; the default port is 2181. Dial fails if a
// file of Options.Secure cannot be used, if a credential is rejected, if no server can be
// reached within Options.Timeout, or when ctx ends.
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
		err = zkconn.Exec(ctx, s, zkconn.Sync("/")) // waits until the server has accepted or rejected the credentials
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Session returns the current session of the client. It makes Client a zklock.Conn: pass the
// client to zklock.New for locks with data, an ACL or another family. A program can also use
// the session for its own requests, such as a Multi that checks the znode of a lock.
func (c *Client) Session(ctx context.Context) (zklock.Session, error) {
	return Pin(ctx, c.s.Ensemble())
}

// Mutex returns a lock on a path, which is created if it does not exist. It is the same lock
// as Curator's InterProcessMutex and go-zookeeper's Lock. Mutex sends nothing to the server.
func (c *Client) Mutex(path string) *zklock.Lock { return zklock.New(c, path, zklock.Options{}) }

// RWMutex returns a lock that several readers can hold at the same time, with RLock or RDo.
// It is the same lock as Curator's InterProcessReadWriteLock. RWMutex sends nothing to the
// server.
func (c *Client) RWMutex(path string) *zklock.Lock {
	return zklock.New(c, path, zklock.Options{Family: zklock.RW})
}

// Semaphore returns a semaphore with n leases on a path. It is the same semaphore as Curator's
// InterProcessSemaphoreV2; all participants must use the same n. Semaphore sends nothing to the
// server.
func (c *Client) Semaphore(path string, n int) *zklock.Semaphore {
	return zklock.NewSemaphore(c, path, n, zklock.Options{})
}

// Owned returns a lock that belongs to an owner, which can be any name, and not to this
// client: the owner holds it until Unlock, also after Close and when the program ends. It
// excludes the same clients as Mutex. Owned sends nothing to the server.
func (c *Client) Owned(path, owner string) *zklock.Owned {
	return zklock.NewOwned(c, path, owner, zklock.Options{Data: []byte("owner " + owner)})
}

// TicketEnd returns the time at which the Kerberos ticket of the client ends. After that time, the
// client cannot reconnect, and so loses its locks when the connection is lost, unless kinit has
// renewed the ticket before. TicketEnd then returns the end of the new ticket. It returns the zero
// Time if the client gets new tickets by itself, is not connected, or does not use Kerberos. It
// sends nothing to the server, but can read the ticket cache.
func (c *Client) TicketEnd() time.Time {
	id := c.s.Info().Identity
	if id == nil || id.Renews {
		return time.Time{}
	}
	return id.LastEnd()
}

// Close ends the session, and with it all of its locks, whose contexts are canceled. It
// waits at most 5 s for a server. If no server can be reached, the locks become free when
// the session times out.
func (c *Client) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return c.s.Close(ctx)
}
