package zkconn

import (
	"maps"
	"slices"
)

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
