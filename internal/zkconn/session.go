// Package zkconn is zksh's ZooKeeper client: sessions, operations, outcomes, watches and events.
//
// Open returns a Session. A constructor such as GetData or Create returns an operation, an Op,
// and Do or Exec sends it. A Pipe sends many at once, a Transaction sends several as one, and a
// Pinned sends in one session only, for locks. Errors tell a request that was not sent from one
// whose outcome is unknown, and a request that was made for one session never runs in another.
//
// Begin reading with op.go, read.go and write.go (operations), then send.go (one request from Do
// to its answer) and link.go (what is remembered of a session). Connections are in package wire.
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

// Config is how to connect. Timeout is the requested session timeout, which also bounds the
// search for a server.
type Config struct {
	Servers  string // connect string, see ParseServers
	Timeout  time.Duration
	ReadOnly bool         // accept a server that lost its quorum
	NoEvents bool         // drop events instead of keeping them for Events
	WaitOnce bool         // requests wait longer for a lost server, see NoServerError.Final
	Auth     []Credential // sent before any other request
	Secure   secure.Config

	Cluster string // the name of the ensemble, which begins with ClusterMark; empty if it has none
	Writes  Writes // empty: allowed

	MaxRequest int // size in bytes of the largest request that is sent; 0: UsualMaxRequest
	// Resolve returns the configuration for another connect string or cluster. If it is nil,
	// connect strings use the current one without its credentials, and clusters are unknown.
	Resolve func(spec string) (Config, error)

	dial func(ctx context.Context, network, addr string) (net.Conn, error) // replaces net.Dialer in tests; nil otherwise
	tap  func(net.Conn) net.Conn                                           // wraps each connection, above TLS; may be nil

	waiting *wire.Memory // counts the replies in memory, of this session and those opened from it
}

