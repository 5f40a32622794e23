package zktree

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"pgregory.net/rapid"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

// fakeSource is a Source whose children are computed by a function. It counts requests.
type fakeSource struct {
	children func(path string) ([]string, error)
	asked    map[string]int
	batches  int
	open     int // requests that nobody has waited for
	most     int // maximum of open
	last     int // number of paths in the last request
	slow     bool
}

func (s *fakeSource) Batch(want Want) int { return 256 }

func (s *fakeSource) Ask(paths []string, want Want) Answer {
	s.batches++
	s.open++
	s.last = len(paths)
	s.most = max(s.most, s.open)
	if s.asked != nil {
		for _, p := range paths {
			s.asked[p]++
		}
	}
	return fakeAnswer{s, paths, want}
}

type fakeAnswer struct {
	s     *fakeSource
	paths []string
	want  Want
}

func (a fakeAnswer) Ready() bool { return a.s.batches%2 == 0 }

func (a fakeAnswer) Slowed() bool { return a.s.slow }

func (a fakeAnswer) Wait(_ context.Context, room []Entry) ([]Entry, error) {
	a.s.open--
	entries := room[:0]
	for _, p := range a.paths {
		var e Entry
		if a.want.Names {
			e.Names, e.Err = a.s.children(p)
		}
		if a.want.Stat {
			e.Stat = &zk.Stat{DataLength: int32(len(p))}
		}
		entries = append(entries, e)
	}
	return entries, nil
}

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
		src := &fakeSource{asked: map[string]int{}, children: func(p string) ([]string, error) {
			if fates[p] != nil {
				return nil, fates[p]
			}
			return slices.Clone(tree[p]), nil
		}}
		depth := rapid.IntRange(0, 4).Draw(t, "depth")
		o := Options{Depth: depth, Stat: rapid.Bool().Draw(t, "stat")}
		w, err := Begin(context.Background(), src, "/", o)
		zktest.Must(t, err)
		w.ahead.limit = rapid.SampledFrom([]int{0, 1000, 10_000, readAheadBytes}).Draw(t, "memory")
		var got, want []string
		open := []string{}
		for s, err := range w.Steps() {
			switch {
			case err != nil:
				t.Fatal(err)
			case s.Kind == Enter:
				got = append(got, fmt.Sprint(s.Path(), s.Depth, s.Names, s.Last, s.Err))
				if len(s.Names) > 0 {
					open = append(open, s.Path())
				}
			case s.Kind == Leave:
				if last := open[len(open)-1]; last != s.Path() {
					t.Fatalf("left %s and not %s", s.Path(), last)
				}
				open = open[:len(open)-1]
			}
		}
		var former func(p string, d int, last bool)
		former = func(p string, d int, last bool) {
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
			want = append(want, fmt.Sprint(p, d, names, last, fate))
			for i, n := range names {
				former(zkconn.Join(p, n), d+1, i == len(names)-1)
			}
		}
		former("/", 0, true)
		if !slices.Equal(got, want) {
			t.Fatalf("\n got %q\nwant %q", got, want)
		}
		if len(open) > 0 {
			t.Fatalf("%v were never left", open)
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
func endlessTree(fan, depth int) *fakeSource {
	names := make([]string, fan)
	for i := range names {
		names[i] = fmt.Sprintf("name-%06d", i)
	}
	return &fakeSource{children: func(p string) ([]string, error) {
		if strings.Count(p, "/") > depth {
			return nil, nil
		}
		return slices.Clone(names), nil
	}}
}

// TestWalkKeepsLittle checks that a long walk of a huge tree holds little in memory.
func TestWalkKeepsLittle(t *testing.T) {
	for name, src := range map[string]*fakeSource{"wide": endlessTree(1000, 1000), "narrow": endlessTree(2, 1000), "two levels": endlessTree(1000, 2)} {
		for _, stat := range []bool{false, true} {
			w, err := Begin(t.Context(), src, "/top", Options{Stat: stat})
			zktest.Must(t, err)
			steps, kept := 0, 0
			for s, err := range w.Steps() {
				zktest.Must(t, err)
				kept = max(kept, w.ahead.buffered)
				if steps++; steps == 300_000 || s.Depth > 500 {
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
	w, err := Begin(t.Context(), src, "/top", Options{})
	zktest.Must(t, err)
	asked := 0
	for s, err := range w.Steps() {
		zktest.Must(t, err)
		if s.Kind == Enter && s.Depth == 2 {
			asked = src.batches
			break
		}
	}
	if src.batches != asked || asked == 0 || asked > 2*window {
		t.Errorf("%d requests until the loop was left, %d then", asked, src.batches)
	}
}
