package zkconn

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/zksh/zksh/internal/jute"
)

// watchKind is a family of watches on a path.
type watchKind int

// The families, in the order in which setWatches2 lists them.
const (
	dataWatch watchKind = iota
	existWatch
	childWatch
	persistentWatch
	recursiveWatch
	watchKinds
)

type pathSet map[string]struct{}

// watchTable knows which watches the server holds for the session, by server
// path, so that they can be set again on another connection. Not safe for
// concurrent use; the link's lock guards it.
type watchTable [watchKinds]pathSet

func (w *watchTable) add(k watchKind, path string) {
	if w[k] == nil {
		w[k] = pathSet{}
	}
	w[k][path] = struct{}{}
}

// uses are the kinds of one-shot watches that an event uses up.
func (t EventType) uses() []watchKind {
	switch t {
	case eventNodeCreated, eventNodeDataChanged:
		return []watchKind{dataWatch, existWatch}
	case eventNodeDeleted:
		return []watchKind{dataWatch, existWatch, childWatch}
	case eventNodeChildrenChanged:
		return []watchKind{childWatch}
	}
	return nil
}

// fired forgets the one-shot watches an event used up.
func (w *watchTable) fired(t EventType, path string) {
	for _, k := range t.uses() {
		delete(w[k], path)
	}
}

// has tells whether there is a watch of one of these kinds on path.
func (w *watchTable) has(path string, kinds ...watchKind) bool {
	return slices.ContainsFunc(kinds, func(k watchKind) bool { _, ok := w[k][path]; return ok })
}

// remove forgets the watches of these kinds on path and tells which there were.
func (w *watchTable) remove(path string, kinds ...watchKind) []watchKind {
	var had []watchKind
	for _, k := range kinds {
		if _, ok := w[k][path]; ok {
			had = append(had, k)
			delete(w[k], path)
		}
	}
	return had
}

// sees tells whether an event of path is for one of these.
func (w *watchTable) sees(t EventType, path string) bool {
	if w.has(path, append(t.uses(), persistentWatch)...) {
		return true
	}
	if t == eventNodeChildrenChanged { // a recursive watch hears of the children themselves
		return false
	}
	for above := path; ; above = above[:strings.LastIndexByte(above, '/')] {
		if above == "" {
			above = "/"
		}
		if _, ok := w[recursiveWatch][above]; ok || above == "/" {
			return ok
		}
	}
}

// with is the table with these watches added.
func (w *watchTable) with(more []watchKey) *watchTable {
	both := *w
	for _, kind := range []watchKind{dataWatch, existWatch, childWatch} {
		both[kind] = maps.Clone(w[kind])
	}
	for _, k := range more {
		both.add(k.kind, k.path)
	}
	return &both
}

// watchKey is one watch.
type watchKey struct {
	kind watchKind
	path string // the server's
}

// watcher notes a watch that the server now holds. It runs with the link's lock
// held. A nil one asks for no watch.
type watcher func(l *link, at watchKey)

// shown is a watch whose event the user sees.
func shown(watch bool) watcher {
	if !watch {
		return nil
	}
	return func(l *link, at watchKey) { l.watches.add(at.kind, at.path) }
}

// waking is a quiet watch: a value is sent into wake, if there is room, and the
// user does not see it.
func waking(wake chan<- struct{}) watcher {
	if wake == nil {
		return nil
	}
	return func(l *link, at watchKey) {
		if !slices.Contains(l.wakes[at], wake) {
			l.wakes[at] = append(l.wakes[at], wake)
		}
	}
}

// wakeTable says whom quiet watches wake. An entry without anybody is a watch
// that the server still holds and nobody waits for. The link's lock guards it.
type wakeTable map[watchKey][]chan<- struct{}

// drop takes wake off a watch. The server keeps its watch until it fires.
func (w wakeTable) drop(at watchKey, wake chan<- struct{}) {
	if wakes, ok := w[at]; ok {
		w[at] = slices.DeleteFunc(wakes, func(c chan<- struct{}) bool { return c == wake })
	}
}

// fire wakes all that wait for such an event of path, and tells whether there
// was such a watch.
func (w wakeTable) fire(path string, kinds ...watchKind) (had bool) {
	for _, kind := range kinds {
		wakes, ok := w[watchKey{kind, path}]
		delete(w, watchKey{kind, path})
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
func (w wakeTable) awaited() []watchKey {
	maps.DeleteFunc(w, func(_ watchKey, wakes []chan<- struct{}) bool { return len(wakes) == 0 })
	return slices.Collect(maps.Keys(w))
}

// WatcherType says which watches RemoveWatches removes.
type WatcherType int32

// The values of Watcher.WatcherType; the persistent ones need a 3.9 server.
const (
	ChildrenWatches   WatcherType = 1
	DataWatches       WatcherType = 2
	AnyWatches        WatcherType = 3
	PersistentWatches WatcherType = 4
	RecursiveWatches  WatcherType = 5
)

// kinds are the watches a type covers, in the order in which their removal shows.
func (t WatcherType) kinds() []watchKind {
	switch t {
	case ChildrenWatches:
		return []watchKind{childWatch, persistentWatch, recursiveWatch}
	case DataWatches:
		return []watchKind{dataWatch, existWatch, persistentWatch, recursiveWatch}
	case PersistentWatches:
		return []watchKind{persistentWatch}
	case RecursiveWatches:
		return []watchKind{recursiveWatch}
	}
	return []watchKind{childWatch, dataWatch, existWatch, persistentWatch, recursiveWatch}
}

// removedEvents is the event each kind of removed watch shows.
var removedEvents = map[watchKind]EventType{
	childWatch:      eventChildWatchRemoved,
	dataWatch:       eventDataWatchRemoved,
	existWatch:      eventDataWatchRemoved,
	persistentWatch: eventPersistentWatchRemoved,
	recursiveWatch:  eventPersistentWatchRemoved,
}

// forgetWatches is called with mu held. The server has dropped the quiet watches
// with the user's, so those who wait for them are woken.
func (l *link) forgetWatches(path string, t WatcherType, state KeeperState) {
	l.wakes.fire(path, t.kinds()...)
	var events []EventType
	for _, k := range l.watches.remove(path, t.kinds()...) {
		events = append(events, removedEvents[k])
	}
	for _, e := range slices.Compact(events) {
		l.emit(Event{Type: e, State: state, Path: l.root.client(path)})
	}
}

// setWatchesLimit bounds the paths of one setWatches request in bytes, as the
// Java client does, well below any server's frame limit.
const setWatchesLimit = 128 << 10

// requests encodes what sets all watches again: setWatches2 only where there is
// a persistent watch, since servers before 3.6 do not know it.
func (w *watchTable) requests(ctx context.Context, zxid int64) []*call {
	op := int32(jute.OpSetWatches)
	kinds := childWatch + 1
	if len(w[persistentWatch])+len(w[recursiveWatch]) > 0 {
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
		calls = append(calls, &call{ctx: ctx, op: op, body: e.B, done: make(chan reply, 1)})
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
