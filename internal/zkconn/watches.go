package zkconn

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
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

// watchKey is where a watch is.
type watchKey struct {
	kind watchKind
	path string // the server's
}

// watch says whom an event is for. A watch that is for nobody is one that the
// server still holds.
type watch struct {
	shown bool                  // the user sees it
	wakes []chan<- zk.EventType // each is sent what has happened, if there is room
}

// watchTable knows which watches the server holds for the session, so that they
// can be set again on another connection. Not safe for concurrent use; the link's
// lock guards it.
type watchTable map[watchKey]watch

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

// has tells whether there is a watch of one of these kinds on path, or, if shown
// is true, one whose events the user sees.
func (w watchTable) has(shown bool, path string, kinds ...watchKind) bool {
	return slices.ContainsFunc(kinds, func(k watchKind) bool {
		found, ok := w[watchKey{k, path}]
		return ok && (found.shown || !shown)
	})
}

// fire forgets the watches of these kinds on path, tells those who wait for them
// what has happened and returns which of them were shown.
func (w watchTable) fire(what EventType, path string, kinds ...watchKind) (shown []watchKind) {
	for _, k := range kinds {
		fired := w[watchKey{k, path}]
		delete(w, watchKey{k, path})
		if fired.shown {
			shown = append(shown, k)
		}
		for _, c := range fired.wakes {
			select {
			case c <- zk.EventType(what):
			default: // it has not looked since the last time
			}
		}
	}
	return shown
}

// quiet tells whether an event of path is for quiet watches alone.
func (w watchTable) quiet(t EventType, path string) bool {
	if !w.has(false, path, t.uses()...) || w.has(true, path, append(t.uses(), persistentWatch)...) {
		return false
	}
	if t == eventNodeChildrenChanged { // a recursive watch hears of the children themselves
		return true
	}
	for above := path; ; above = above[:strings.LastIndexByte(above, '/')] {
		above = cmp.Or(above, "/")
		if ok := w.has(true, above, recursiveWatch); ok || above == "/" {
			return !ok
		}
	}
}

// watcher notes a watch that the server now holds. It runs with the link's lock
// held. A nil one asks for no watch.
type watcher func(l *link, at watchKey)

// shown is a watch whose event the user sees.
func shown(wanted bool) watcher {
	if !wanted {
		return nil
	}
	return func(l *link, at watchKey) { l.watches[at] = watch{true, l.watches[at].wakes} }
}

// waking is a quiet watch: the event's type is sent into wake, if there is room,
// and the user does not see it.
func waking(wake chan<- zk.EventType) watcher {
	if wake == nil {
		return nil
	}
	return func(l *link, at watchKey) {
		now := l.watches[at]
		if !slices.Contains(now.wakes, wake) {
			now.wakes = append(now.wakes, wake)
		}
		l.watches[at] = now
	}
}

// drop takes wake off a watch. The server keeps its watch until it fires.
func (w watchTable) drop(at watchKey, wake chan<- zk.EventType) {
	if now, ok := w[at]; ok {
		now.wakes = slices.DeleteFunc(now.wakes, func(c chan<- zk.EventType) bool { return c == wake })
		w[at] = now
	}
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
	var events []EventType
	for _, k := range l.watches.fire(eventDataWatchRemoved, path, t.kinds()...) {
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
// a persistent watch, since servers before 3.6 do not know it. Those that nobody
// waits for are forgotten: another connection does not have them.
func (w watchTable) requests(ctx context.Context, zxid int64) []*call {
	maps.DeleteFunc(w, func(_ watchKey, at watch) bool { return !at.shown && len(at.wakes) == 0 })
	var paths [watchKinds][]string
	for at := range w {
		paths[at.kind] = append(paths[at.kind], at.path)
	}
	op := int32(jute.OpSetWatches)
	kinds := childWatch + 1
	if len(paths[persistentWatch])+len(paths[recursiveWatch]) > 0 {
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
		slices.Sort(paths[k])
		for _, p := range paths[k] {
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
