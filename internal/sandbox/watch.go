package sandbox

import (
	"cmp"
	"strings"
)

// watchMode says how long a watch stays and how far it reaches.
type watchMode uint8

const (
	watchOnce watchMode = iota
	watchPersistent
	watchRecursive
)

// watchCost is about what a watch takes besides its path.
const watchCost = 200

// watchTable is one of the two sets of watches. A connection has at most one
// watch on a path in each; the latest mode wins.
type watchTable struct {
	paths     map[string]map[*conn]watchMode
	conns     map[*conn]map[string]struct{} // all that ever had a watch, as the real one counts
	recursive int                           // how many are recursive: with none, ancestors need no look
	total     int
	bytes     int64 // about what they take
}

// add registers a watch.
func (w *watchTable) add(path string, c *conn, mode watchMode) {
	if w.paths[path] == nil {
		w.paths[path] = make(map[*conn]watchMode)
	}
	if w.conns[c] == nil {
		w.conns[c] = make(map[string]struct{})
	}
	old, had := w.paths[path][c]
	if !had {
		w.total++
		w.bytes += int64(len(path)) + watchCost
	}
	if had && old == watchRecursive {
		w.recursive--
	}
	if mode == watchRecursive {
		w.recursive++
	}
	w.paths[path][c] = mode
	w.conns[c][path] = struct{}{}
}

// remove takes one watch away and says whether it was there.
func (w *watchTable) remove(path string, c *conn) bool {
	mode, ok := w.paths[path][c]
	if !ok {
		return false
	}
	if mode == watchRecursive {
		w.recursive--
	}
	w.total--
	w.bytes -= int64(len(path)) + watchCost
	if delete(w.paths[path], c); len(w.paths[path]) == 0 {
		delete(w.paths, path)
	}
	if delete(w.conns[c], path); len(w.conns[c]) == 0 {
		w.conns[c] = nil // an empty Go map keeps its room
	}
	return true
}

// has answers checkWatches: whether anybody, not only the asking client, watches
// the very path. The real one looks at the path's parents too, finds nothing
// there, but stumbles where a path does not start at the root.
func (w *watchTable) has(path string) code {
	switch {
	case path != "" && !strings.Contains(path, "/"):
		return codeMarshalling
	case len(w.paths[path]) > 0:
		return codeOK
	case w.recursive > 0 && path != "" && path[0] != '/':
		return codeMarshalling
	}
	return codeNoWatcher
}

// drop forgets a connection.
func (w *watchTable) drop(c *conn) {
	for path := range w.conns[c] {
		w.remove(path, c)
	}
	delete(w.conns, c)
}

// fire sends an event to whoever watches the path in one table, except those in
// told, and returns those it went to. One-shot watches are spent even if the
// event is then withheld because the watcher may not read the node.
func (t *tree) fire(table int, typ int32, path string, list *aclList, told map[*conn]bool) map[*conn]bool {
	w := &t.watches[table]
	if w.total == 0 {
		return nil
	}
	hit := make(map[*conn]bool)
	// A recursive watch never speaks of children changing: it tells of the child
	// itself.
	below := typ != eventNodeChildrenChanged
	for c, mode := range w.paths[path] {
		if mode != watchRecursive || below {
			hit[c] = true
		}
		if mode == watchOnce {
			w.remove(path, c)
		}
	}
	for p := path; below && w.recursive > 0 && len(p) > 1 && p[0] == '/'; {
		p = cmp.Or(parentOf(p), "/")
		for c, mode := range w.paths[p] {
			if mode == watchRecursive {
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
			event = eventFrame(typ, path)
		}
		if allowed(list.entries, permRead, c.ids) {
			c.send(event)
		}
	}
	return hit
}

// addWatch registers a persistent or recursive watch, which lives in both tables.
func (t *tree) addWatch(path string, c *conn, mode watchMode) {
	t.watches[dataWatches].add(path, c, mode)
	t.watches[childWatches].add(path, c, mode)
}

// tablesOf are the watch tables that the type in a checkWatches or removeWatches
// means: children, data, any.
var tablesOf = map[int32][]int{1: {childWatches}, 2: {dataWatches}, 3: {childWatches, dataWatches}}

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
				t.addWatch(p, c, watchPersistent+watchMode(kind-3))
			case kind != 1 && n == nil:
				c.send(eventFrame(eventNodeDeleted, p))
			case kind == 0 && n.mzxid > since:
				c.send(eventFrame(eventNodeDataChanged, p))
			case kind == 1 && n != nil:
				c.send(eventFrame(eventNodeCreated, p))
			case kind == 2 && n.pzxid > since:
				c.send(eventFrame(eventNodeChildrenChanged, p))
			case kind == 2:
				t.watches[childWatches].add(p, c, watchOnce)
			default:
				t.watches[dataWatches].add(p, c, watchOnce)
			}
		}
	}
}
