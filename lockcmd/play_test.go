package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/lockcmd/child"
	"github.com/zksh/zksh/lockcmd/zklock"
)

const (
	testTimeout = 30 * time.Second // session timeout
	testGrace   = 3 * time.Second
)

var errCtrlC = errors.New("ctrl-c")

// simulation is a table with one lock, and a recipe and a program that the test controls. It
// runs in virtual time.
type simulation struct {
	*testing.T
	table       *Table
	o           *shellLock
	screen      *commandtest.Screen
	signals     chan os.Signal
	grant       chan struct{} // closed when the recipe may grant the lock
	closed      atomic.Bool   // whether the user has left the session of the lock
	refuse      chan error    // error that the recipe returns instead of a lease
	finish      chan struct{} // closed when the program must exit by itself
	ignoresTERM bool          // the program ignores SIGTERM

	mu              sync.Mutex
	lease           *fakeLease
	revokeRequested bool // another client asked for the lock
	down            bool // the connection is lost
	contact         time.Time
	started         time.Time // when the program started
	ended           time.Time
	slept           time.Duration // time that the machine was asleep; timers do not notice it
	releaseErr      error         // error that a release returns
	releases        int
	releaseDelay    time.Duration // additional duration of a release
}

func newSimulation(t *testing.T, ignoresTERM bool) *simulation {
	s := &simulation{T: t, table: New(), screen: &commandtest.Screen{}, ignoresTERM: ignoresTERM, signals: make(chan os.Signal, 16),
		grant: make(chan struct{}), refuse: make(chan error), finish: make(chan struct{})}
	s.table.run = s.run
	s.o = &shellLock{table: s.table, acquireLease: s.take, drain: s.drain, env: &commands.Env{Screen: s.screen, Mode: commands.ByHand},
		closed: s.closed.Load, lifecycle: lifecycle{path: "/l", kind: lockKinds[0], revocable: true}}
	s.table.locks[s.o.key] = s.o
	return s
}

// begin starts an attempt, as the lock command does before it waits.
func (s *simulation) begin(ctx context.Context, program bool) *attempt {
	a := newAttempt(ctx, s.o.kind, func() {})
	if program {
		a.command = newCommand("program", testGrace, testTimeout)
	}
	s.o.apply(func() { s.o.attemptStarted(a) })
	return a
}

