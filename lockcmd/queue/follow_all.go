package queue

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/zksh/zksh/internal/render"
)

// An AllFollower observes all queues below a path. It has no watches, so the caller must call
// Update again and again.
type AllFollower struct {
	e     TreeEnsemble
	path  string
	last  *Survey // queues as of the latest reading; nil before the first one
	marks marks
}

// FollowAll returns an AllFollower for the queues below path. Call Update to read the queues.
func FollowAll(e TreeEnsemble, path string) *AllFollower { return &AllFollower{e: e, path: path} }

// Update reads all queues and returns the changes since the previous call. Each change contains the
// path of its lock. Of a contender that came and left between two calls, it reports nothing.
func (f *AllFollower) Update(ctx context.Context) ([]Change, error) {
	s, err := LookAll(ctx, f.e, f.path)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(s.Queues, func(a, b *Queue) int { return cmp.Compare(b.waiters(), a.waiters()) })
	before, is, now := f.last.byPath(), s.byPath(), time.Now()
	paths := map[string]bool{}
	for path := range before {
		paths[path] = true
	}
	for path := range is {
		paths[path] = true
	}
	var list []Change
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		was := before[path]
		if was == nil && f.last != nil {
			was = &Queue{}
		}
		some := changes(was, cmp.Or(is[path], &Queue{}), now)
		for i := range some {
			some[i].Path = path
		}
		f.marks.add(path, some, now)
		list = append(list, some...)
	}
	f.last = s
	return list, nil
}

// byPath returns the queues by path. s may be nil.
func (s *Survey) byPath() map[string]*Queue {
	m := map[string]*Queue{}
	if s != nil {
		for _, q := range s.Queues {
			m[q.Path] = q
		}
	}
	return m
}

// waiters returns the number of contenders that wait.
func (q *Queue) waiters() int { return len(q.Contenders) - len(q.holders()) }

// Picture returns all queues as lines that fit a terminal of the given size, the queue with the most
// waiters first. If connected is false, the lines say that they show the last known state. Picture
// returns nil until the first Update has succeeded.
func (f *AllFollower) Picture(columns, rows int, connected bool) []render.Line {
	if f.last == nil {
		return nil
	}
	now, holders, waiters := time.Now(), 0, 0
	for _, q := range f.last.Queues {
		holders, waiters = holders+len(q.holders()), waiters+q.waiters()
	}
	lines := plainLines(fmt.Sprintf("all queues below %s: %d hold, %d wait", render.Safe(f.path), holders, waiters))
	if !connected {
		lines = append(lines, plainLines(lostLine)...)
	}
	lines = append(lines, plainLines(f.last.Remarks()...)...)
	for _, q := range f.shown(now) {
		title := q.title()
		if first := q.firstWaiter(); first != nil {
			title += ", the longest for " + first.Age
		}
		lines = append(append(lines, render.Line{{Text: title, Style: render.Strong}}), f.marks.picture(q, columns, now)...)
	}
	return cutLines(lines, rows)
}

// shown returns the queues to show: all queues, and then those that have just become empty.
func (f *AllFollower) shown(now time.Time) []*Queue {
	list := slices.Clone(f.last.Queues)
	for _, k := range f.marks {
		known := slices.ContainsFunc(list, func(q *Queue) bool { return q.Path == k.path })
		if !known && now.Before(k.until) {
			list = append(list, &Queue{Path: k.path})
		}
	}
	return list
}
