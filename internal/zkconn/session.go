// Package zkconn is zksh's ZooKeeper client: sessions, operations, outcomes, watches and events.
//
// Open returns a Session. A constructor such as GetData or Create returns an operation, an Op,
// which Do or Exec sends. A Pipe sends many operations without waiting for each answer. A
// Transaction sends several operations as one request. A Pinned sends operations in one session
// only, for locks. Errors distinguish a request that was not sent from one whose outcome is
// unknown. A request that was made for one session never runs in another.
//
// Begin reading with op.go, read.go and write.go (operations) and newer.go (the operations that old
// servers do not know), then send.go (a request from Do to its answer) and link.go (the record of a
// session's state). Connections are in package wire.
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

// Config contains the settings of a Session. The field Timeout is the requested session timeout,
// which also limits how long zksh searches for a server.
type Config struct {
	Servers  string // connect string, see ParseServers
	Timeout  time.Duration
	ReadOnly bool         // accept a server that has lost its quorum
	NoEvents bool         // whether to drop events instead of storing them for Events
	WaitOnce bool         // whether requests wait longer for a lost server, and then all fail; see NoServerError.Final
	Auth     []Credential // credentials that are sent before any other request
	Secure   secure.Config
	Proxy    string // URL of a SOCKS5 proxy for all connections, which may contain a password; empty if there is none

	Cluster string // name of the ensemble, which begins with ClusterMark; empty if it has no name
	Writes  Writes // whether writes are allowed; empty means WritesAllowed

	MaxRequest int // size of the largest request that is sent, in bytes; 0 means UsualMaxRequest
	// Resolve returns the configuration for another connect string or cluster name. If it is
	// nil, other connect strings use this configuration without its credentials, and all
	// cluster names are unknown.
	Resolve func(ctx context.Context, spec string) (Config, error)

	dial func(ctx context.Context, network, addr string) (net.Conn, error) // replaces net.Dialer in tests; nil otherwise

	// Tracer observes the traffic from the first connection on, or is nil. Sessions that are opened
	// from this one have no Tracer.
	Tracer Tracer

	waiting *wire.Memory // counts the bytes of replies in memory, for this Session and those opened from it
}

// A Session is the client of one ensemble at a time. It remains usable after reconnects and
// session expiry, and Connect opens it again after Close. Its methods may be called from any
// goroutine, but only one goroutine may call Connect at a time.
type Session struct {
	Client // sends operations on paths below the chroot

	fence   Fence // the Fence of all writes; nil if there is none
	events  *eventQueue
	tracing wire.Tracing
	link    atomic.Pointer[link] // client of the current ensemble; replaced by Connect
}

// Open returns a Session that starts to connect. It returns at once, and requests wait for the
// connection. It returns an error only if the connect string is malformed.
func Open(cfg Config) (*Session, error) {
	s := &Session{events: &eventQueue{drop: cfg.NoEvents, ready: make(chan struct{}, 1)}}
	s.Client = Client{s: s}
	cfg.waiting = cmp.Or(cfg.waiting, new(wire.Memory))
	servers, err := ParseServers(cfg.Servers)
	if err != nil {
		return nil, err
	}
	s.tracing.Set(cfg.Tracer)
	l, err := newLink(servers, cfg, s.events, &s.tracing)
	if err != nil {
		return nil, err
	}
	s.link.Store(l)
	return s, nil
}

// Another opens a second session on the same ensemble, with the current configuration and
// credentials of s but another timeout. The new session drops its events. t observes its traffic.
func (s *Session) Another(timeout time.Duration, t Tracer) (*Session, error) {
	cfg := s.currentConfig()
	cfg.Timeout, cfg.NoEvents, cfg.Tracer = timeout, true, t
	return Open(cfg)
}

// Second opens a second session on the same ensemble, with the current configuration and
// credentials of s. The new session has its own Events.
func (s *Session) Second() (*Session, error) {
	cfg := s.currentConfig()
	cfg.NoEvents = false
	return Open(cfg)
}

