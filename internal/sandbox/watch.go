package sandbox

import (
	"cmp"
	"strings"
)

// watchModes is the set of modes in which a client watches a path. Up to ZooKeeper 3.8, it has at
// most one element, because a new mode replaces the old one.
type watchModes uint8

const (
	watchOnce watchModes = 1 << iota
	watchPersistent
	watchRecursive
	anyMode = watchOnce | watchPersistent | watchRecursive
)

// watchCost is the estimated memory of a watch in bytes, not including its path.
const watchCost = 200

// A watchTable is a set of watches: either dataWatches or childWatches.
type watchTable struct {
	paths map[string]map[*conn]watchModes
	conns map[*conn]map[string]struct{}
	// recursive is the number of recursive watches. If it is 0, fire need not examine ancestors.
	recursive int
	total     int
	bytes     int64 // estimated memory of all watches, in bytes
}

// set replaces the modes in which the client c watches path. If modes is 0, the client no longer
// watches the path.
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
			delete(w.conns, c)
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

// remove removes the watches of the client c on path that have one of the given modes. It reports
// whether there were any.
func (w *watchTable) remove(path string, c *conn, modes watchModes) bool {
	have := w.paths[path][c]
	w.set(path, c, have&^modes)
	return have&modes != 0
}

// check executes a checkWatches request for watches on path with one of the modes. Like ZooKeeper,
// it returns codeOK if any client has such a watch, even if the client that sent the request has
// none. If path does not begin with "/", ZooKeeper's search may fail, so check returns
// codeMarshalling.
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

// drop removes all watches of the client c.
func (w *watchTable) drop(c *conn) {
	for path := range w.conns[c] {
		w.remove(path, c, anyMode)
	}
}

// fire sends an event to all clients that watch path in the given table, except those in skip. It
// returns the clients whose watches have fired. A client without permission to read the node gets
// no event, but its one-shot watch is still removed.
func (t *tree) fire(table int, typ int32, zxid int64, path string, list *aclList, skip map[*conn]bool) map[*conn]bool {
	w := &t.watches[table]
	if w.total == 0 {
		return nil
	}
	hit := make(map[*conn]bool)
	// A recursive watch does not report changes of a node's list of children, because it reports
	// the events of each child instead.
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

// watch registers a watch of the client c in a table. It replaces a watch of this client on the
// same path in another mode, unless the imitated version allows several modes.
func (t *tree) watch(table int, path string, c *conn, mode watchModes) {
	w := &t.watches[table]
	if t.as.has(modesTogether) {
		mode |= w.paths[path][c]
	}
	w.set(path, c, mode)
}

// addWatch registers a persistent or recursive watch of the client c in both tables.
func (t *tree) addWatch(path string, c *conn, mode watchModes) {
	t.watch(dataWatches, path, c, mode)
	t.watch(childWatches, path, c, mode)
}

// A removal describes the watches that a checkWatches or removeWatches request selects.
type removal struct {
	tables []int
	modes  watchModes
}

// removals maps the type in a checkWatches or removeWatches request to the watches that it
// selects. The types are children (1), data (2), any (3), persistent (4) and recursive (5).
var removals = map[int32]removal{
	1: {[]int{childWatches}, watchOnce}, 2: {[]int{dataWatches}, watchOnce},
	3: {[]int{childWatches, dataWatches}, anyMode},
	4: {[]int{childWatches, dataWatches}, watchPersistent}, 5: {[]int{childWatches, dataWatches}, watchRecursive},
}

// removal returns the watches that a request with the given type selects. If version v does not
// know the type, the result selects none.
func (v Version) removal(typ int32) removal {
	r := removals[typ]
	switch {
	case v.has(persistentTypes):
	case typ > 3:
		return removal{}
	// In this version, a request cannot select the watches of a single mode, so it selects all
	// modes.
	default:
		r.modes = anyMode
	}
	return r
}

// restore registers a client's watches again after a reconnect. since is the last zxid that the
// client has seen. lists contains one list of paths for each kind of watch: data, exists, child,
// persistent and recursive. If a change after since would have fired a one-shot watch, restore
// sends the event and does not register the watch. As in ZooKeeper, the client receives
// this event even if it may not read the node.
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
