package zkconn

import (
	"iter"
	"maps"
	"slices"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn/wire"
)

// restore returns the requests that set up a new connection like the one before: credentials,
// then watches. Called with mu held.
func (l *link) restore(to target, zxid int64) []*wire.Request {
	var first []*wire.Request
	for _, c := range l.creds {
		first = append(first, &bind(l.wire.Context(), to, addAuth(c)).call.Request)
	}
	return append(first, l.setWatches(to, zxid)...)
}

// setWatches returns the requests that set all watches again. If a path has persistent watches of
// both modes, it sets the older one first. It drops watches that are for nobody, because the new
// connection does not have them. Called with mu held.
func (l *link) setWatches(to target, zxid int64) []*wire.Request {
	maps.DeleteFunc(l.watches, func(_ watchKey, at watch) bool { return !at.shown && len(at.wakes) == 0 })
	all := func(op int32, these func(watchKey, watch) bool, behind func() []*wire.Request) []*wire.Request {
		return l.watchRequests(to, zxid, op, these, behind)
	}
	laterModes := func() []*wire.Request {
		return all(jute.OpSetWatches2, func(at watchKey, w watch) bool { return at.persistent() && !w.older }, nil)
	}
	return slices.Concat(
		all(jute.OpSetWatches, func(at watchKey, _ watch) bool { return !at.persistent() }, nil),
		all(jute.OpSetWatches2, func(at watchKey, w watch) bool { return at.persistent() && w.older }, laterModes),
		laterModes())
}

// watchRequests returns the requests that set the watches which these selects. Servers before 3.6
// do not know setWatches2, which is for persistent watches. behind returns the requests that must
// follow; it may be nil.
func (l *link) watchRequests(to target, zxid int64, op int32, these func(watchKey, watch) bool, behind func() []*wire.Request) (requests []*wire.Request) {
	var paths [watchKinds][]string
	for at, w := range l.watches {
		if these(at, w) {
			paths[at.kind] = append(paths[at.kind], at.path)
		}
	}
	lists := paths[:]
	if op == jute.OpSetWatches {
		lists = paths[:persistentWatch]
	}
	for body := range watchLists(lists, zxid) {
		requests = append(requests, l.watchRequest(to, op, body, behind))
	}
	return requests
}

// setWatchesLimit bounds the paths of one setWatches request in bytes, as the
// Java client does, well below any server's frame limit.
const setWatchesLimit = 128 << 10

// watchLists encodes lists of paths, one for each kind of watch, as the bodies of as many
// requests as are needed.
func watchLists(paths [][]string, zxid int64) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var chunk [watchKinds][]string
		size := 0
		flush := func() bool {
			if size == 0 {
				return true
			}
			var e jute.Encoder
			e.Long(zxid)
			for k := range paths {
				e.Strings(chunk[k])
			}
			chunk, size = [watchKinds][]string{}, 0
			return yield(e.B)
		}
		for k := range paths {
			slices.Sort(paths[k])
			for _, p := range paths[k] {
				if size+4+len(p) > setWatchesLimit && !flush() {
					return
				}
				size += 4 + len(p)
				chunk[k] = append(chunk[k], p)
			}
		}
		flush()
	}
}

// watchRequest returns a request that sets watches again. Nobody waits for its answer. If the
// server throttles it, it is sent again, together with the requests of behind. If the server does
// not know it, as in an ensemble of several versions, the persistent watches are dropped and
// events report that, because the server would hang up each time.
func (l *link) watchRequest(to target, code int32, body []byte, behind func() []*wire.Request) *wire.Request {
	var pause pauses
	var again func() *wire.Request
	setting := Op[struct{}]{code: code, encode: func(e *jute.Encoder, _ chroot) { e.B = append(e.B, body...) }}
	again = func() *wire.Request {
		c := bind(l.wire.Context(), to, setting).call
		c.Answered = func(_ int, r wire.Reply) {
			switch {
			case r.Code == wire.Throttled:
				go func() { // ends after the pause, or with the connection
					if !pause.wait(l.wire.Context(), to.Conn) {
						return
					}
					requests := []*wire.Request{again()}
					if behind != nil {
						requests = append(requests, underLock(l, behind)...)
					}
					to.Send(requests...)
				}()
			case r.Code == wire.Unimplemented && code == jute.OpSetWatches2:
				l.mu.Lock()
				defer l.mu.Unlock()
				l.forgetPersistent()
			}
		}
		return &c.Request
	}
	return again()
}

// forgetPersistent drops the persistent watches and adds an event for each. Called with mu held.
func (l *link) forgetPersistent() {
	for at := range l.watches {
		if at.persistent() {
			delete(l.watches, at)
			l.out.put(Event{Type: eventPersistentWatchRemoved, State: syncConnected, Path: l.root.client(at.path)})
		}
	}
}