// A Session is a connection to one ensemble at a time. It survives reconnects, session expiry,
// Close and Connect. Its methods may be called from any goroutine, but only one goroutine may
// call Connect at a time.
type Session struct {
	Client // sends operations on paths below the chroot

	fence  Fence // of all writes; nil if there is none
	events *eventQueue
	link   atomic.Pointer[link] // replaced by Connect
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

// Another opens a second session on the same ensemble, with the current configuration and
// credentials of s but another timeout. It drops events. tap wraps each of its connections.
func (s *Session) Another(timeout time.Duration, tap func(net.Conn) net.Conn) (*Session, error) {
	cfg := s.currentConfig()
	cfg.Timeout, cfg.NoEvents, cfg.tap = timeout, true, tap
	return Open(cfg)
}

// Second opens a second session on the same ensemble, with the current configuration and
// credentials of s. It has its own Events.
func (s *Session) Second() (*Session, error) {
	cfg := s.currentConfig()
	cfg.NoEvents = false
	return Open(cfg)
}

// Elsewhere opens a second session on the ensemble of a connect string or cluster, with the
// configuration that Connect would use. Its writes are fenced like those of s. It drops events.
func (s *Session) Elsewhere(spec string) (*Session, error) {
	cfg, err := s.currentConfig().forSpec(spec)
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

// currentConfig returns the Config of s with the credentials that it has now.
func (s *Session) currentConfig() Config {
	l := s.current()
	cfg := l.cfg
	cfg.Auth = underLock(l, func() []Credential { return slices.Clone(l.creds) })
	cfg.WaitOnce = false // a setting of s alone
	return cfg
}

func (s *Session) current() *link { return s.link.Load() }

// Digests returns the ids (user:hash) of the session's digest credentials.
func (s *Session) Digests() (ids []string) {
	l := s.current()
	for _, c := range underLock(l, func() []Credential { return slices.Clone(l.creds) }) {
		if user, _, ok := strings.Cut(string(c.Auth), ":"); ok && c.Scheme == "digest" {
			sum := sha1.Sum(c.Auth)
			ids = append(ids, user+":"+base64.StdEncoding.EncodeToString(sum[:]))
		}
	}
	return ids
}

// Connect closes the session, if it is open, and starts a new one with the given connect string
// or cluster, or with the current one if spec is empty. It drops watches and the credentials of
// AddAuth. It keeps the credentials of the Config, SASL's included, only if the ensemble stays
// the same. The TLS settings also apply to other connect strings, but a cluster has its own.
// After a malformed connect string or an unknown cluster, the old session stays open.
func (s *Session) Connect(ctx context.Context, spec string) error {
	last := s.current()
	cfg, err := last.cfg.forSpec(spec)
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

// Close ends the session on the server, so that its ephemeral znodes are deleted at once, and
// closes the connection.
func (s *Session) Close(ctx context.Context) error { return s.current().stop(ctx) }

// Ready waits until there is a session. It returns an error once all servers of the list have
// been tried in vain.
func (s *Session) Ready(ctx context.Context) error {
	_, err := s.current().await(ctx, "", false)
	return err
}

// WaitReady waits until there is a session, and tries the servers again until ctx ends.
func (s *Session) WaitReady(ctx context.Context) error {
	_, err := s.current().await(ctx, "", true)
	return err
}

// Live reports whether the Session is open: neither closed nor ended by rejected credentials.
func (s *Session) Live() bool {
	st := s.State()
	return st != StateClosed && st != StateAuthFailed
}

// Gone returns the error that every request gets because Live is false; nil if it is true.
func (s *Session) Gone() error {
	return gone(s.current().wire.Status())
}

// State returns the state of the connection, as the prompt shows it.
func (s *Session) State() State {
	return stateOf(s.current().wire.Status())
}

// Cluster returns the name of the ensemble, with its ClusterMark; empty if it has none.
func (s *Session) Cluster() string { return s.current().cfg.Cluster }

// Writes returns whether writes to the ensemble are allowed.
func (s *Session) Writes() Writes { return s.current().cfg.Writes }

// Secure returns the TLS and SASL settings.
func (s *Session) Secure() secure.Config { return s.current().cfg.Secure }

// Servers returns the connect string in use.
func (s *Session) Servers() Servers { return s.current().servers }

// Info describes the session and its connection.
type Info struct {
	ID          int64
	Timeout     time.Duration // negotiated; before the first connection, the requested one
	Patience    time.Duration // how long to wait for an answer that is expected at once
	Addr        string        // of the server; empty while disconnected
	Since       time.Time     // when the connect request to it was sent
	LastContact time.Time     // send time of the latest request that was answered

	Agreed *secure.Agreed // nil without TLS, and while disconnected
}

// Info returns the current Info.
func (s *Session) Info() Info {
	now := s.current().wire.Status()
	i := Info{ID: now.ID, Timeout: now.Timeout, Patience: now.Patience, LastContact: now.LastSent}
	if k := now.Conn; k != nil {
		i.Addr, i.Since, i.Agreed = k.Server, k.Asked, k.Agreed
	}
	return i
}

// Events removes and returns the events that have been received, oldest first.
func (s *Session) Events() []Event { return s.events.take(math.MaxInt) }

// EventsBefore removes and returns the events that were received before a Trip's answer.
func (s *Session) EventsBefore(t *Trip) []Event { return s.events.take(t.events) }

// Unreached returns a *NoServerError, once, after the connection was lost and no server of the
// list could be reached. The session continues to try. EventsReady announces this error, too.
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

// AddAuth authenticates the session and keeps the credential in memory for reconnects. A nil
// auth is sent as null. If the server rejects the credential, the session ends and State
// becomes StateAuthFailed.
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

// Absolute returns a Client whose paths include the chroot, for znodes outside it such as quotas.
func (s *Session) Absolute() Client { return Client{s: s, absolute: true} }

// ServerPath returns the server's path: the chroot and path.
func (s *Session) ServerPath(path string) string { return s.current().root.server(path) }

// ClientPath returns a server's path without the chroot.
func (s *Session) ClientPath(path string) string { return s.current().root.client(path) }
