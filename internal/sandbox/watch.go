package sandbox

import (
	"cmp"
	"strings"
)

// watchModes is the set of modes in which one connection watches one path. Up to ZooKeeper 3.8,
// the set has at most one element, because a new mode replaces the old one.
type watchModes uint8

const (
	watchOnce watchModes = 1 << iota
	watchPersistent
	watchRecursive
	anyMode = watchOnce | watchPersistent | watchRecursive
)

// watchCost is the estimated memory of a watch in bytes, without its path.
const watchCost = 200

// A watchTable is one of the two sets of watches, dataWatches or childWatches.
type watchTable struct {
	paths     map[string]map[*conn]watchModes
	conns     map[*conn]map[string]struct{} // watched paths of each connection that has or had a watch; wchs counts these connections
	recursive int                           // number of recursive watches; if 0, fire need not visit ancestors
	total     int
	bytes     int64 // estimated memory of all watches
}

// set replaces the modes in which a connection watches a path. If modes is 0, the connection no
// longer watches the path.
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

// remove removes a connection's watches of the given modes on a path. It reports whether there
// were any.
func (w *watchTable) remove(path string, c *conn, modes watchModes) bool {
	have := w.paths[path][c]
	w.set(path, c, have&^modes)
	return have&modes != 0
}

// check returns the result of a checkWatches request: codeOK if any client, not only the one
// that sent the request, watches the path. ZooKeeper also looks at the ancestors of the path.
// It finds nothing there, but fails with codeMarshalling if the path does not begin with "/".
func (w *watchTable) check(path string, modes watchModes) code {
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

// fire sends an event to all connections that watch the path in the given table, except the
// connections in skip. It returns the connections whose watches have fired. A one-shot watch is
// removed even if its client gets no event for lack of permission to read the node.
func (t *tree) fire(table int, typ int32, zxid int64, path string, list *aclList, skip map[*conn]bool) map[*conn]bool {
	w := &t.watches[table]
	if w.total == 0 {
		return nil
	}
	hit := make(map[*conn]bool)
	// A recursive watch never reports NodeChildrenChanged, because it reports the events of
	// the children themselves.
	recursive := typ != eventNodeChildrenChanged
	for c, modes := range w.paths[path] {
		if modes != watchRecursive || recursive {
			hit[c] = true
		}
		w.remove(path, c, watchOnce)
	}
	for p := path; recursive && w.recursive > 0 && len(p) > 1 && p[0] == '/'; {
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

// watch registers a watch of a connection in one table. It replaces the connection's watch on
// the same path in another mode, unless the imitated version allows several modes.
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

// A removal describes the watches that a checkWatches or removeWatches request selects by its
// field type.
type removal struct {
	tables []int
	modes  watchModes
}

// removals maps each type in a checkWatches or removeWatches request to the watches that it
// selects: children (1), data (2), any (3), persistent (4) and recursive (5).
var removals = map[int32]removal{
	1: {[]int{childWatches}, watchOnce}, 2: {[]int{dataWatches}, watchOnce}, 3: {[]int{childWatches, dataWatches}, anyMode},
	4: {[]int{childWatches, dataWatches}, watchPersistent}, 5: {[]int{childWatches, dataWatches}, watchRecursive},
}

// removal returns the watches that a type selects. The result has no tables if this version does
// not know the type.
func (v Version) removal(typ int32) removal {
	r := removals[typ]
	switch {
	case v.has(persistentTypes):
	case typ > 3:
		return removal{}
	default: // in this version, each type selects the watches of all modes in its tables
		r.modes = anyMode
	}
	return r
}

// restore re-registers a client's watches after a reconnect. The lists of paths are in the order
// of the request setWatches2, and since is the last zxid that the client has seen. If a change
// after that zxid would have fired a watch, restore sends the event at once instead. As in
// ZooKeeper, the client gets such an event even without permission to read the node.
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
