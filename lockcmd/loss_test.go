package lockcmd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zksh/zksh/lockcmd/child"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// A program whose lock is lost has its grace, but no longer than the lease lasts: with what
// is left of that the lock may be somebody else's.
func TestLossLeavesNoMoreThanTheLease(t *testing.T) {
	for _, c := range []struct{ left, want time.Duration }{
		{testTimeout / 2, testGrace}, {time.Second, time.Second - killBefore}, {killBefore, 0}, {0, 0}, {-time.Hour, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newPlay(t, true)
			close(s.grant)
			a := s.begin(t.Context(), true)
			if _, err := s.o.acquire(a, &lockFlags{}); err != nil {
				t.Fatal(err)
			}
			done := make(chan error)
			go func() { done <- s.o.guard(context.Background(), a.command, child.Spec{}) }() // ends with the program
			time.Sleep(time.Second)
			s.mu.Lock()
			s.down, s.contact = true, time.Now().Add(c.left-testTimeout)
			s.mu.Unlock()
			lostAt := time.Now()
			s.lose()
			if err := <-done; !strings.Contains(err.Error(), "was lost") {
				t.Error(err)
			}
			if got := s.ended.Sub(lostAt); got != c.want {
				t.Errorf("with %v left of the lease the program ran on for %v, want %v", c.left, got, c.want)
			}
		})
	}
}

// A lock that is presumed lost says why, at once and as the reason of its error.
func TestPresumedLostSaysWhy(t *testing.T) {
	s := newPlay(t, false)
	close(s.grant)
	if _, err := s.o.acquire(s.begin(t.Context(), false), &lockFlags{}); err != nil {
		t.Fatal(err)
	}
	why := errors.New("the connection is lost")
	s.o.hear(zklock.Status{State: zklock.PresumedLost, Err: why})
	_ = s.table.crier.finish(t.Context()) // else it has told nothing
	if got := s.screen.Alerts(); !strings.Contains(got, "lock /l: presumed lost: the connection is lost; another client may hold it") {
		t.Errorf("told %q", got)
	}
	if err := s.table.Lost(); !errors.Is(err, why) || strings.Contains(err.Error(), "for as long as a session lasts") {
		t.Errorf("the error: %v", err)
	}
}
