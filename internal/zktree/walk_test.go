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
)

// trial is a Source that a test makes up. It counts what it is asked.
type trial struct {
	children func(path string) ([]string, error)
	asked    map[string]int
	batches  int
	open     int // batches that nobody has waited for
	most     int // of those
	last     int // paths in the last one
	slow     bool
}

func (s *trial) Batch(want Want) int { return 256 }

func (s *trial) Ask(paths []string, want Want) Answer {
	s.batches++
	s.open++
	s.last = len(paths)
	s.most = max(s.most, s.open)
	if s.asked != nil {
		for _, p := range paths {
			s.asked[p]++
		}
	}
	return trialAnswer{s, paths, want}
}

type trialAnswer struct {
	s     *trial
	paths []string
	want  Want
}

func (a trialAnswer) Ready() bool { return a.s.batches%2 == 0 }

func (a trialAnswer) Slowed() bool { return a.s.slow }

func (a trialAnswer) Wait(_ context.Context, room []Entry) ([]Entry, error) {
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

// TestWalkOfRandomTrees holds walks against zkCli's own way: the list of a znode, and
// then each child's subtree. Some znodes vanish before they are listed, some are shut;
// memory is sometimes so short that nearly nothing can be asked for ahead.
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
		src := &trial{asked: map[string]int{}, children: func(p string) ([]string, error) {
			if fates[p] != nil {
				return nil, fates[p]
			}
			return slices.Clone(tree[p]), nil
		}}
		depth := rapid.IntRange(0, 4).Draw(t, "depth")
		o := Options{Depth: depth, Stat: rapid.Bool().Draw(t, "stat")}
		w, err := Begin(context.Background(), src, "/", o)
		if err != nil {
			t.Fatal(err)
		}
		w.ahead.most = rapid.SampledFrom([]int{0, 1000, 10_000, aheadBytes}).Draw(t, "memory")
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

// endless is a tree in which every znode down to a depth has as many children.
func endless(fan, depth int) *trial {
	names := make([]string, fan)
	for i := range names {
		names[i] = fmt.Sprintf("name-%06d", i)
	}
	return &trial{children: func(p string) ([]string, error) {
		if strings.Count(p, "/") > depth {
			return nil, nil
		}
		return slices.Clone(names), nil
	}}
}

// TestWalkKeepsLittle goes far enough into trees that never end.
func TestWalkKeepsLittle(t *testing.T) {
	for name, src := range map[string]*trial{"wide": endless(1000, 1000), "narrow": endless(2, 1000), "two levels": endless(1000, 2)} {
		for _, stat := range []bool{false, true} {
			w, err := Begin(t.Context(), src, "/top", Options{Stat: stat})
			if err != nil {
				t.Fatal(err)
			}
			steps, kept := 0, 0
			for s, err := range w.Steps() {
				if err != nil {
					t.Fatal(err)
				}
				kept = max(kept, w.ahead.kept)
				if steps++; steps == 300_000 || s.Depth > 500 {
					break
				}
			}
			// A depth that is new may cost more than was expected, by what is asked for first.
			if limit := 2 * aheadBytes; kept > limit {
				t.Errorf("%s, stat %v: %d bytes were kept, more than %d", name, stat, kept, limit)
			}
			if src.open > window {
				t.Errorf("%s: %d requests were open", name, src.open)
			}
			src.open = 0
		}
	}
}

// TestWalkEndsWithTheLoop counts what is asked for once nobody wants more.
func TestWalkEndsWithTheLoop(t *testing.T) {
	src := endless(100, 3)
	w, err := Begin(t.Context(), src, "/top", Options{})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for s, err := range w.Steps() {
		if err != nil {
			t.Fatal(err)
		}
		if s.Kind == Enter && s.Depth == 2 {
			asked = src.batches
			break
		}
	}
	if src.batches != asked || asked == 0 || asked > 2*window {
		t.Errorf("%d requests until the loop was left, %d then", asked, src.batches)
	}
}