// Elsewhere opens a second session, on the ensemble that spec names: a connect string or a
// cluster name. It uses the same configuration as Connect would. If s has a Fence, the writes of
// the new session are fenced, too. The new session drops its events.
func (s *Session) Elsewhere(ctx context.Context, spec string) (*Session, error) {
	cfg, err := s.currentConfig().forSpec(ctx, spec)
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

// currentConfig returns the Config of s with the session's current credentials.
func (s *Session) currentConfig() Config {
	l := s.current()
	cfg := l.cfg
	cfg.Auth = underLock(l, func() []Credential { return slices.Clone(l.creds) })
	cfg.WaitOnce, cfg.Tracer = false, nil // these apply to s only, not to other sessions
	return cfg
}

func (s *Session) current() *link { return s.link.Load() }

// A Tracer observes the traffic of a Session.
type Tracer = wire.Tracer

// Trace makes t observe the traffic of s, in place of the present Tracer. It continues after
// reconnects and after Connect. If t is nil, nothing is traced any more.
func (s *Session) Trace(t Tracer) { s.tracing.Set(t) }

// Digests returns the ACL ids of the session's digest credentials, each as user:hash.
func (s *Session) Digests() (ids []string) {
	l := s.current()
	for _, c := range underLock(l, func() []Credential { return slices.Clone(l.creds) }) {
		if c.Scheme == "digest" && strings.Contains(string(c.Auth), ":") {
			ids = append(ids, Digest(string(c.Auth)))
		}
	}
	return ids
}

// Digest returns the ACL id of a digest credential: the user, a colon, and the base64 encoding of
// the SHA-1 hash of the credential. credential has the form user:password.
func Digest(credential string) string {
	user, _, _ := strings.Cut(credential, ":")
	sum := sha1.Sum([]byte(credential))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// Connect closes the session, if it is open, and starts a new one on the ensemble that spec
// names: a connect string or a cluster name. If spec is empty, it is the current ensemble. If
// spec is malformed or unknown, Connect returns an error and the old session stays open.
//
// The old session is closed even if ctx ends; ctx limits only how long Config.Resolve may take.
//
// The new session has neither the watches of the old one nor the credentials that AddAuth has
// added. It has the credentials of the Config, including those for SASL, only if the ensemble is
// the same. The TLS settings also apply to other connect strings, but a cluster has its own TLS
// settings.
func (s *Session) Connect(ctx context.Context, spec string) error {
	last := s.current()
	cfg, err := last.cfg.forSpec(ctx, spec)
	if err != nil {
		return err
	}
	if end := last.wire.Status().Ending; end != nil && errors.Is(end.Why, AuthFailed) && cfg.sameEnsemble(last.cfg) {
		cfg.Auth, cfg.Secure.SASL = nil, nil
	}
	servers, err := ParseServers(cfg.Servers)
	if err != nil {
		return err
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	closeErr := last.stop(closing)
	next, err := newLink(servers, cfg, s.events, &s.tracing)
	if err != nil {
		return err
	}
	s.link.Store(next)
	return closeErr
}

// closeLimit is how long Connect waits for the old session to be closed.
const closeLimit = 3 * time.Second

// Close closes the session on the server, which deletes the session's ephemeral znodes at once.
// It then closes the connection.
func (s *Session) Close(ctx context.Context) error { return s.current().stop(ctx) }

// Abandon ends the client without closing its session, as if its process had been killed. The servers
// expire the session after its timeout.
func (s *Session) Abandon() {
	l := s.current()
	l.wire.Abandon()
	l.forgetCreds()
}

// Ready waits until there is a session. It returns an error if ctx ends first, or if all servers
// of the list have been tried in vain.
func (s *Session) Ready(ctx context.Context) error {
	_, err := s.current().await(ctx, "", false)
	return err
}

// WaitReady waits until there is a session. Unlike Ready, it waits until ctx ends, while zksh
// tries the servers again and again.
func (s *Session) WaitReady(ctx context.Context) error {
	_, err := s.current().await(ctx, "", true)
	return err
}

// Live reports whether the Session is open. It is not open after Close, or after the server has
// rejected its credentials.
func (s *Session) Live() bool {
	st := s.State()
	return st != StateClosed && st != StateAuthFailed
}

// Gone returns the error that every request returns while Live is false, or nil while Live is
// true.
func (s *Session) Gone() error {
	return gone(s.current().wire.Status())
}

// State returns the state of the connection, which the prompt shows.
func (s *Session) State() State {
	return stateOf(s.current().wire.Status())
}

// Cluster returns the name of the ensemble, including the ClusterMark, or an empty string if it
// has no name.
func (s *Session) Cluster() string { return s.current().cfg.Cluster }

// Names reports whether spec, a connect string or a cluster name, names the session's ensemble.
func (s *Session) Names(spec string) bool { return s.current().cfg.names(spec) }

// Writes returns whether writes to the ensemble are allowed.
func (s *Session) Writes() Writes { return s.current().cfg.Writes }

// Secure returns the TLS and SASL settings.
func (s *Session) Secure() secure.Config { return s.current().cfg.Secure }

// Servers returns the current connect string, parsed.
func (s *Session) Servers() Servers { return s.current().servers }

// Info describes the session and its connection.
type Info struct {
	ID          int64
	Timeout     time.Duration // negotiated; before the first connection, the requested timeout
	Patience    time.Duration // longest time to wait for an answer that should arrive at once
	Addr        string        // address of the server; empty while disconnected
	Since       time.Time     // send time of the connect request to this server
	LastContact time.Time     // send time of the latest answered request

	Agreed   *secure.Agreed   // parameters of the TLS connection; nil without TLS and while disconnected
	Identity *secure.Identity // how Kerberos authenticated the connection; nil without Kerberos and while disconnected
}

// Info returns a snapshot of the session and its connection.
func (s *Session) Info() Info {
	now := s.current().wire.Status()
	i := Info{ID: now.ID, Timeout: now.Timeout, Patience: now.Patience, LastContact: now.LastSent}
	if k := now.Conn; k != nil {
		i.Addr, i.Since, i.Agreed, i.Identity = k.Server, k.Asked, k.Agreed, k.Identity
	}
	return i
}

// Events returns the events that have been received, oldest first, and removes them from the
// queue.
func (s *Session) Events() []Event { return s.events.take(math.MaxInt) }

// EventsBefore is like Events, but only for the events that were received before the answer to
// the request of t.
func (s *Session) EventsBefore(t *Trip) []Event { return s.events.take(t.events) }

// Unreached returns a *NoServerError if no server of the list could be reached since the last
// connection. It returns each such error only once, and nil otherwise. Meanwhile, the session
// continues to try the servers. The channel of EventsReady receives a value when there is a new
// error.
func (s *Session) Unreached() error {
	l := s.current()
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.unreached
	l.unreached = nil
	return err
}

// EventsReady returns a channel that receives a value after events have arrived.
func (s *Session) EventsReady() <-chan struct{} { return s.events.ready }

// AddAuth authenticates the session with a credential of the given scheme, and keeps the
// credential in memory for reconnects. A nil auth is sent as a null value. If the server rejects
// the credential, the session ends and its State becomes StateAuthFailed.
func (s *Session) AddAuth(ctx context.Context, scheme string, auth []byte) error {
	err := Exec(ctx, s, addAuth(Credential{scheme, auth}))
	if errors.As(err, new(*Error)) && !errors.Is(err, SessionExpired) {
		return refused(scheme)
	}
	return err
}

// FourLetter opens a new connection to the server at addr, sends it a four-letter command (ruok,
// srvr, …), and returns the reply. An incomplete reply is an error. The connection uses TLS if
// the session does.
func (s *Session) FourLetter(ctx context.Context, addr, command string) (string, error) {
	return s.current().wire.FourLetter(ctx, addr, command)
}
