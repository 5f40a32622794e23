package zktree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

func TestMain(m *testing.M) { zktest.Main(m) }

func open(t *testing.T, root string) *zkconn.Session {
	t.Helper()
	s := zksession.Open(t, zkconn.Config{Servers: zktest.Shared(t).Addr(), Timeout: 20 * time.Second})
	create(t, s, root)
	return s
}

func walk(n *Node) (all []string) {
	for node := range n.All() {
		all = append(all, node.Path)
	}
	return all
}

func TestListOrder(t *testing.T) {
	s := open(t, "/order")
	create(t, s, "/order/b", "/order/a", "/order/C", "/order/10", "/order/9")
	create(t, s, "/order/a/z", "/order/a/y", "/order/b/x")
	create(t, s, "/order/a/z/deep")
	// The order of the recording c12 of zkCli's ls -R.
	want := strings.Fields("/order /order/10 /order/9 /order/C /order/a /order/b /order/a/y /order/a/z /order/a/z/deep /order/b/x")
	for _, watch := range []bool{false, true} { // by multiRead and by single requests
		tree, n, err := List(t.Context(), s.Client, "/order", Options{Watch: watch})
		if err != nil {
			t.Fatal(err)
		}
		if got := walk(tree); !slices.Equal(got, want) || n != len(want) {
			t.Errorf("watch %v: %d nodes\n got %v\nwant %v", watch, n, got, want)
		}
	}
}

func TestListMissing(t *testing.T) {
	s := open(t, "/missing")
	_, _, err := List(t.Context(), s.Client, "/missing/none", Options{})
	if !errors.Is(err, zkconn.NoNode) {
		t.Errorf("got %v, want NoNode", err)
	}
}

