package zklock_test

import (
	"sync"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// log collects the statuses that a lock reports.
type log struct {
	mu   sync.Mutex
	list []zklock.Status
	more chan struct{}
}

func newLog() *log { return &log{more: make(chan struct{})} }

func (l *log) note(s zklock.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, s)
	close(l.more)
	l.more = make(chan struct{})
}

func (l *log) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.list)
}

// states returns the states reported so far.
func (l *log) states() []zklock.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	var states []zklock.State
	for _, st := range l.list {
		states = append(states, st.State)
	}
	return states
}

// waitFor skips the first seen statuses, waits for one that fits, and returns it.
func (l *log) waitFor(t *testing.T, seen int, what string, fits func(zklock.Status) bool) zklock.Status {
	t.Helper()
	late := time.After(zktest.Patience)
	for {
		l.mu.Lock()
		list, more := l.list, l.more
		l.mu.Unlock()
		for ; seen < len(list); seen++ {
			if fits(list[seen]) {
				return list[seen]
			}
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("%s never came; there were %v", what, list)
		}
	}
}

// waitForState waits for the first status with state s, and returns it.
func (l *log) waitForState(t *testing.T, s zklock.State) zklock.Status {
	t.Helper()
	return l.waitFor(t, 0, string(s), func(st zklock.Status) bool { return st.State == s })
}
