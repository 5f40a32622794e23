package zktree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"pgregory.net/rapid"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

// fakeTree is a tree whose children are computed by a function. It counts requests.
type fakeTree struct {
	children func(path string) ([]string, error)
	asked    map[string]int
	batches  int
	open     int // requests that nobody has waited for
	most     int // maximum of open
	last     int // number of paths in the last request
	slow     bool
}

// walk starts a walk of the tree.
func (f *fakeTree) walk(root string, o Options) (*walk, error) {
	w := newWalk(context.Background(), root, o)
	w.start = func(r *request) { f.answer(w, r) }
	return w, w.readRoot()
}

// answer answers the request r of the walk w.
func (f *fakeTree) answer(w *walk, r *request) {
	f.batches++
	f.open++
	f.last = len(r.items)
	f.most = max(f.most, f.open)
	if f.asked != nil {
		for _, i := range r.items {
			f.asked[i.Path]++
		}
	}
	r.reply = fakeReply{f}
	r.wait = func(context.Context) error {
		f.open--
		for len(r.items) > 0 {
			i := r.take()
			st := &zk.Stat{DataLength: int32(len(i.Path))}
			if r.kind == askStat {
				w.putStat(i, st, nil)
				continue
			}
			names, err := f.children(i.Path)
			if r.kind == askList && err == nil {
				i.Stat = st
			}
			w.putNames(i, names, err)
		}
		return nil
	}
}

type fakeReply struct{ f *fakeTree }

func (r fakeReply) Ready() bool { return r.f.batches%2 == 0 }

func (r fakeReply) Slowed() bool { return r.f.slow }

// TestWalkOfRandomTrees compares walks with a simple recursive listing, as in zkCli. Some znodes
// vanish before they are listed, and some are unreadable. Some walks have so little memory that
// they can hardly read ahead.
func TestWalkOfRandomTrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := map[string][]string{"/": nil}
		fates := map[string]error{}
		paths := []string{"/"}
		for i := range rapid.IntRange(0, 300).Draw(t, "znodes") {
			up := paths[max(0, len(paths)-1-rapid.IntRange(0, len(paths)-1).Draw(t, "up"))]
			if rapid.IntRange(0, 3).Draw(t, "wide") == 0 {
				up = paths[0]
			}
			name := fmt.Sprint(rapid.SampledFrom(strings.Split("a b - 0 ü Z", " ")).Draw(t, "name"), i)
			child := zkconn.Join(up, name)
			tree[up] = append(tree[up], name)
			paths = append(paths, child)
			switch rapid.IntRange(0, 15).Draw(t, "fate") {
			case 0:
				fates[child] = &zkconn.Error{Code: zkconn.NoNode, Path: child}
			case 1:
				fates[child] = &zkconn.Error{Code: zkconn.NoAuth, Path: child}
			}
		}
		src := &fakeTree{asked: map[string]int{}, children: func(p string) ([]string, error) {
			if fates[p] != nil {
				return nil, fates[p]
			}
			return slices.Clone(tree[p]), nil
		}}
		depth := rapid.IntRange(0, 4).Draw(t, "depth")
		o := Options{Depth: depth, Stat: rapid.Bool().Draw(t, "stat")}
		w, err := src.walk("/", o)
		zktest.Must(t, err)
		w.ahead.limit = rapid.SampledFrom([]int{0, 1000, 10_000, readAheadBytes}).Draw(t, "memory")
		var got, want []string
		for z, err := range w.znodes {
			if z == nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(z.Path, z.Children, err))
			if o.Stat != (z.Stat != nil) && err == nil {
				t.Fatalf("%s: stat %v", z.Path, z.Stat)
			}
		}
		var former func(p string, d int)
		former = func(p string, d int) {
			known := o.Depth == 0 || d < o.Depth
			fate := fates[p]
			if known && fate != nil && fate.(*zkconn.Error).Code == zkconn.NoNode {
				return
			}
			var names []string
			if known && fate == nil {
				names = slices.Sorted(slices.Values(tree[p]))
			}
			if !known {
				fate = nil
			}
			want = append(want, fmt.Sprint(p, names, fate))
			for _, n := range names {
				former(zkconn.Join(p, n), d+1)
			}
		}
		former("/", 0)
		if !slices.Equal(got, want) {
			t.Fatalf("\n got %q\nwant %q", got, want)
		}
		for p, n := range src.asked {
			if n != 1 {
				t.Fatalf("%s was asked for %d times", p, n)
			}
		}
		if src.most > window {
			t.Fatalf("%d requests at a time", src.most)
		}
	})
}

// endlessTree returns a tree in which every znode down to the given depth has fan children.
func endlessTree(fan, depth int) *fakeTree {
	names := make([]string, fan)
	for i := range names {
		names[i] = fmt.Sprintf("name-%06d", i)
	}
	return &fakeTree{children: func(p string) ([]string, error) {
		if strings.Count(p, "/") > depth {
			return nil, nil
		}
		return slices.Clone(names), nil
	}}
}

// TestWalkKeepsLittle checks that a long walk of a huge tree holds little in memory.
func TestWalkKeepsLittle(t *testing.T) {
	for name, src := range map[string]*fakeTree{"wide": endlessTree(1000, 1000), "narrow": endlessTree(2, 1000), "two levels": endlessTree(1000, 2)} {
		for _, stat := range []bool{false, true} {
			w, err := src.walk("/top", Options{Stat: stat})
			zktest.Must(t, err)
			steps, kept := 0, 0
			for z, err := range w.znodes {
				zktest.Must(t, err)
				kept = max(kept, w.ahead.buffered)
				if steps++; steps == 300_000 || dump.Depth(z.Path) > 500 {
					break
				}
			}
			// The first answers of a new depth may be larger than estimated.
			if limit := 2 * readAheadBytes; kept > limit {
				t.Errorf("%s, stat %v: %d bytes were kept, more than %d", name, stat, kept, limit)
			}
			if src.open > window {
				t.Errorf("%s: %d requests were open", name, src.open)
			}
			src.open = 0
		}
	}
}

// TestWalkEndsWithTheLoop checks that a walk requests nothing after the loop is left.
func TestWalkEndsWithTheLoop(t *testing.T) {
	src := endlessTree(100, 3)
	w, err := src.walk("/top", Options{})
	zktest.Must(t, err)
	asked := 0
	for z, err := range w.znodes {
		zktest.Must(t, err)
		if dump.Depth(z.Path) == 3 {
			asked = src.batches
			break
		}
	}
	if src.batches != asked || asked == 0 || asked > 2*window {
		t.Errorf("%d requests until the loop was left, %d then", asked, src.batches)
	}
}

// TestErrorComesLast checks that a walk that fails yields all znodes before the one that it cannot read.
func TestErrorComesLast(t *testing.T) {
	names := make([]string, 2000)
	for i := range names {
		names[i] = fmt.Sprintf("n%04d", i)
	}
	src := &fakeTree{children: func(p string) ([]string, error) {
		switch p {
		case "/top":
			return names, nil
		case "/top/n1500":
			return nil, zkconn.Unimplemented
		}
		return nil, nil
	}}
	w, err := src.walk("/top", Options{})
	zktest.Must(t, err)
	var got []string
	for z, now := range w.znodes {
		if err = now; z != nil {
			got = append(got, z.Path)
		}
	}
	if len(got) != 1501 || got[1500] != "/top/n1499" || !errors.Is(err, zkconn.Unimplemented) {
		t.Errorf("%d znodes, and %v", len(got), err)
	}
}
