// Package zkconn is one ZooKeeper session of a shell: each operation, its answer and its
// outcome, watches and events. Its connections are in the package wire. A request that was
// surely not sent has another error than one of which it is unknown whether it took effect,
// and none that is meant for one session runs in another.
package zkconn

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"math"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/zksh/zksh/internal/secure"
	"github.com/zksh/zksh/internal/zkconn/wire"
)

// Config says how to connect. Timeout is the session timeout asked for; it also
// bounds the search for a server.
type Config struct {
	Servers  string // connect string, see ParseServers
	Timeout  time.Duration
	ReadOnly bool         // accept a server that lost its quorum
	NoEvents bool         // nobody takes Events: they are dropped
	WaitOnce bool         // requests wait longer for a lost server, see NoServerError.Final
	Auth     []Credential // sent before anything else
	Secure   secure.Config

	Cluster string // the name of the ensemble, which begins with ClusterMark; empty if it has none
	Writes  Writes // empty: allowed

	MaxRequest int // size in bytes of the largest request that is sent; 0: UsualMaxRequest
	// Resolve gives the configuration for another connect string or cluster. Nil: the
	// present one serves, but for its credentials, and no cluster is known.
	Resolve func(spec string) (Config, error)

	dial func(ctx context.Context, network, addr string) (net.Conn, error) // nil is net.Dialer's; for tests
	tap  func(net.Conn) net.Conn                                           // nil: none; above TLS

	waiting *wire.Memory // the replies in memory, of all sessions that begin with this one
}

// Session is the shell's one connection to one ensemble at a time. It outlives
// reconnects, expiry, Close and Connect. Its methods may be called from any
// goroutine, but only one may call Connect at a time.
type Session struct {
	Client // requests on paths below the chroot

	fence  Fence // nil without one
	events *eventQueue
	link   atomic.Pointer[link] // the present one
}

// Open starts to connect and returns at once; requests wait for the connection.
// It fails only if the connect string is malformed.
func Open(cfg Config) (*Session, error) {
	s := &Session{events: &eventQueue{drop: cfg.NoEvents, ready: make(chan struct{}, 1)}}
	s.Client = Client{s: s}
	cfg.waiting = cmp.Or(cfg.waiting, new(wire.Memory))
	servers, err := ParseServers(cfg.Servers)
	if err != nil {
		return nil, err
	}
	l, err := newLink(servers, cfg, s.events)
	if err != nil {
		return nil, err
	}
	s.link.Store(l)
	return s, nil
}

// Another starts one more session with the same ensemble, as s is configured and
// authenticated now, but for its timeout. Nobody takes its events. Each of its
// connections goes through tap.
func (s *Session) Another(timeout time.Duration, tap func(net.Conn) net.Conn) (*Session, error) {
	cfg := s.asNow()
	cfg.Timeout, cfg.NoEvents, cfg.tap = timeout, true, tap
	return Open(cfg)
}

// Second starts one more session, as s is configured and authenticated now, for events
// of its own.
func (s *Session) Second() (*Session, error) {
	cfg := s.asNow()
	cfg.NoEvents = false
	return Open(cfg)
}

// Elsewhere starts one more session: with what a connect string or a cluster names, as
// Connect would. Its writes are fenced as those of s are, and nobody takes its events.
func (s *Session) Elsewhere(spec string) (*Session, error) {
	cfg, err := s.asNow().to(spec)
	if err != nil {
		return nil, err
	}
	cfg.NoEvents = true
	next, err := Open(cfg)
	if err == nil && s.fence != nil {
		next.fence = s.fence.For(next)
	}
	return next, err
}

// asNow is the Config with which s would be what it is now.
func (s *Session) asNow() Config {
	l := s.current()
	cfg := l.cfg
	cfg.Auth = look(l, func() []Credential { return slices.Clone(l.creds) })
	cfg.WaitOnce = false // which is the Session's own
	return cfg
}

func (s *Session) current() *link { return s.link.Load() }

// Digests returns the ids, user:hash, of the digest credentials that the session has.
func (s *Session) Digests() (ids []string) {
	l := s.current()
	for _, c := range look(l, func() []Credential { return slices.Clone(l.creds) }) {
		if user, _, ok := strings.Cut(string(c.Auth), ":"); ok && c.Scheme == "digest" {
			sum := sha1.Sum(c.Auth)
			ids = append(ids, user+":"+base64.StdEncoding.EncodeToString(sum[:]))
		}
	}
	return ids
}

