package sandbox

import (
	"cmp"
	"strings"
)

// watchModes say how long the watches of a connection on a path stay and how far
// they reach. Up to 3.8 there is one at a time, the latest.
type watchModes uint8

const (
	watchOnce watchModes = 1 << iota
	watchPersistent
	watchRecursive
	anyMode = watchOnce | watchPersistent | watchRecursive
)

// watchCost is about what a watch takes besides its path.
const watchCost = 200

// watchTable is one of the two sets of watches.
type watchTable struct {
	paths     map[string]map[*conn]watchModes
	conns     map[*conn]map[string]struct{} // all that ever had a watch, as the real one counts
	recursive int                           // how many are recursive: with none, ancestors need no look
	total     int
	bytes     int64 // about what they take
}

// set gives a connection watches of these modes on a path; none takes them away.
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
			w.conns[c] = nil // an empty Go map keeps its room
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

// remove takes watches of some modes away and says whether there were any.
func (w *watchTable) remove(path string, c *conn, modes watchModes) bool {
	have := w.paths[path][c]
	w.set(path, c, have&^modes)
	return have&modes != 0
}

// has answers checkWatches: whether anybody, not only the asking client, watches
// the very path. The real one looks at the path's parents too, finds nothing
// there, but stumbles where a path does not start at the root.
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

// drop forgets a connection.
func (w *watchTable) drop(c *conn) {
	for path := range w.conns[c] {
		w.remove(path, c, anyMode)
	}
	delete(w.conns, c)
}

// fire sends an event to whoever watches the path in one table, except those in
// told, and returns those it went to. One-shot watches are spent even if the
// event is then withheld because the watcher may not read the node.
func (t *tree) fire(table int, typ int32, zxid int64, path string, list *aclList, told map[*conn]bool) map[*conn]bool {
	w := &t.watches[table]
	if w.total == 0 {
		return nil
	}
	hit := make(map[*conn]bool)
	// A recursive watch never speaks of children changing: it tells of the child
	// itself.
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
		if told[c] {
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

// watch registers a watch in one table. A watch of another mode by the same
// connection stays where they live side by side.
func (t *tree) watch(table int, path string, c *conn, mode watchModes) {
	w := &t.watches[table]
	if t.as.has(modesTogether) {
		mode |= w.paths[path][c]
	}
	w.set(path, c, mode)
}

// addWatch registers a persistent or recursive watch, which lives in both tables.
func (t *tree) addWatch(path string, c *conn, mode watchModes) {
	t.watch(dataWatches, path, c, mode)
	t.watch(childWatches, path, c, mode)
}

// removal is what a type in a checkWatches or removeWatches means.
type removal struct {
	tables []int
	modes  watchModes
}

// removals are those of the types: children, data, any, persistent, recursive.
var removals = map[int32]removal{
	1: {[]int{childWatches}, watchOnce}, 2: {[]int{dataWatches}, watchOnce}, 3: {[]int{childWatches, dataWatches}, anyMode},
	4: {[]int{childWatches, dataWatches}, watchPersistent}, 5: {[]int{childWatches, dataWatches}, watchRecursive},
}

// removal is without tables for a type that this version does not know.
func (v Version) removal(typ int32) removal {
	r := removals[typ]
	switch {
	case v.has(persistentTypes):
	case typ > 3:
		return removal{}
	default: // every watch is of the one type or the other
		r.modes = anyMode
	}
	return r
}

// restore registers a client's watches again, in the order of setWatches2, or
// tells at once what they would have told since the zxid it has seen last: to
// everybody, for it is only when an event happens that the real one asks whether
// the watcher may read the node.
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
