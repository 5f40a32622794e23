package sandbox

import (
	"cmp"
	"strings"
)

// watchModes is the set of modes of a connection's watches on a path. Up to ZooKeeper 3.8
// it has one element: a new mode replaces the old one.
type watchModes uint8

const (
	watchOnce watchModes = 1 << iota
	watchPersistent
	watchRecursive
	anyMode = watchOnce | watchPersistent | watchRecursive
)

// watchCost estimates the memory of a watch besides its path, in bytes.
const watchCost = 200

// A watchTable is one of the two sets of watches, dataWatches or childWatches.
type watchTable struct {
	paths     map[string]map[*conn]watchModes
	conns     map[*conn]map[string]struct{} // connections that have or had a watch, as wchs counts them
	recursive int                           // number of recursive watches; if 0, fire need not visit ancestors
	total     int
	bytes     int64 // estimated memory of all watches
}

// set replaces a connection's watches on a path. Modes 0 removes them.
func (w *watchTable) set(path string, c *conn, modes watchModes) {
	old := w.paths[path][c]
	w.recursive += int(modes&watchRecursive)/int(watchRecursive) - int(old&watchRecursive)/int(watchRecursive)
	switch {
	case modes == old:
		return
	case old == 0:
		w.total++
		w.bytes += int64(len(path)) + watchCost
	case modes == 0:
		w.total--
		w.bytes -= int64(len(path)) + watchCost
		if delete(w.paths[path], c); len(w.paths[path]) == 0 {
			delete(w.paths, path)
		}
		if delete(w.conns[c], path); len(w.conns[c]) == 0 {
			w.conns[c] = nil // an emptied Go map does not free its memory
		}
		return
	}
	if w.paths[path] == nil {
		w.paths[path] = make(map[*conn]watchModes)
	}
	if w.conns[c] == nil {
		w.conns[c] = make(map[string]struct{})
	}
	w.paths[path][c] = modes
	w.conns[c][path] = struct{}{}
}

// remove removes watches of the given modes and reports whether there were any.
func (w *watchTable) remove(path string, c *conn, modes watchModes) bool {
	have := w.paths[path][c]
	w.set(path, c, have&^modes)
	return have&modes != 0
}

// has returns the result of checkWatches: codeOK if any client, not only the one that
// asks, watches the path itself. ZooKeeper also visits the path's ancestors. It finds
// nothing there, but fails with codeMarshalling if a path does not start at the root.
func (w *watchTable) has(path string, modes watchModes) code {
	watched := false
	for _, m := range w.paths[path] {
		watched = watched || m&modes != 0
	}
	switch {
	case path != "" && !strings.Contains(path, "/"):
		return codeMarshalling
	case watched:
		return codeOK
	case w.recursive > 0 && path != "" && path[0] != '/':
		return codeMarshalling
	}
	return codeNoWatcher
}

// drop removes all watches of a connection.
func (w *watchTable) drop(c *conn) {
	for path := range w.conns[c] {
		w.remove(path, c, anyMode)
	}
	delete(w.conns, c)
}

// fire sends an event to the connections that watch the path in one table, except those
// in skip. It returns the connections whose watches have fired. A one-shot watch is
// removed even if its client gets no event because it has no permission to read the node.
func (t *tree) fire(table int, typ int32, zxid int64, path string, list *aclList, skip map[*conn]bool) map[*conn]bool {
	w := &t.watches[table]
	if w.total == 0 {
		return nil
	}
	hit := make(map[*conn]bool)
	// A recursive watch reports the events of the children themselves instead of
	// NodeChildrenChanged.
	below := typ != eventNodeChildrenChanged
	for c, modes := range w.paths[path] {
		if modes != watchRecursive || below {
			hit[c] = true
		}
		w.remove(path, c, watchOnce)
	}
	for p := path; below && w.recursive > 0 && len(p) > 1 && p[0] == '/'; {
		p = cmp.Or(parentOf(p), "/")
		for c, modes := range w.paths[p] {
			if modes&watchRecursive != 0 {
				hit[c] = true
			}
		}
	}
	if len(hit) > 0 {
		t.notified[typ].add(len(hit))
	}
	var event []byte
	for c := range hit {
		if skip[c] {
			continue
		}
		if event == nil {
			if !t.as.has(eventZxids) {
				zxid = noZxid
			}
			event = eventFrame(typ, zxid, path)
		}
		if !t.as.has(filteredEvents) || allowed(list.entries, permRead, c.ids) {
			c.send(event)
		}
	}
	return hit
}

// watch registers a watch in one table. It replaces the connection's watches of other
// modes on the path, unless the version allows several.
func (t *tree) watch(table int, path string, c *conn, mode watchModes) {
	w := &t.watches[table]
	if t.as.has(modesTogether) {
		mode |= w.paths[path][c]
	}
	w.set(path, c, mode)
}

// addWatch registers a persistent or recursive watch in both tables.
func (t *tree) addWatch(path string, c *conn, mode watchModes) {
	t.watch(dataWatches, path, c, mode)
	t.watch(childWatches, path, c, mode)
}

// A removal names the watches that the type in a checkWatches or removeWatches request
// stands for.
type removal struct {
	tables []int
	modes  watchModes
}

// removals has an entry for each type: children, data, any, persistent, recursive.
var removals = map[int32]removal{
	1: {[]int{childWatches}, watchOnce}, 2: {[]int{dataWatches}, watchOnce}, 3: {[]int{childWatches, dataWatches}, anyMode},
	4: {[]int{childWatches, dataWatches}, watchPersistent}, 5: {[]int{childWatches, dataWatches}, watchRecursive},
}

// removal returns the removal for a type. It has no tables if this version does not know
// the type.
func (v Version) removal(typ int32) removal {
	r := removals[typ]
	switch {
	case v.has(persistentTypes):
	case typ > 3:
		return removal{}
	default: // a type stands for watches of all modes in its tables
		r.modes = anyMode
	}
	return r
}

// restore registers a client's watches again after a reconnect; lists are in the order
// of setWatches2. If a watch would have fired since the zxid that the client saw last, the
// client gets the event at once instead. As in ZooKeeper, these events need no permission
// to read the node.
func (t *tree) restore(c *conn, since int64, lists [5][]string) {
	for kind, paths := range lists {
		for _, p := range paths {
			n := t.nodes[p]
			switch {
			case kind >= 3:
				t.addWatch(p, c, watchPersistent<<(kind-3))
			case kind != 1 && n == nil:
				c.send(eventFrame(eventNodeDeleted, noZxid, p))
			case kind == 0 && n.mzxid > since:
				c.send(eventFrame(eventNodeDataChanged, noZxid, p))
			case kind == 1 && n != nil:
				c.send(eventFrame(eventNodeCreated, noZxid, p))
			case kind == 2 && n.pzxid > since:
				c.send(eventFrame(eventNodeChildrenChanged, noZxid, p))
			case kind == 2:
				t.watch(childWatches, p, c, watchOnce)
			default:
				t.watch(dataWatches, p, c, watchOnce)
			}
		}
	}
}
