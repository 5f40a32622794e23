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

// uses are the kinds of one-shot watches that an event uses up.
func (t EventType) uses() []WatchKind {
	switch t {
	case EventNodeCreated, EventNodeDataChanged:
		return []WatchKind{DataWatch, ExistWatch}
	case EventNodeDeleted:
		return []WatchKind{DataWatch, ExistWatch, ChildWatch}
	case EventNodeChildrenChanged:
		return []WatchKind{ChildWatch}
	}
	return nil
}

// fired forgets the one-shot watches an event used up.
func (w *watchTable) fired(t EventType, path string) {
	for _, k := range t.uses() {
		delete(w[k], path)
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

// sees tells whether an event of path is for one of these.
func (w *watchTable) sees(t EventType, path string) bool {
	for _, k := range append(t.uses(), PersistentWatch) {
		if _, ok := w[k][path]; ok {
			return true
		}
	}
	if t == EventNodeChildrenChanged { // a recursive watch hears of the children themselves
		return false
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

// with is the table with these watches added.
func (w *watchTable) with(more []wakeKey) *watchTable {
	both := *w
	for _, kind := range []WatchKind{DataWatch, ExistWatch, ChildWatch} {
		both[kind] = maps.Clone(w[kind])
	}
	for _, k := range more {
		both.add(k.kind, k.path)
	}
	return &both
}

// wakeKey is one quiet watch: the user does not see it fire.
type wakeKey struct {
	kind WatchKind // DataWatch, ExistWatch or ChildWatch
	path string    // the server's
}

// wakeTable says whom quiet watches wake. An entry without anybody is a watch
// that the server still holds and nobody waits for. The link's lock guards it.
type wakeTable map[wakeKey][]chan<- struct{}

// fire wakes all that wait for such an event of path, and tells whether there
// was such a watch.
func (w wakeTable) fire(path string, kinds ...WatchKind) (had bool) {
	for _, kind := range kinds {
		wakes, ok := w[wakeKey{kind, path}]
		delete(w, wakeKey{kind, path})
		had = had || ok
		for _, c := range wakes {
			select {
			case c <- struct{}{}:
			default: // it has not looked since the last time
			}
		}
	}
	return had
}

// awaited are those that somebody waits for. The others are forgotten: another
// connection does not have their watches.
func (w wakeTable) awaited() []wakeKey {
	maps.DeleteFunc(w, func(_ wakeKey, wakes []chan<- struct{}) bool { return len(wakes) == 0 })
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
