package zklock

import (
	"context"
	"errors"
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

	alone   bool  // no ensemble
	cutOff  bool  // from the leader: pings and reads are answered, no sync and no transaction
	refusal error // of checks
	asked   []string
	ahead   []string // children besides our own
	wake    chan<- struct{}
}

func newStageServer(t *testing.T) *stageServer {
	s := &stageServer{T: t, changed: make(chan struct{}), over: make(chan struct{})}
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

// request takes what has been sent on the present connection, and tells whether
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
		case <-s.Changed():
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
func (s *stageServer) ID() int64                                { return 1 }
func (s *stageServer) Timeout() time.Duration                   { return life }
func (s *stageServer) Ended() <-chan struct{}                   { return s.over }

func (s *stageServer) Connected() bool { return !s.Begun().IsZero() }

func (s *stageServer) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *stageServer) Begun() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

// Heard is part of Session: an answer comes a round trip after the request.
func (s *stageServer) Heard(by time.Time) (sent, came time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent, came = s.begun, by
	for _, h := range s.heard {
		if !h.Add(trip).After(by) && h.After(sent) {
			sent, came = h, h.Add(trip)
		}
	}
	return sent, came
}

func (s *stageServer) Standalone(context.Context) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alone, nil
}

func (s *stageServer) Await(ctx context.Context) error {
	for !s.Connected() {
		select {
		case <-s.Changed():
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
	own := reqs[0].Path + "0000000009"
	return []string{own}, 9, append(slices.Clone(s.ahead), own[len(dir)+1:]), nil
}

func (s *stageServer) Children(ctx context.Context, _ string) ([]string, error) {
	return nil, errors.New("not in this play")
}

func (s *stageServer) Multi(ctx context.Context, ops ...any) error {
	if err := s.request(ctx, "check", true); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusal
}

func (s *stageServer) Delete(ctx context.Context, _ string) error {
	return s.request(ctx, "delete", true)
}

func (s *stageServer) Sync(ctx context.Context, _ string) error {
	return s.request(ctx, "sync", true)
}

func (s *stageServer) CreateContainer(ctx context.Context, _ string) error {
	return s.request(ctx, "container", true)
}

func (s *stageServer) Get(ctx context.Context, _ string, _ chan<- struct{}) ([]byte, *zk.Stat, error) {
	err := s.request(ctx, "get", false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && errors.Is(s.refusal, zk.ErrNoNode) {
		err = s.refusal
	}
	return nil, &zk.Stat{}, err
}

func (s *stageServer) Exists(ctx context.Context, path string, _ chan<- struct{}) (*zk.Stat, error) {
	return &zk.Stat{}, s.request(ctx, "exists", false)
}

func (s *stageServer) Unwatch(string, chan<- struct{}) {}

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

// Rounds alone keep a lock for good, and the lease never falls so low that a
// command would have to be ended. What that costs is said in doc.go.
func TestRoundsExtendTheLease(t *testing.T) {
	play(t, func(s *stageServer, l *Lock) {
		lease := s.take(l)
		s.sent("create")
		least := life
		const hours = 2 * time.Hour
		for range hours / (life / 100) {
			time.Sleep(life / 100)
			least = min(least, lease.Left())
		}
		n := len(s.requests())
		rate := float64(n) / hours.Seconds()
		s.Logf("%.3f requests a second, the lease never below %s", rate, least)
		if rate > 0.33 || rate < 0.3 {
			s.Errorf("%d requests in %s", n, hours)
		}
		if isClosed(lease.Lost()) || lease.State().State != Held {
			s.Errorf("the lock is %s", lease.State().State)
		}
		if least < life/4 {
			s.Errorf("only %s was left of the lease", least)
		}
		s.give(lease)
		time.Sleep(life)
		if last := s.requests(); !slices.Equal(last, []string{"delete"}) {
			s.Errorf("%v were sent when nothing was held any more", last)
		}
	})
}

// A server that is cut off from its leader goes on to answer pings and reads. The
// lock is presumed lost when the lease is over, and kept when a check is answered.
func TestCutOffFromTheLeader(t *testing.T) {
	play(t, func(s *stageServer, l *Lock) {
		lease := s.take(l)
		s.pings(3 * life)
		cut := time.Now()
		s.with(func() { s.cutOff = true })
		s.pings(life)
		select {
		case <-lease.Lost():
		default:
			s.Fatal("the lease outlasts the session")
		}
		if st := lease.State().State; st != PresumedLost {
			s.Errorf("the lock is %s", st)
		}
		s.with(func() { s.cutOff = false })
		s.disconnect()
		s.connect()
		s.pings(life)
		if st := lease.State(); st.State != Held || st.Left < life/4 {
			s.Errorf("%s after the ensemble was there again: %s, %s left", time.Since(cut), st.State, st.Left)
		}
		s.give(lease)
	})
}

// The lease ends by what was proven before the cut, to the moment.
func TestLostInTime(t *testing.T) {
	play(t, func(s *stageServer, l *Lock) {
		lease := s.take(l)
		s.pings(2 * life)
		s.with(func() { s.cutOff = true })
		end := time.Now().Add(lease.Left())
		if left := time.Until(end); left > life {
			s.Fatalf("%s left", left)
		}
		go s.pings(life) // ends before the lock is lost
		<-lease.Lost()
		if late := time.Since(end); late != 0 {
			s.Errorf("lost %s after the end of the lease", late)
		}
		time.Sleep(life)
	})
}

// A connection that ends in the middle of a round makes it void, and the next one
// is proven by one check, which counts from its connect request.
func TestReconnectInARound(t *testing.T) {
	for at := time.Duration(0); at < life/2; at += life / 64 {
		play(t, func(s *stageServer, l *Lock) {
			lease := s.take(l)
			time.Sleep(life + at)
			s.requests()
			s.disconnect()
			left := lease.Left()
			time.Sleep(time.Second)
			if now := lease.Left(); now != left-time.Second {
				s.Errorf("without a connection the lease went from %s to %s", left, now)
			}
			begun := time.Now()
			s.connect()
			time.Sleep(5 * trip)
			sent := s.requests()
			if i := slices.Index(sent, "check"); i < 0 || slices.Contains(sent[:i], "sync") {
				s.Errorf("after %s: sent %v, want a check and no sync before", at, sent)
			}
			if got, want := lease.Left(), time.Until(begun.Add(life-life/100)); got != want {
				s.Errorf("after %s: %s left, want %s", at, got, want)
			}
			s.give(lease)
		})
	}
}

// The check finds that the own znode is gone, whatever became of the watch.
func TestCheckFindsTheZnodeGone(t *testing.T) {
	play(t, func(s *stageServer, l *Lock) {
		lease := s.take(l)
		time.Sleep(life)
		s.with(func() { s.refusal = zk.ErrNoNode })
		time.Sleep(life / 2)
		if st := lease.State(); st.State != Lost || !errors.Is(st.Err, errRemoved) {
			s.Errorf("the lock is %s: %v", st.State, st.Err)
		}
	})
}

// A check that may not read the own znode was made all the same; another refusal
// proves nothing.
func TestRefusedChecks(t *testing.T) {
	for refusal, want := range map[error]State{zk.ErrNoAuth: Held, zk.ErrSessionExpired: PresumedLost, zk.ErrSessionMoved: PresumedLost} {
		play(t, func(s *stageServer, l *Lock) {
			lease := s.take(l)
			time.Sleep(life)
			s.with(func() { s.refusal = refusal })
			time.Sleep(2 * life)
			if st := lease.State().State; st != want {
				s.Errorf("%v: the lock is %s", refusal, st)
			}
			s.give(lease)
		})
	}
}

// A server that stands alone is asked nothing: what it answers will do.
func TestStandaloneNeedsNoErrands(t *testing.T) {
	play(t, func(s *stageServer, l *Lock) {
		s.alone = true
		lease := s.take(l)
		time.Sleep(time.Second)
		s.requests()
		s.pings(10 * life)
		s.sent()
		if left := lease.Left(); left < life/2 {
			s.Errorf("%s left", left)
		}
		s.disconnect() // whatever answers next may be a member of an ensemble
		s.with(func() { s.alone = false })
		s.connect()
		time.Sleep(life)
		if sent := s.requests(); !slices.Contains(sent, "sync") || !slices.Contains(sent, "check") {
			s.Errorf("sent %v to an ensemble", sent)
		}
		s.give(lease)
	})
}

// On a fresh connection a lock costs nothing more. On an old one it is held
// before one check, or a sync and a check, and the lease then lasts until rounds
// extend it, and longer than a command needs to end, whenever the last ping was.
func TestLockOnAnOldConnection(t *testing.T) {
	for _, waited := range []bool{false, true} {
		for age := 2 * life; age < 2*life+life/3; age += life / 100 {
			play(t, func(s *stageServer, l *Lock) {
				s.pings(age)
				e := newEntry(l, s, Exclusive)
				if _, err := e.enter(s.Context()); err != nil {
					s.Fatal(err)
				}
				s.requests()
				if waited {
					e.made = time.Time{}
				}
				if e.clock.left() > 0 {
					s.Error("a lease without a proof")
				}
				if err := e.clock.secure(s.Context(), e.made, e.node()); err != nil {
					s.Fatal(err)
				}
				want := []string{"check"}
				if waited {
					want = []string{"sync", "check"}
				}
				s.sent(want...)
				h := newHold(e, 0)
				least := life
				for end := time.Now().Add(2 * life); time.Now().Before(end); time.Sleep(life / 200) {
					least = min(least, e.clock.left())
				}
				if least < life/4 {
					s.Errorf("%s after a ping, waited %v: only %s was left of the lease", age-2*life, waited, least)
				}
				h.end()
			})
		}
	}
}

// A lock that cannot be proven is not held, and its znode is removed.
func TestNotHeldWithoutAProof(t *testing.T) {
	play(t, func(s *stageServer, l *Lock) {
		s.pings(2 * life)
		go func() { // ends with its last line
			time.Sleep(trip / 2) // the create is under way
			s.with(func() { s.cutOff = true })
		}()
		ctx, cancel := context.WithTimeout(s.Context(), life)
		defer cancel()
		if _, err := l.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, zk.ErrConnectionClosed) {
			s.Errorf("%v", err)
		}
		s.with(func() { s.cutOff = false })
		s.requests()
		s.disconnect()
		s.connect()
		if err := l.Drain(s.Context()); err != nil {
			s.Fatal(err)
		}
		if sent := s.requests(); !slices.Contains(sent, "delete") {
			s.Errorf("sent %v", sent)
		}
	})
}
