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

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

func TestMain(m *testing.M) {
	writeGrace = 10 * time.Second
	zktest.Main(m)
}

func open(t *testing.T, root string) *zkconn.Session {
	t.Helper()
	s := zksession.Open(t, zkconn.Config{Servers: zktest.Shared(t).Addr(), Timeout: 20 * time.Second})
	create(t, s, root)
	return s
}

// walkOn starts a walk on the server.
func walkOn(t *testing.T, s *zkconn.Session, root string, o Options) *walk {
	t.Helper()
	w, err := begin(t.Context(), s.Client, root, o)
	zktest.Must(t, err)
	return w
}

// walkAll returns the paths of a walk in the order of ls -R, and the number of unreadable znodes.
func walkAll(t *testing.T, w *walk) (all []string, unreadable int) {
	t.Helper()
	all = []string{w.root}
	for z, err := range w.znodes {
		if z == nil {
			t.Fatal(err)
		}
		if err != nil {
			unreadable++
		}
		for _, name := range z.Children {
			all = append(all, zkconn.Join(z.Path, name))
		}
	}
	return all, unreadable
}

func TestWalkOrder(t *testing.T) {
	s := open(t, "/order")
	create(t, s, "/order/b", "/order/a", "/order/C", "/order/10", "/order/9")
	create(t, s, "/order/a/z", "/order/a/y", "/order/b/x")
	create(t, s, "/order/a/z/deep")
	// The order is that of zkCli's ls -R in the recording c12.
	want := strings.Fields("/order /order/10 /order/9 /order/C /order/a /order/b /order/a/y /order/a/z /order/a/z/deep /order/b/x")
	for name, w := range map[string]*walk{
		"multiRead": walkOn(t, s, "/order", Options{}),
		"watches":   walkOn(t, s, "/order", Options{Watch: true}),
		"stats":     walkOn(t, s, "/order", Options{Stat: true}),
	} {
		if got, _ := walkAll(t, w); !slices.Equal(got, want) {
			t.Errorf("by %s:\n got %v\nwant %v", name, got, want)
		}
	}
	var got []string
	for z, err := range walkOn(t, s, "/order", Options{Stat: true, Depth: 1}).znodes {
		zktest.Must(t, err)
		got = append(got, fmt.Sprintf("%s %d", z.Path, z.Stat.NumChildren))
	}
	if want := []string{"/order 5", "/order/10 0", "/order/9 0", "/order/C 0", "/order/a 2", "/order/b 1"}; !slices.Equal(got, want) {
		t.Errorf("one level with stats:\n got %v\nwant %v", got, want)
	}
}

func TestWalkMissing(t *testing.T) {
	s := open(t, "/missing")
	if _, err := Walk(t.Context(), s.Client, "/missing/none", Options{}); !errors.Is(err, zkconn.NoNode) {
		t.Errorf("got %v, want NoNode", err)
	}
}

// TestWalkWhileTheTreeChanges walks a tree in which another client creates and deletes znodes as
// fast as it can. The walk always finds the znodes that stay.
func TestWalkWhileTheTreeChanges(t *testing.T) {
	s, other := open(t, "/busy"), open(t, "/busier")
	var stay []string
	for i := range 40 {
		dir := fmt.Sprintf("/busy/d%02d", i)
		stay = append(stay, dir)
		for j := range 20 {
			stay = append(stay, fmt.Sprintf("%s/n%02d", dir, j))
		}
	}
	create(t, s, stay...)
	slices.Sort(stay)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			dir := fmt.Sprintf("/busy/d%02d/m%d", i%40, i%7)
			for _, path := range []string{dir, dir + "/x", dir + "/y"} {
				_, _ = zkconn.Do(ctx, other, zkconn.Create(path, nil, zkconn.OpenACL(), zkconn.CreateMode{})) // fails when ctx ends
			}
			_, _ = Delete(ctx, other.Client, dir, 1+i%3, nil, nil)
		}
	})
	defer wg.Wait()
	defer stop()
	for round := range 30 {
		all, _ := walkAll(t, walkOn(t, s, "/busy", Options{Watch: round%3 == 0, Stat: round%3 == 1}))
		found := slices.DeleteFunc(all[1:], func(path string) bool { return strings.Contains(path, "/m") })
		if slices.Sort(found); !slices.Equal(found, stay) {
			t.Fatalf("round %d: %d of %d znodes that stay", round, len(found), len(stay))
		}
	}
}

