package wire

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// next asks for n servers and returns how long that took.
func next(t *testing.T, h *hosts, n int) time.Duration {
	t.Helper()
	begin := time.Now()
	for range n {
		if _, retry := h.Next(); retry {
			t.Error("the library was asked to pause")
		}
	}
	return time.Since(begin)
}

func wantPause(t *testing.T, what string, got, longest time.Duration) {
	t.Helper()
	if got > longest || got < longest-pauseJitter {
		t.Errorf("%s: paused for %s, want at most %s and hardly less", what, got, longest)
	}
}

func notUrgent() bool { return false }

func TestHostsTryEachTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := 0
		h := newHosts(t.Context(), time.Minute, []string{"127.0.0.1:1", "127.0.0.1:2"}, func() { failed++ }, notUrgent)
		if paused := next(t, h, 4); paused != 0 || failed != 0 {
			t.Errorf("the first pass paused for %s and failed %d times", paused, failed)
		}
		if short := h.attempt(); short >= maxAttempt {
			t.Errorf("an attempt may take %s", short)
		}
		if paused := next(t, h, 4); paused == 0 || failed != 1 {
			t.Errorf("the second pass paused for %s, after %d failed", paused, failed)
		}
	})
}

// The lookup of the names and all attempts of a pass together take no longer than the timeout.
func TestPassEndsWithTimeout(t *testing.T) {
	const timeout = 4 * time.Second
	for name, slow := range map[string]time.Duration{"no name server answers": time.Hour, "slow name servers": timeout / 4, "addresses": 0} {
		for _, list := range [][]string{{"a:1"}, {"a:1", "b:2", "c:3"}} {
			synctest.Test(t, func(t *testing.T) {
				failed := false
				h := newHosts(t.Context(), timeout, list, func() { failed = true }, notUrgent)
				h.resolve = func(ctx context.Context, host string) ([]string, error) {
					select {
					case <-time.After(slow):
						return []string{host, host}, nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
				begin, took := time.Now(), time.Duration(0)
				for h.Next(); !failed; h.Next() { // the last call also pauses
					time.Sleep(h.attempt())
					took = time.Since(begin)
				}
				if took > timeout || took < timeout-time.Microsecond {
					t.Errorf("%s, %d servers: the pass took %s", name, len(list), took)
				}
			})
		}
	}
}

// While no server can be reached, the pauses grow to a second. They stay short while a
// connection is urgent, even if it becomes urgent during a pause.
func TestHostsPauseBetweenPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var urgent atomic.Bool
		h := newHosts(t.Context(), time.Second, []string{"127.0.0.1:1"}, func() {}, urgent.Load)
		next(t, h, 2)
		for _, longest := range []time.Duration{shortPause, 2 * shortPause, 4 * shortPause, longPause, longPause} {
			wantPause(t, "no hurry", next(t, h, 2), longest)
		}
		timer := time.AfterFunc(shortPause, func() { urgent.Store(true); h.expedite() })
		if paused := next(t, h, 2); paused > shortPause {
			t.Errorf("paused for %s although it was urgent after %s", paused, shortPause)
		}
		timer.Stop()
		for range 20 {
			wantPause(t, "urgent", next(t, h, 2), shortPause)
		}
	})
}

// After connections that broke at once, the pauses grow, even if the next one is urgent. After a
// connection that lasted, or an expiry, there is no pause.
func TestHostsAreNotStormed(t *testing.T) {
	for _, urgent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			failed := 0
			h := newHosts(t.Context(), time.Second, []string{"127.0.0.1:1"}, func() { failed++ }, func() bool { return urgent })
			next(t, h, 1)
			for _, longest := range []time.Duration{shortPause, 2 * shortPause, 4 * shortPause, longPause, longPause} {
				h.Connected()
				wantPause(t, "a brief connection", next(t, h, 1), longest)
			}
			h.Connected()
			time.Sleep(tooSoon)
			if paused := next(t, h, 1); paused != 0 {
				t.Errorf("paused for %s after a connection that lasted", paused)
			}
			h.Connected()
			next(t, h, 1)
			h.reset()
			if paused := next(t, h, 1); paused != 0 || failed != 0 {
				t.Errorf("paused for %s after an expiry, %d failed", paused, failed)
			}
		})
	}
}

// When the context ends, Next returns at once and makes the library pause, because only then
// does the library check whether it should end.
func TestHostsEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		h := newHosts(ctx, time.Second, []string{"127.0.0.1:1"}, func() {}, notUrgent)
		next(t, h, 2)
		timer := time.AfterFunc(pauseJitter/2, cancel)
		defer timer.Stop()
		begin := time.Now()
		if _, retry := h.Next(); !retry || time.Since(begin) != pauseJitter/2 {
			t.Errorf("retry is %v after %s", retry, time.Since(begin))
		}
	})
}

func TestHostsResolveTogether(t *testing.T) {
	h := newHosts(t.Context(), 200*time.Millisecond, []string{"a:1", "b:2", "c:3"}, func() {}, notUrgent)
	h.resolve = func(ctx context.Context, host string) ([]string, error) {
		if host == "b" {
			return []string{"127.0.0.1", "::1"}, nil
		}
		<-ctx.Done()
		return nil, errors.New("no answer")
	}
	all := h.expand(t.Context(), h.limit)
	want := map[string]bool{"a:1": true, "127.0.0.1:2": true, "[::1]:2": true, "c:3": true}
	for _, a := range all {
		delete(want, a)
	}
	if len(all) != 4 || len(want) != 0 {
		t.Errorf("got %v", all)
	}
}
