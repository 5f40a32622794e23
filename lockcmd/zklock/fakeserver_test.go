package zklock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zktest"
)

// sessionTimeout is the session timeout of these tests, and roundTrip the time of a round
// trip.
const (
	sessionTimeout = 30 * time.Second
	roundTrip      = 10 * time.Millisecond
)

// fakeServer is one session with a server that a test controls, in virtual time. It answers
// pings as long as there is a connection.
type fakeServer struct {
	*testing.T
	mu            sync.Mutex
	begun         time.Time     // begin of the connection; zero without one
	answeredSends []time.Time   // send times of answered requests and pings, on this connection
	changed       chan struct{} // SessionState.Changed
	over          chan struct{} // closed when the session ends

	guards             int      // number of calls of Guard that were not released
	standalone         bool     // the server is not a member of an ensemble
	endsWithConnection bool     // the session ends with its connection
	cutOff             bool     // no leader: answers pings and reads, but no sync and no transaction
	checkError         error    // result of checks
	requestLog         []string // requests since the last call of requests
	ahead              []string // children besides our own
	ownPath            string   // path of our own znode
	ownNumber          int64    // number of our own znode; 0 means 9
	deleted            bool     // our own znode was deleted
	unreadable         bool     // our own znode cannot be read
	watches            map[string]chan<- zk.EventType
	afterGet           func(path string) // called after a znode was read; may be nil
}

func newFakeServer(t *testing.T) *fakeServer {
	s := &fakeServer{T: t, changed: make(chan struct{}), over: make(chan struct{}), watches: map[string]chan<- zk.EventType{}}
	s.connect()
	return s
}

// play runs a test in virtual time, with a lock on a new connection.
func play(t *testing.T, test func(s *fakeServer, l *Lock)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer(t)
		test(s, New(s, "/lock", Options{}))
		close(s.over) // a lock that is still held is lost now
		time.Sleep(sessionTimeout)
	})
}

// locked calls change while it holds s.mu.
func (s *fakeServer) locked(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// connect begins a new connection.
func (s *fakeServer) connect() {
	s.locked(func() { s.begun, s.answeredSends = time.Now(), nil; s.notify() })
}

// disconnect ends the connection.
func (s *fakeServer) disconnect() { s.locked(func() { s.begun = time.Time{}; s.notify() }) }

// notify closes the channel Changed of the last State. The caller holds s.mu.
func (s *fakeServer) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// pings sleeps for d, and sends a ping every third of the session timeout, as the library
// does.
func (s *fakeServer) pings(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		s.locked(func() { s.answeredSends = append(s.answeredSends, time.Now()) })
		time.Sleep(min(sessionTimeout/3, time.Until(end)))
	}
}

// request records a request, waits for a round trip, and returns an error if the connection
// has changed meanwhile.
func (s *fakeServer) request(ctx context.Context, what string, write bool) error {
	var begun time.Time
	var hang bool
	s.locked(func() {
		begun, hang = s.begun, s.cutOff && write
		s.requestLog = append(s.requestLog, what)
	})
	sent := time.Now()
	if begun.IsZero() {
		return zk.ErrConnectionClosed
	}
	if hang {
		select {
		case <-ctx.Done():
		case <-nextChange(s):
		}
		return zk.ErrConnectionClosed
	}
	time.Sleep(roundTrip)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun.Equal(begun) {
		return zk.ErrConnectionClosed
	}
	s.answeredSends = append(s.answeredSends, sent)
	return ctx.Err()
}

// requests returns the requests since the last call.
func (s *fakeServer) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.requestLog
	s.requestLog = nil
	return asked
}

func (s *fakeServer) Session(context.Context) (Session, error) { return s, nil }
func (s *fakeServer) Ended() <-chan struct{}                   { return s.over }

func (s *fakeServer) Guard() func() {
	s.locked(func() { s.guards++ })
	return func() { s.locked(func() { s.guards-- }) }
}