// take is the recipe: it waits for the grant and returns a lease.
func (s *simulation) take(ctx context.Context, _ zklock.Mode, _ bool) (lease, error) {
	select {
	case <-s.grant:
	case err := <-s.refuse:
		return nil, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	s.contact = time.Now()
	s.lease = &fakeLease{s: s, state: zklock.Held}
	held := zklock.Status{State: zklock.Held, Until: s.contact.Add(testTimeout)}
	if s.revokeRequested {
		held.Revoke = []byte(zklock.RevokeMessage)
	}
	down := s.down
	s.mu.Unlock()
	s.o.onStatus(held)
	if down {
		s.suspend()
	}
	return s.lease, nil
}

func (s *simulation) drain(context.Context) error { return nil }

// run is the program.
func (s *simulation) run(_ child.Spec, stop <-chan time.Time) (int, error) {
	s.mu.Lock()
	s.started = time.Now()
	if s.releases > 0 {
		s.Error("started under a lock that was released")
	}
	s.mu.Unlock()
	var due time.Time
	var kill, obey <-chan time.Time
	status := 0
	for status == 0 {
		select {
		case <-s.finish:
			status = -1
		case <-s.signals:
			obey = time.After(100 * time.Millisecond)
		case by := <-stop:
			if due.IsZero() {
				due = time.Now().Add(testGrace)
				if !s.ignoresTERM {
					obey = time.After(100 * time.Millisecond)
				}
			}
			if by.Before(due) {
				due = by
			}
			kill = time.After(time.Until(due))
		case <-kill:
			status = 137
		case <-obey:
			status = 143
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = time.Now()
	return max(status, 0), nil
}

func (s *simulation) held() int {
	held, _ := s.table.Held()
	return held
}

// fakeLease is the lease that a simulation grants.
type fakeLease struct {
	s     *simulation
	state zklock.State // guarded by s.mu
}

func (l *fakeLease) Node() string           { return "/l/node" }
func (l *fakeLease) Token() int64           { return 1 }
func (l *fakeLease) SessionID() int64       { return 2 }
func (l *fakeLease) Mode() zklock.Mode      { return zklock.Exclusive }
func (l *fakeLease) Timeout() time.Duration { return testTimeout }

func (l *fakeLease) State() zklock.Status {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return zklock.Status{State: l.state}
}

func (l *fakeLease) Left() time.Duration {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if !l.s.down {
		return testTimeout
	}
	return time.Until(l.s.contact.Add(testTimeout)) - l.s.slept
}

// Unlock takes half a second or longer; meanwhile the lock can still be lost. The release
// continues after ctx ends.
func (l *fakeLease) Unlock(ctx context.Context) error {
	l.s.mu.Lock()
	l.s.releases++
	if !l.s.started.IsZero() && l.s.ended.IsZero() {
		l.s.Error("released while the program runs")
	}
	refused := l.s.releaseErr
	l.s.mu.Unlock()
	if refused != nil {
		return refused
	}
	end := time.Now().Add(500*time.Millisecond + l.s.releaseDelay)
	select {
	case <-time.After(time.Until(end)):
	case <-ctx.Done():
		if l.State().State == zklock.Lost {
			return zklock.ErrLost
		}
		time.AfterFunc(time.Until(end), func() { l.setState(zklock.Released, nil) })
		return zklock.ErrUnconfirmed
	}
	if !l.setState(zklock.Released, nil) {
		return fmt.Errorf("%w: removed", zklock.ErrLost)
	}
	return nil
}

// setState changes the state, unless it is final, and reports it to the lock.
func (l *fakeLease) setState(state zklock.State, request []byte) bool {
	l.s.mu.Lock()
	ok := l.state != zklock.Lost && l.state != zklock.Released
	if ok {
		l.state = state
	}
	l.s.mu.Unlock()
	if ok {
		l.s.o.onStatus(zklock.Status{State: state, Revoke: request, Err: errors.New("removed")})
	}
	return ok
}

// revoke simulates another client's request to release the lock.
func (s *simulation) revoke() {
	s.mu.Lock()
	s.revokeRequested = true
	l := s.lease
	s.mu.Unlock()
	if l != nil {
		state := l.State().State
		if isLost(state) {
			return // the recipe no longer reads the znode
		}
		l.setState(state, []byte(zklock.RevokeMessage))
	}
}

// sleep simulates sleep of the machine: the lease's time passes, but timers do not.
func (s *simulation) sleep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slept += testTimeout
}

func (s *simulation) lose() {
	s.mu.Lock()
	l := s.lease
	s.mu.Unlock()
	if l != nil {
		l.setState(zklock.Lost, nil)
	}
}

// suspend cuts the connection permanently.
func (s *simulation) suspend() {
	s.mu.Lock()
	l := s.lease
	if !s.down {
		s.contact = time.Now()
	}
	s.down = true
	s.mu.Unlock()
	if l != nil {
		l.setState(zklock.Suspended, nil)
		left := l.Left()
		time.AfterFunc(left, func() { l.setState(zklock.PresumedLost, nil) })
	}
}

// leave ends the shell, which waits for a program under a lock.
func (s *simulation) leave(attempt <-chan struct{}) {
	if s.table.Guarding() {
		<-attempt
	}
	if _, err := s.table.Release(context.Background()); err != nil && !errors.Is(err, zklock.ErrLost) {
		s.Errorf("the end of the shell: %v", err)
	}
}
