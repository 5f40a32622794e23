package zkconn

import (
	"maps"
	"slices"
	"strings"
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