// Connect closes the session, if it is open, and starts a new one with the given
// connect string or cluster, or with the current one when it is empty. Watches and
// the credentials of AddAuth stay behind, and those of the Config, SASL's as well, do
// unless the ensemble stays the same. What the Config says of TLS holds for other
// connect strings, but not for a cluster, which has its own. A malformed connect
// string, or a cluster that cannot be made out, changes nothing.
func (s *Session) Connect(ctx context.Context, spec string) error {
	last := s.current()
	cfg, err := last.cfg.to(spec)
	if err != nil {
		return err
	}
	if end := last.wire.Status().Ending; end != nil && errors.Is(end.Why, AuthFailed) && cfg.Cluster == last.cfg.Cluster && cfg.Servers == last.cfg.Servers {
		cfg.Auth, cfg.Secure.SASL = nil, nil
	}
	servers, err := ParseServers(cfg.Servers)
	if err != nil {
		return err
	}
	closeErr := last.stop(ctx)
	next, err := newLink(servers, cfg, s.events)
	if err != nil {
		return err
	}
	s.link.Store(next)
	return closeErr
}

// Close ends the session on the server, so that its ephemeral znodes vanish at
// once, and closes the connection.
func (s *Session) Close(ctx context.Context) error { return s.current().stop(ctx) }

// Ready waits until there is a session to send requests in, or no server of the
// list can be reached.
func (s *Session) Ready(ctx context.Context) error {
	_, err := s.current().await(ctx, "", false)
	return err
}

// WaitReady waits until there is a session, trying again and again until ctx ends.
func (s *Session) WaitReady(ctx context.Context) error {
	_, err := s.current().await(ctx, "", true)
	return err
}

// Live is false once the session was closed, or lost to an authentication failure.
func (s *Session) Live() bool {
	st := s.State()
	return st != StateClosed && st != StateAuthFailed
}

// Gone is why Live is false, which is what a request would be answered; nil if it is true.
func (s *Session) Gone() error {
	return gone(s.current().wire.Status())
}

// State is the state as the prompt shows it.
func (s *Session) State() State {
	return stateOf(s.current().wire.Status())
}

// Cluster is the name of the ensemble, with its ClusterMark; empty if it has none.
func (s *Session) Cluster() string { return s.current().cfg.Cluster }

// Writes says whether the ensemble may be written to.
func (s *Session) Writes() Writes { return s.current().cfg.Writes }

// Secure is how the session connects.
func (s *Session) Secure() secure.Config { return s.current().cfg.Secure }

// Servers is the connect string in use, as it was given.
func (s *Session) Servers() Servers { return s.current().servers }

// Info is what is known of the session on the server's side.
type Info struct {
	ID          int64
	Timeout     time.Duration // negotiated; asked for, before the first connection
	Patience    time.Duration // how long to wait for an answer that is expected at once
	Addr        string        // of the server; empty while disconnected
	Since       time.Time     // when the connection to it was asked for
	LastContact time.Time     // when the latest request that was answered had been sent

	Agreed *secure.Agreed // nil without TLS, and while disconnected
}

// Info describes the session.
func (s *Session) Info() Info {
	now := s.current().wire.Status()
	i := Info{ID: now.ID, Timeout: now.Timeout, Patience: now.Patience, LastContact: now.LastSent}
	if k := now.Conn; k != nil {
		i.Addr, i.Since, i.Agreed = k.Server, k.Asked, k.Agreed
	}
	return i
}

// Events takes the events that have come in, oldest first.
func (s *Session) Events() []Event { return s.events.take(math.MaxInt) }

// EventsBefore takes those that had come in before the answer of a Trip.
func (s *Session) EventsBefore(t *Trip) []Event { return s.events.take(t.events) }

// Unreached is why no server has been reached since there was a connection, once, if
// none can be: the session goes on trying. EventsReady tells of it as well.
func (s *Session) Unreached() error {
	l := s.current()
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.unreached
	l.unreached = nil
	return err
}

// EventsReady receives a value after events have come in.
func (s *Session) EventsReady() <-chan struct{} { return s.events.ready }

// AddAuth authenticates the session and remembers the credential for
// reconnects, in memory only. A nil auth sends none. When the server refuses it,
// the session is lost: State becomes StateAuthFailed.
func (s *Session) AddAuth(ctx context.Context, scheme string, auth []byte) error {
	err := Exec(ctx, s, addAuth(Credential{scheme, auth}))
	if errors.As(err, new(*Error)) && !errors.Is(err, SessionExpired) {
		return refused(scheme)
	}
	return err
}

// FourLetter sends a four-letter command (ruok, srvr, …) to a server on a connection of its own,
// and returns the complete reply or none. It uses TLS if the session does.
func (s *Session) FourLetter(ctx context.Context, addr, word string) (string, error) {
	return s.current().wire.FourLetter(ctx, addr, word)
}

// Absolute gives requests on server paths, for what a server reads outside any
// chroot, such as quotas.
func (s *Session) Absolute() Client { return Client{s: s, absolute: true} }

// ServerPath is a path as the server knows it, with the chroot before it.
func (s *Session) ServerPath(path string) string { return s.current().root.server(path) }

// ClientPath is a server's path without the chroot.
func (s *Session) ClientPath(path string) string { return s.current().root.client(path) }
