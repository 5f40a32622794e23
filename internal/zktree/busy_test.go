package zktree

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

// Walks, SetACL and Delete succeed on a server that rejects many requests because it is
// overloaded, although the rejected requests are repeated out of order.
func TestBusyServer(t *testing.T) {
	var on atomic.Bool
	var n atomic.Int32
	box := zktest.Sandbox(t, sandbox.Options{Throttle: func(int32) bool { return on.Load() && n.Add(1)%7 < 2 }})
	s := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: 30 * time.Second})
	for _, batch := range []int{0, 1, 10, DefaultBatch} {
		on.Store(false)
		var paths []string
		for _, d := range []string{"/t", "/t/a", "/t/b", "/t/a/c"} {
			paths = append(paths, d)
			for i := range 8 {
				paths = append(paths, fmt.Sprintf("%s/n%02d", d, i), fmt.Sprintf("%s/n%02d/below", d, i))
			}
		}
		create(t, s, paths...)
		slices.Sort(paths)
		on.Store(true)
		for name, w := range map[string]*walk{
			"multiRead": walkOn(t, s, "/t", Options{}),
			"watches":   walkOn(t, s, "/t", Options{Watch: true}),
			"stats":     walkOn(t, s, "/t", Options{Stat: true}),
		} {
			got, unreadable := walkAll(t, w)
			if slices.Sort(got); !slices.Equal(got, paths) || unreadable > 0 {
				t.Errorf("by %s: %d znodes, %d of them unreadable", name, len(got), unreadable)
			}
		}
		if n, err := SetACL(t.Context(), s.Client, "/t", zkconn.OpenACL(), 0, nil, nil); n != len(paths) || err != nil {
			t.Errorf("the ACL of %d changed: %v", n, err)
		}
		if n, err := Delete(t.Context(), s.Client, "/t", batch, nil, nil); n != len(paths) || err != nil {
			t.Errorf("in batches of %d: %d deleted: %v", batch, n, err)
		}
		if err := zkconn.Exec(t.Context(), s, zkconn.Exists("/t")); !errors.Is(err, zkconn.NoNode) {
			t.Error(err)
		}
	}
}

// A walk sends fewer and smaller requests to a busy source, and full batches to a fast one.
func TestWalkOfABusySource(t *testing.T) {
	names := make([]string, 5000)
	for i := range names {
		names[i] = fmt.Sprintf("n%04d", i)
	}
	for _, slow := range []bool{true, false} {
		src := &fakeTree{slow: slow, children: func(p string) ([]string, error) {
			if p == "/r" {
				return names, nil
			}
			return nil, nil
		}}
		w, err := src.walk("/r", Options{})
		zktest.Must(t, err)
		smallest := listBatch
		for z, err := range w.znodes {
			zktest.Must(t, err)
			if z.Path != "/r" && z.Path < "/r/n4000" {
				smallest = min(smallest, src.last)
			}
		}
		if slow && (w.window != 1 || smallest > listBatch/window) || !slow && w.window != window {
			t.Errorf("slow %v: a window of %d, the smallest request of %d", slow, w.window, smallest)
		}
	}
}