// State implements Session. An answer comes a round trip after its request.
func (s *fakeServer) State(by time.Time) SessionState {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := SessionState{ID: 1, Timeout: sessionTimeout, Connected: !s.begun.IsZero(), Begun: s.begun, Sent: s.begun, Came: by,
		EndsWithConnection: s.endsWithConnection, Changed: s.changed}
	for _, h := range s.answeredSends {
		if !h.Add(roundTrip).After(by) && h.After(st.Sent) {
			st.Sent, st.Came = h, h.Add(roundTrip)
		}
	}
	return st
}

func (s *fakeServer) Standalone(context.Context) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.standalone, nil
}

func (s *fakeServer) Await(ctx context.Context) error {
	for !isConnected(s) {
		select {
		case <-nextChange(s):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (s *fakeServer) CreateAndList(ctx context.Context, req *zk.CreateRequest, dir string) (
	string, int64, []string, error) {
	if err := s.request(ctx, "create", true); err != nil {
		return "", 0, nil, err
	}
	s.ownPath, s.deleted = fmt.Sprintf("%s%010d", req.Path, cmp.Or(s.ownNumber, 9)), false
	return s.ownPath, 9, s.children(dir), nil
}

func (s *fakeServer) Children(ctx context.Context, dir string, _ chan<- zk.EventType) ([]string, error) {
	if err := s.request(ctx, "list", false); err != nil {
		return nil, err
	}
	return s.children(dir), nil
}

func (s *fakeServer) children(dir string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := slices.Clone(s.ahead)
	if !s.deleted {
		names = append(names, s.ownPath[len(dir)+1:])
	}
	return names
}

// fire sends an event of a znode to its watch, if there is one.
func (s *fakeServer) fire(path string, what zk.EventType) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if wake := s.watches[path]; wake != nil {
		wake <- what
	}
	delete(s.watches, path)
}

func (s *fakeServer) Multi(ctx context.Context, ops ...any) error {
	if _, ok := ops[0].(*zk.DeleteRequest); ok {
		return s.request(ctx, "delete", true)
	}
	if err := s.request(ctx, "check", true); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checkError
}

func (s *fakeServer) Sync(ctx context.Context, _ string) error {
	return s.request(ctx, "sync", true)
}

func (s *fakeServer) CreateContainer(ctx context.Context, _ string, _ []zk.ACL) error {
	return s.request(ctx, "container", true)
}

func (s *fakeServer) Get(ctx context.Context, path string, wake chan<- zk.EventType) ([]byte, *zk.Stat, error) {
	err := s.request(ctx, "get", false)
	if s.afterGet != nil {
		defer s.afterGet(path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
	case errors.Is(s.checkError, zk.ErrNoNode):
		err = s.checkError
	case s.unreadable && path == s.ownPath:
		err = zk.ErrNoAuth
	default:
		s.watches[path] = wake
	}
	return nil, &zk.Stat{}, err
}

func (s *fakeServer) Exists(ctx context.Context, path string) (*zk.Stat, error) {
	return &zk.Stat{}, s.request(ctx, "exists", false)
}

func (s *fakeServer) Unwatch(path string, _ chan<- zk.EventType) {
	s.locked(func() { delete(s.watches, path) })
}

// mustLock acquires the lock.
func (s *fakeServer) mustLock(l *Lock) *Lease {
	s.Helper()
	lease, err := l.Lock(s.Context())
	zktest.Must(s, err)
	return lease
}

func (s *fakeServer) release(lease *Lease) {
	s.Helper()
	zktest.Check(s, lease.Unlock(context.Background()))
}

// expectRequests checks the requests since the last call of requests.
func (s *fakeServer) expectRequests(want ...string) {
	s.Helper()
	if got := s.requests(); !slices.Equal(got, want) {
		s.Errorf("sent %v, want %v", got, want)
	}
}
