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

// After a loss, the program gets its grace period, but never beyond the end of the lease,
// because another client may hold the lock then.
func TestLossLeavesNoMoreThanTheLease(t *testing.T) {
	for _, c := range []struct{ left, want time.Duration }{
		{testTimeout / 2, testGrace}, {time.Second, time.Second - killMargin}, {killMargin, 0}, {0, 0}, {-time.Hour, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSimulation(t, true)
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

// The notice and the error for a lock that is presumed lost both contain the reason.
func TestPresumedLostSaysWhy(t *testing.T) {
	s := newSimulation(t, false)
	close(s.grant)
	if _, err := s.o.acquire(s.begin(t.Context(), false), &lockFlags{}); err != nil {
		t.Fatal(err)
	}
	why := errors.New("the connection is lost")
	s.o.onStatus(zklock.Status{State: zklock.PresumedLost, Err: why})
	_ = s.table.notifier.finish(t.Context()) // a timeout shows in the comparison below
	if got := s.screen.Alerts(); !strings.Contains(got, "lock /l: presumed lost: the connection is lost; another client may hold it") {
		t.Errorf("told %q", got)
	}
	if err := s.table.Lost(); !errors.Is(err, why) || strings.Contains(err.Error(), "for as long as a session lasts") {
		t.Errorf("the error: %v", err)
	}
}
