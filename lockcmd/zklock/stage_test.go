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
)

// life is the session timeout of these tests, and trip the time of a round trip.
const (
	life = 30 * time.Second
	trip = 10 * time.Millisecond
)

// stageServer is one session with a server that does what a test says, in
// virtual time. Pings are answered as long as there is a connection.
type stageServer struct {
	*testing.T
	mu      sync.Mutex
	begun   time.Time // of the connection; zero without one
	heard   []time.Time
	changed chan struct{}
	over    chan struct{}

	guards  int
	alone   bool  // no ensemble
	tied    bool  // the session ends with its connection
	cutOff  bool  // from the leader: pings and reads are answered, no sync and no transaction
	refusal error // of checks
	asked   []string
	ahead   []string // children besides our own
	own     string   // path of our own znode
	number  int64    // of it, if not 9
	gone    bool     // it has been removed
	secret  bool     // it may not be read
	watches map[string]chan<- zk.EventType
	looked  func(path string) // called, if not nil, as a znode has been read
}

func newStageServer(t *testing.T) *stageServer {
	s := &stageServer{T: t, changed: make(chan struct{}), over: make(chan struct{}), watches: map[string]chan<- zk.EventType{}}
	s.connect()
	return s
}

// play runs a test in virtual time, with a lock on a fresh connection.
func play(t *testing.T, test func(s *stageServer, l *Lock)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newStageServer(t)
		test(s, New(s, "/lock", Options{}))
		close(s.over) // whatever is held is lost then
		time.Sleep(life)
	})
}

func (s *stageServer) with(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// connect begins a connection, and disconnect ends it.
func (s *stageServer) connect() {
	s.with(func() { s.begun, s.heard = time.Now(), nil; s.notify() })
}

func (s *stageServer) disconnect() { s.with(func() { s.begun = time.Time{}; s.notify() }) }

func (s *stageServer) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// pings lets time pass, with pings as the library sends them.
func (s *stageServer) pings(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		s.with(func() { s.heard = append(s.heard, time.Now()) })
		time.Sleep(min(life/3, time.Until(end)))
	}
}

// request takes what has been sent on the present connection, and reports whether
// it is still there when the answer comes.
func (s *stageServer) request(ctx context.Context, what string, write bool) error {
	var begun time.Time
	var hang bool
	s.with(func() {
		begun, hang = s.begun, s.cutOff && write
		s.asked = append(s.asked, what)
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
	time.Sleep(trip)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun.Equal(begun) {
		return zk.ErrConnectionClosed
	}
	s.heard = append(s.heard, sent)
	return ctx.Err()
}

// requests are those since they were asked for last.
func (s *stageServer) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

func (s *stageServer) Session(context.Context) (Session, error) { return s, nil }
func (s *stageServer) Ended() <-chan struct{}                   { return s.over }

func (s *stageServer) Guard() func() {
	s.with(func() { s.guards++ })
	return func() { s.with(func() { s.guards-- }) }
}

// State is part of Session: an answer comes a round trip after the request.
func (s *stageServer) State(by time.Time) SessionState {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := SessionState{ID: 1, Timeout: life, Connected: !s.begun.IsZero(), Begun: s.begun, Sent: s.begun, Came: by,
		EndsWithConnection: s.tied, Changed: s.changed}
	for _, h := range s.heard {
		if !h.Add(trip).After(by) && h.After(st.Sent) {
			st.Sent, st.Came = h, h.Add(trip)
		}
	}
	return st
}

func (s *stageServer) Standalone(context.Context) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alone, nil
}

func (s *stageServer) Await(ctx context.Context) error {
	for !isConnected(s) {
		select {
		case <-nextChange(s):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (s *stageServer) CreateAndList(ctx context.Context, reqs []*zk.CreateRequest, dir string) ([]string, int64, []string, error) {
	if err := s.request(ctx, "create", true); err != nil {
		return nil, 0, nil, err
	}
	s.own, s.gone = fmt.Sprintf("%s%010d", reqs[0].Path, cmp.Or(s.number, 9)), false
	return []string{s.own}, 9, s.children(dir), nil
}

func (s *stageServer) Children(ctx context.Context, dir string) ([]string, error) {
	if err := s.request(ctx, "list", false); err != nil {
		return nil, err
	}
	return s.children(dir), nil
}

func (s *stageServer) children(dir string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := slices.Clone(s.ahead)
	if !s.gone {
		names = append(names, s.own[len(dir)+1:])
	}
	return names
}

// event tells who has read a znode what happens to it.
func (s *stageServer) event(path string, what zk.EventType) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if wake := s.watches[path]; wake != nil {
		wake <- what
	}
	delete(s.watches, path)
}

func (s *stageServer) Multi(ctx context.Context, ops ...any) error {
	if _, ok := ops[0].(*zk.DeleteRequest); ok {
		return s.request(ctx, "delete", true)
	}
	if err := s.request(ctx, "check", true); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusal
}

func (s *stageServer) Sync(ctx context.Context, _ string) error {
	return s.request(ctx, "sync", true)
}

func (s *stageServer) CreateContainer(ctx context.Context, _ string, _ []zk.ACL) error {
	return s.request(ctx, "container", true)
}

func (s *stageServer) Get(ctx context.Context, path string, wake chan<- zk.EventType) ([]byte, *zk.Stat, error) {
	err := s.request(ctx, "get", false)
	if s.looked != nil {
		defer s.looked(path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
	case errors.Is(s.refusal, zk.ErrNoNode):
		err = s.refusal
	case s.secret && path == s.own:
		err = zk.ErrNoAuth
	default:
		s.watches[path] = wake
	}
	return nil, &zk.Stat{}, err
}

func (s *stageServer) Exists(ctx context.Context, path string) (*zk.Stat, error) {
	return &zk.Stat{}, s.request(ctx, "exists", false)
}

func (s *stageServer) Unwatch(path string, _ chan<- zk.EventType) {
	s.with(func() { delete(s.watches, path) })
}

// take takes the lock, and gives it back at the end.
func (s *stageServer) take(l *Lock) *Lease {
	s.Helper()
	lease, err := l.Lock(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return lease
}

func (s *stageServer) give(lease *Lease) {
	s.Helper()
	if err := lease.Unlock(context.Background()); err != nil {
		s.Error(err)
	}
}

func (s *stageServer) sent(want ...string) {
	s.Helper()
	if got := s.requests(); !slices.Equal(got, want) {
		s.Errorf("sent %v, want %v", got, want)
	}
}
