package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/lockcmd/child"
	"github.com/zksh/zksh/lockcmd/zklock"
)

const (
	testTimeout = 30 * time.Second // of the session
	testGrace   = 3 * time.Second
)

var errCtrlC = errors.New("ctrl-c")

// play is a table with one lock, a recipe that does what a test says, and a
// program that does so, too. It runs in virtual time.
type play struct {
	*testing.T
	table   *Table
	o       *owned
	screen  *commandtest.Screen
	signals chan os.Signal
	grant   chan struct{} // closed when the lock is to be had
	finish  chan struct{} // closed when the program is to end by itself
	stoic   bool          // the program takes no notice of TERM

	mu       sync.Mutex
	lease    *fakeLease
	asked    bool // to let go
	down     bool // no connection
	contact  time.Time
	started  time.Time // the program
	ended    time.Time
	slept    time.Duration // the machine, which no timer notices
	refuse   error         // of a release
	releases int
	slow     time.Duration // of a release, besides what it takes anyway
}

func newPlay(t *testing.T, stoic bool) *play {
	s := &play{T: t, table: New(), screen: &commandtest.Screen{}, stoic: stoic, signals: make(chan os.Signal, 16),
		grant: make(chan struct{}), finish: make(chan struct{})}
	s.table.run = s.run
	s.o = &owned{table: s.table, take: s.take, drain: s.drain, env: &commands.Env{Screen: s.screen, Mode: commands.ByHand},
		deserted: func() bool { return false }, life: life{path: "/l", kind: lockKinds[0], revocable: true}}
	s.table.locks[s.o.key] = s.o
	return s
}

// begin is what the lock command does before it waits.
func (s *play) begin(ctx context.Context, program bool) *attempt {
	a := newAttempt(ctx, s.o.kind, func() {})
	if program {
		a.command = newCommand("program", testGrace, testTimeout)
	}
	s.o.with(func() { s.o.asked(a) })
	return a
}

// take is the recipe's.
func (s *play) take(ctx context.Context, _ zklock.Mode, _ bool) (lease, error) {
	select {
	case <-s.grant:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	s.contact = time.Now()
	s.lease = &fakeLease{s: s, state: zklock.Held}
	held := zklock.Status{State: zklock.Held, Until: s.contact.Add(testTimeout)}
	if s.asked {
		held.Revoke = []byte(zklock.RevokeMessage)
	}
	down := s.down
	s.mu.Unlock()
	s.o.hear(held)
	if down {
		s.suspend()
	}
	return s.lease, nil
}

func (s *play) drain(context.Context) error { return nil }

// run is the program.
func (s *play) run(_ child.Spec, stop <-chan time.Time) (int, error) {
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
				if !s.stoic {
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

func (s *play) held() int {
	held, _ := s.table.Held()
	return held
}

// fakeLease is the lease that a play grants.
type fakeLease struct {
	s     *play
	state zklock.State // guarded by the play's lock
}

func (l *fakeLease) Node() string           { return "/l/node" }
func (l *fakeLease) Nodes() []string        { return []string{l.Node()} }
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

// Unlock takes half a second, within which the lock may still be lost. It goes on
// when nobody waits for it any more.
func (l *fakeLease) Unlock(ctx context.Context) error {
	l.s.mu.Lock()
	l.s.releases++
	if !l.s.started.IsZero() && l.s.ended.IsZero() {
		l.s.Error("released while the program runs")
	}
	refused := l.s.refuse
	l.s.mu.Unlock()
	if refused != nil {
		return refused
	}
	end := time.Now().Add(500*time.Millisecond + l.s.slow)
	select {
	case <-time.After(time.Until(end)):
	case <-ctx.Done():
		if l.State().State == zklock.Lost {
			return zklock.ErrLost
		}
		time.AfterFunc(time.Until(end), func() { l.become(zklock.Released, nil) })
		return zklock.ErrUnconfirmed
	}
	if !l.become(zklock.Released, nil) {
		return fmt.Errorf("%w: removed", zklock.ErrLost)
	}
	return nil
}

// become changes the state, unless it has reached its end.
func (l *fakeLease) become(state zklock.State, request []byte) bool {
	l.s.mu.Lock()
	ok := l.state != zklock.Lost && l.state != zklock.Released
	if ok {
		l.state = state
	}
	l.s.mu.Unlock()
	if ok {
		l.s.o.hear(zklock.Status{State: state, Revoke: request, Err: errors.New("removed")})
	}
	return ok
}

// revoke is a request to let go, in whatever state the lock is.
func (s *play) revoke() {
	s.mu.Lock()
	s.asked = true
	l := s.lease
	s.mu.Unlock()
	if l != nil {
		state := l.State().State
		if isLost(state) {
			return // the recipe reads nothing then
		}
		l.become(state, []byte(zklock.RevokeMessage))
	}
}

// sleep lets the lease's clocks go on, but not the timers.
func (s *play) sleep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slept += testTimeout
}

func (s *play) lose() {
	s.mu.Lock()
	l := s.lease
	s.mu.Unlock()
	if l != nil {
		l.become(zklock.Lost, nil)
	}
}

// suspend takes the connection away for good.
func (s *play) suspend() {
	s.mu.Lock()
	l := s.lease
	if !s.down {
		s.contact = time.Now()
	}
	s.down = true
	s.mu.Unlock()
	if l != nil {
		l.become(zklock.Suspended, nil)
		left := l.Left()
		time.AfterFunc(left, func() { l.become(zklock.PresumedLost, nil) })
	}
}

// leave is the end of the shell, which waits for a program under a lock.
func (s *play) leave(attempt <-chan struct{}) {
	if s.table.Guarding() {
		<-attempt
	}
	if _, err := s.table.Release(context.Background()); err != nil && !errors.Is(err, zklock.ErrLost) {
		s.Errorf("the end of the shell: %v", err)
	}
}