func TestWalkPassesWhatIsShut(t *testing.T) {
	s := open(t, "/shut")
	create(t, s, "/shut/a", "/shut/a/in", "/shut/b", "/shut/b/in", "/shut/c")
	for _, path := range []string{"/shut/a", "/shut/c"} {
		zktest.Must(t, zkconn.Exec(t.Context(), s, zkconn.SetACL(path, zk.WorldACL(zk.PermAll&^zk.PermRead), -1)))
	}
	want := strings.Fields("/shut /shut/a /shut/b /shut/c /shut/b/in")
	for _, o := range []Options{{}, {Stat: true}} {
		all, unreadable := walkAll(t, walkOn(t, s, "/shut", o))
		if !slices.Equal(all, want) || unreadable != 2 {
			t.Errorf("%+v: %d unreadable, %v", o, unreadable, all)
		}
	}
	// Delete deletes every znode that it can; the children of /shut/a cannot be listed.
	n, err := Delete(t.Context(), s.Client, "/shut", DefaultBatch, nil, nil)
	if text := fmt.Sprint(err); n != 3 || !errors.Is(err, zkconn.NoAuth) || text != "deleted 3 of 5 znodes of /shut: Insufficient permission : /shut/a" {
		t.Errorf("%d deleted: %s", n, text)
	}
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
	wg.Go(func() { // creates children of znodes that are about to be deleted
		for i := 0; i < 300 && ctx.Err() == nil; i++ {
			err := zkconn.Exec(ctx, s, zkconn.Create(paths[i]+"/late", nil, zkconn.OpenACL(), zkconn.CreateMode{}))
			if err != nil && !errors.Is(err, zkconn.NoNode) && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	_, err := Delete(t.Context(), s.Client, "/appear", 100, nil, nil)
	stop()
	wg.Wait()
	zktest.Must(t, err)
	if err := zkconn.Exec(t.Context(), s, zkconn.Exists("/appear")); !errors.Is(err, zkconn.NoNode) {
		t.Errorf("the root is still there: %v", err)
	}
}

func TestDeleteNamesWhatRemains(t *testing.T) {
	s := open(t, "/denied")
	create(t, s, "/denied/a", "/denied/b", "/denied/b/c", "/denied/b/d")
	readOnly := zk.WorldACL(zk.PermRead | zk.PermAdmin)
	zktest.Must(t, zkconn.Exec(t.Context(), s, zkconn.SetACL("/denied/b", readOnly, -1)))
	for _, batch := range []int{DefaultBatch, 0} {
		n, err := Delete(t.Context(), s.Client, "/denied", batch, nil, nil)
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
	zktest.Must(t, zkconn.Exec(t.Context(), s, zkconn.SetACL("/denied/b", zkconn.OpenACL(), -1)))
	if _, err := Delete(t.Context(), s.Client, "/denied", 1, nil, nil); err != nil {
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
	n, err := Delete(ctx, s.Client, "/stop", 50, nil, func(done, _ int) {
		if done >= 500 {
			stop(errStop)
		}
	})
	if !errors.Is(err, errStop) || n < 500 || !strings.Contains(err.Error(), fmt.Sprintf("deleted %d znodes of /stop; the subtree contains more znodes: ", n)) {
		t.Errorf("deleted %d: %v", n, err)
	}
	list, err := zkconn.Do(t.Context(), s, zkconn.List("/stop"))
	zktest.Must(t, err)
	if len(list.Names)+n != 5000 {
		t.Errorf("%d deleted, %d left", n, len(list.Names))
	}
}

func TestSetACL(t *testing.T) {
	s := open(t, "/acl")
	create(t, s, "/acl/a", "/acl/a/b")
	acl := zk.WorldACL(zk.PermRead | zk.PermAdmin)
	n, err := SetACL(t.Context(), s.Client, "/acl", acl, 0, nil, nil)
	if err != nil || n != 3 {
		t.Fatalf("changed %d: %v", n, err)
	}
	access, err := zkconn.Do(t.Context(), s, zkconn.GetACL("/acl/a/b"))
	if err != nil || !slices.Equal(access.ACL, acl) || access.Stat.Aversion != 1 {
		t.Errorf("%v %+v %v", access.ACL, access.Stat, err)
	}
	n, err = SetACL(t.Context(), s.Client, "/acl", acl, 7, nil, nil)
	if n != 0 || !errors.Is(err, zkconn.BadVersion) || !strings.Contains(err.Error(), "/acl/a/b") {
		t.Errorf("changed %d: %v", n, err)
	}
}

// Walk and Delete handle trees, flat and nested, whose listing is several times the size of a frame.
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
		if got, _ := walkAll(t, walkOn(t, s, root, Options{})); len(got) != total {
			t.Errorf("%s: %d listed, want %d", name, len(got), total)
		}
		if n, err := Delete(t.Context(), s.Client, root, DefaultBatch, nil, nil); err != nil || n != total {
			t.Errorf("%s: deleted %d of %d: %v", name, n, total, err)
		}
	}
}

// TestDeepAndWide walks and deletes a chain of 1,000 znodes and a folder of 200,000 (20,000 under
// the race detector). make test also runs it without the race detector.
func TestDeepAndWide(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED: it takes long")
	}
	s := zksession.Open(t, zkconn.Config{Servers: zktest.Sandbox(t, sandbox.Options{}).Addr(), Timeout: 20 * time.Second})
	create(t, s, "/deep", "/wide")
	chain := []string{"/deep"}
	for range 1000 {
		chain = append(chain, chain[len(chain)-1]+"/d")
	}
	create(t, s, chain[1:]...)
	size := 200_000
	if zktest.UnderRace() {
		size /= 10
	}
	wide := make([]string, size)
	for i := range wide {
		wide[i] = fmt.Sprintf("/wide/n%06d", i)
	}
	create(t, s, wide...)
	for root, want := range map[string][]string{"/deep": chain, "/wide": append([]string{"/wide"}, wide...)} {
		for _, o := range []Options{{}, {Stat: true}} {
			if got, _ := walkAll(t, walkOn(t, s, root, o)); !slices.Equal(got, want) {
				t.Errorf("%s, %+v: %d znodes, want %d, or out of order", root, o, len(got), len(want))
			}
		}
		if n, err := Delete(t.Context(), s.Client, root, DefaultBatch, nil, nil); n != len(want) || err != nil {
			t.Errorf("deleted %d of %s: %v", n, root, err)
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

// create creates znodes in order, with many requests in flight.
func create(t *testing.T, s *zkconn.Session, paths ...string) {
	t.Helper()
	p, err := s.Pipe(t.Context(), "/")
	zktest.Must(t, err)
	op := func(path string) zkconn.Op[zkconn.Written] {
		return zkconn.Create(path, nil, zkconn.OpenACL(), zkconn.CreateMode{})
	}
	for some := range slices.Chunk(paths, singleBatch) {
		zktest.Must(t, zkconn.AddEach(p, some, op).Each(t.Context(), func(_ zkconn.Written, refusal error) {
			zktest.Check(t, refusal) // it names the path
		}))
	}
}

func TestCountEphemerals(t *testing.T) {
	ctx := context.Background()
	s := open(t, "/counted")
	create(t, s, "/counted/a")
	for i := range 7 {
		zktest.Must(t, zkconn.Exec(ctx, s, zkconn.Create(fmt.Sprintf("/counted/a/e%d", i), nil, zkconn.OpenACL(), zkconn.CreateMode{Ephemeral: true})))
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
