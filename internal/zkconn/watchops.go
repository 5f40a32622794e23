package zkconn

import (
	"context"
	"maps"
	"slices"

	"github.com/zksh/zksh/internal/jute"
)

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