// TestListWhileNodesVanish lists a tree that somebody deletes at the same time.
func TestListWhileNodesVanish(t *testing.T) {
	s := open(t, "/vanish")
	var paths []string
	for i := range 2000 {
		paths = append(paths, fmt.Sprintf("/vanish/n%04d", i))
	}
	create(t, s, paths...)
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, p := range paths {
			if err := s.Delete(context.Background(), p, -1); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 20 {
		tree, n, err := List(t.Context(), s.Client, "/vanish", Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(walk(tree)); got != n {
			t.Fatalf("%d nodes walked, %d counted", got, n)
		}
	}
	wg.Wait()
}

func TestDeleteWhileNodesAppear(t *testing.T) {
	s := open(t, "/appear")
	var paths []string
	for i := range 3000 {
		paths = append(paths, fmt.Sprintf("/appear/n%04d", i))
	}
	create(t, s, paths...)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { // children below nodes about to go, for a while
		for i := 0; i < 300 && ctx.Err() == nil; i++ {
			_, err := s.Create(ctx, paths[i]+"/late", nil, zkconn.OpenACL(), zkconn.CreateMode{})
			if err != nil && !errors.Is(err, zkconn.NoNode) && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	_, err := Delete(t.Context(), s.Client, "/appear", 100, nil)
	stop()
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Exists(t.Context(), "/appear", false); !errors.Is(err, zkconn.NoNode) {
		t.Errorf("the root is still there: %v", err)
	}
}

func TestDeleteNamesWhatRemains(t *testing.T) {
	s := open(t, "/denied")
	create(t, s, "/denied/a", "/denied/b", "/denied/b/c", "/denied/b/d")
	readOnly := zk.WorldACL(zk.PermRead | zk.PermAdmin)
	if _, err := s.SetACL(t.Context(), "/denied/b", readOnly, -1); err != nil {
		t.Fatal(err)
	}
	for _, batch := range []int{DefaultBatch, 0} {
		n, err := Delete(t.Context(), s.Client, "/denied", batch, nil)
		var partial *PartialError
		if !errors.As(err, &partial) {
			t.Fatalf("got %v, want a PartialError", err)
		}
		for _, p := range []string{"/denied/b/c", "/denied/b/d"} {
			if !strings.Contains(err.Error(), p) {
				t.Errorf("%q does not name %s", err, p)
			}
		}
		if !errors.Is(err, zkconn.NoAuth) || n > 1 {
			t.Errorf("deleted %d: %v", n, err)
		}
	}
	if _, err := s.SetACL(t.Context(), "/denied/b", zkconn.OpenACL(), -1); err != nil {
		t.Fatal(err)
	}
	if _, err := Delete(t.Context(), s.Client, "/denied", 1, nil); err != nil {
		t.Error(err)
	}
}

var errStop = errors.New("stopped by the test")

func TestDeleteStopsBetweenBatches(t *testing.T) {
	s := open(t, "/stop")
	var paths []string
	for i := range 5000 {
		paths = append(paths, fmt.Sprintf("/stop/n%04d", i))
	}
	create(t, s, paths...)
	ctx, stop := context.WithCancelCause(t.Context())
	n, err := Delete(ctx, s.Client, "/stop", 50, func(done, _ int) {
		if done >= 500 {
			stop(errStop)
		}
	})
	if !errors.Is(err, errStop) || !strings.Contains(err.Error(), fmt.Sprintf("deleted %d of 5001 znodes of /stop", n)) {
		t.Errorf("deleted %d: %v", n, err)
	}
	left, _, err := s.Children(t.Context(), "/stop", false)
	if err != nil {
		t.Fatal(err)
	}
	if len(left)+n != 5000 || n < 500 {
		t.Errorf("%d deleted, %d left", n, len(left))
	}
}

func TestSetACL(t *testing.T) {
	s := open(t, "/acl")
	create(t, s, "/acl/a", "/acl/a/b")
	acl := zk.WorldACL(zk.PermRead | zk.PermAdmin)
	n, err := SetACL(t.Context(), s.Client, "/acl", acl, 0, nil)
	if err != nil || n != 3 {
		t.Fatalf("changed %d: %v", n, err)
	}
	got, st, err := s.ACL(t.Context(), "/acl/a/b")
	if err != nil || !slices.Equal(got, acl) || st.Aversion != 1 {
		t.Errorf("%v %+v %v", got, st, err)
	}
	n, err = SetACL(t.Context(), s.Client, "/acl", acl, 7, nil)
	if n != 0 || !errors.Is(err, zkconn.BadVersion) || !strings.Contains(err.Error(), "/acl/a/b") {
		t.Errorf("changed %d: %v", n, err)
	}
}

// TestLargeTrees has a node with 100,000 children, whose list does not fit into
// ZooKeeper's usual frame, and a nested tree of 100,000 nodes.
// Trees whose listing is several times what a frame may hold, flat and nested.
func TestLargeTrees(t *testing.T) {
	s := open(t, "/large")
	for name, paths := range map[string][][]string{"flat": flat(20_000), "nested": nested()} {
		root := "/large/" + name
		create(t, s, root)
		total := 1
		for _, level := range paths {
			for i := range level {
				level[i] = root + level[i]
			}
			create(t, s, level...)
			total += len(level)
		}
		tree, n, err := List(t.Context(), s.Client, root, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(walk(tree)); got != total || n != total {
			t.Errorf("%s: %d listed, %d counted, want %d", name, got, n, total)
		}
		if n, err := Delete(t.Context(), s.Client, root, DefaultBatch, nil); err != nil || n != total {
			t.Errorf("%s: deleted %d of %d: %v", name, n, total, err)
		}
	}
}

func flat(n int) [][]string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("/%s-%06d", strings.Repeat("long-name-", 15), i)
	}
	return [][]string{names}
}

func nested() [][]string {
	var levels [3][]string
	for i := range 50 {
		a := fmt.Sprintf("/a%02d", i)
		levels[0] = append(levels[0], a)
		for j := range 40 {
			b := fmt.Sprintf("%s/b%02d", a, j)
			levels[1] = append(levels[1], b)
			for k := range 9 {
				levels[2] = append(levels[2], fmt.Sprintf("%s/c%02d", b, k))
			}
		}
	}
	return levels[:]
}

// create makes znodes in order, many in flight.
func create(t *testing.T, s *zkconn.Session, paths ...string) {
	t.Helper()
	p, err := s.Pipe(t.Context(), "/")
	if err != nil {
		t.Fatal(err)
	}
	send := func(path string) *zkconn.Pending[zkconn.Written] { return p.Create(path, nil, zkconn.OpenACL()) }
	err = each(t.Context(), atOnce, singleWindow, paths, send, func(_ zkconn.Written, err error) {
		if err != nil { // it names the path
			t.Fatal(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCountEphemerals(t *testing.T) {
	ctx := context.Background()
	s := open(t, "/counted")
	create(t, s, "/counted/a")
	for i := range 7 {
		if _, err := s.Create(ctx, fmt.Sprintf("/counted/a/e%d", i), nil, zkconn.OpenACL(), zkconn.CreateMode{Ephemeral: true}); err != nil {
			t.Fatal(err)
		}
	}
	for root, want := range map[string]int{"/counted": 7, "/counted/a": 7, "/counted/a/e1": 1} {
		if got, hidden, err := CountEphemerals(ctx, s.Client, root, nil); got != want || hidden != 0 || err != nil {
			t.Errorf("%s: %d, %v; want %d", root, got, err, want)
		}
	}
	if _, _, err := CountEphemerals(ctx, s.Client, "/none", nil); !errors.Is(err, zkconn.NoNode) {
		t.Errorf("%v", err)
	}
}
