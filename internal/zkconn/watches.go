package zkconn

import (
	"maps"
	"slices"
	"strings"

	"github.com/zksh/zksh/internal/jute"
)

// WatchKind is a family of watches on a path.
type WatchKind int

// The families, in the order in which setWatches2 lists them.
const (
	DataWatch WatchKind = iota
	ExistWatch
	ChildWatch
	PersistentWatch
	RecursiveWatch
	watchKinds
)

type pathSet map[string]struct{}

// watchTable knows which watches the server holds for the session, by server
// path, so that they can be set again on another connection. Not safe for
// concurrent use; the link's lock guards it.
type watchTable [watchKinds]pathSet

func (w *watchTable) add(k WatchKind, path string) {
	if w[k] == nil {
		w[k] = pathSet{}
	}
	w[k][path] = struct{}{}
}

// fired forgets the one-shot watches an event used up.
func (w *watchTable) fired(t EventType, path string) {
	switch t {
	case EventNodeCreated, EventNodeDataChanged:
		delete(w[DataWatch], path)
		delete(w[ExistWatch], path)
	case EventNodeDeleted:
		delete(w[DataWatch], path)
		delete(w[ExistWatch], path)
		delete(w[ChildWatch], path)
	case EventNodeChildrenChanged:
		delete(w[ChildWatch], path)
	}
}

// remove forgets the watches of these kinds on path and tells which there were.
func (w *watchTable) remove(path string, kinds ...WatchKind) []WatchKind {
	var had []WatchKind
	for _, k := range kinds {
		if _, ok := w[k][path]; ok {
			had = append(had, k)
			delete(w[k], path)
		}
	}
	return had
}

func (w *watchTable) clear() { *w = watchTable{} }

// sees tells whether an event of path's data or deletion is for one of these.
func (w *watchTable) sees(path string) bool {
	for _, k := range []WatchKind{DataWatch, ExistWatch, ChildWatch, PersistentWatch} {
		if _, ok := w[k][path]; ok {
			return true
		}
	}
	for above := path; ; above = above[:strings.LastIndexByte(above, '/')] {
		if above == "" {
			above = "/"
		}
		if _, ok := w[RecursiveWatch][above]; ok || above == "/" {
			return ok
		}
	}
}

// with is the table with data watches on these paths added.
func (w *watchTable) with(paths []string) *watchTable {
	if len(paths) == 0 {
		return w
	}
	both := *w
	both[DataWatch] = maps.Clone(w[DataWatch])
	for _, p := range paths {
		both.add(DataWatch, p)
	}
	return &both
}

// wakeTable says whom to wake at the next change of a znode, by server path: the
// watches of locks, which the user does not see. An entry without anybody is a
// watch that the server still holds and nobody waits for. The link's lock guards it.
type wakeTable map[string][]chan<- struct{}

// fire wakes all that wait for path, and tells whether there was such a watch.
func (w wakeTable) fire(path string) bool {
	wakes, ok := w[path]
	delete(w, path)
	for _, c := range wakes {
		select {
		case c <- struct{}{}:
		default: // it has not looked since the last time
		}
	}
	return ok
}

// paths are those that somebody waits for. The others are forgotten: another
// connection does not have their watches.
func (w wakeTable) paths() []string {
	maps.DeleteFunc(w, func(_ string, wakes []chan<- struct{}) bool { return len(wakes) == 0 })
	return slices.Collect(maps.Keys(w))
}

// setWatchesLimit bounds the paths of one setWatches request in bytes, as the
// Java client does, well below any server's frame limit.
const setWatchesLimit = 128 << 10

// requests encodes what sets all watches again: setWatches2 only where there is
// a persistent watch, since servers before 3.6 do not know it.
func (w *watchTable) requests(zxid int64) []*call {
	op := int32(jute.OpSetWatches)
	kinds := ChildWatch + 1
	if len(w[PersistentWatch])+len(w[RecursiveWatch]) > 0 {
		op, kinds = jute.OpSetWatches2, watchKinds
	}
	var calls []*call
	var chunk [watchKinds][]string
	size := 0
	flush := func() {
		if size == 0 {
			return
		}
		var e jute.Encoder
		e.Long(zxid)
		for k := range kinds {
			e.Strings(chunk[k])
		}
		calls = append(calls, &call{op: op, body: e.B, done: make(chan reply, 1)})
		chunk, size = [watchKinds][]string{}, 0
	}
	for k := range kinds {
		for _, p := range slices.Sorted(maps.Keys(w[k])) {
			if size += 4 + len(p); size > setWatchesLimit {
				flush()
				size = 4 + len(p)
			}
			chunk[k] = append(chunk[k], p)
		}
	}
	flush()
	return calls
}
