package zkconn

import (
	"context"
	"errors"
	"testing"
	"time"
)

// next takes servers until it has asked for n, and tells how often the library
// would have waited.
func next(h *hosts, n int) (waits int) {
	for range n {
		if _, retry := h.Next(); retry {
			waits++
		}
	}
	return waits
}

func TestHostsTryEachTwice(t *testing.T) {
	failed := 0
	h := newHosts(t.Context(), time.Second, []string{"127.0.0.1:1", "127.0.0.1:2"}, func() { failed++ })
	if waits := next(h, 4); waits != 0 || failed != 0 {
		t.Errorf("the first pass waited %d times and failed %d times", waits, failed)
	}
	if short := h.attempt(time.Minute); short >= maxAttempt {
		t.Errorf("an attempt may take %s", short)
	}
	if waits := next(h, 4); waits != 1 || failed != 1 {
		t.Errorf("the second pass waited %d times, after %d failed", waits, failed)
	}
}

// TestHostsAreNotStormed: after a connection that broke at once the library has
// to wait, though no pass has failed; after one that lasted, or an expiry, not.
func TestHostsAreNotStormed(t *testing.T) {
	failed := 0
	h := newHosts(t.Context(), time.Second, []string{"127.0.0.1:1"}, func() { failed++ })
	next(h, 1)
	h.Connected()
	if waits := next(h, 1); waits != 1 || failed != 0 {
		t.Errorf("waited %d times, %d failed", waits, failed)
	}
	h.Connected()
	h.last = h.last.Add(-2 * tooSoon)
	if waits := next(h, 1); waits != 0 {
		t.Error("waited after a connection that lasted")
	}
	h.reset()
	if waits := next(h, 1); waits != 0 {
		t.Error("waited after an expiry")
	}
}

func TestHostsResolveTogether(t *testing.T) {
	h := newHosts(t.Context(), 200*time.Millisecond, []string{"a:1", "b:2", "c:3"}, func() {})
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
