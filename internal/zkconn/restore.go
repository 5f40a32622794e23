package zkconn

import (
	"iter"
	"maps"
	"slices"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn/wire"
)

// restore returns the requests that restore the session's state on a new connection: first its
// credentials, then its watches. The caller must hold mu.
func (l *link) restore(to target, zxid int64) []*wire.Request {
	var first []*wire.Request
	for _, c := range l.creds {
		first = append(first, &bind(l.wire.Context(), to, addAuth(c)).call.Request)
	}
	return append(first, l.setWatches(to, zxid)...)
}

// setWatches returns the requests that register all watches of the session again on a new
// connection. If a path has persistent watches of both modes, the older watch comes first.
// setWatches drops watches whose events nobody receives any more: they are not registered again,
// so the new connection does not have them. The caller must hold mu.
func (l *link) setWatches(to target, zxid int64) []*wire.Request {
	maps.DeleteFunc(l.watches, func(_ watchKey, at watch) bool { return !at.shown && len(at.wakes) == 0 })
	all := func(op int32, selects func(watchKey, watch) bool, following func() []*wire.Request) []*wire.Request {
		return l.watchRequests(to, zxid, op, selects, following)
	}
	laterModes := func() []*wire.Request {
		return all(jute.OpSetWatches2, func(at watchKey, w watch) bool { return at.persistent() && !w.older }, nil)
	}
	return slices.Concat(
		all(jute.OpSetWatches, func(at watchKey, _ watch) bool { return !at.persistent() }, nil),
		all(jute.OpSetWatches2, func(at watchKey, w watch) bool { return at.persistent() && w.older }, laterModes),
		laterModes())
}

// watchRequests returns the requests that register some of the watches again: those for which the
// function selects returns true. op is the opcode of the requests: setWatches, or setWatches2,
// which supports persistent watches and needs ZooKeeper 3.6. The function following returns the
// requests that must be sent after these. It may be nil.
func (l *link) watchRequests(to target, zxid int64, op int32, selects func(watchKey, watch) bool, following func() []*wire.Request) (requests []*wire.Request) {
	var paths [watchKinds][]string
	for at, w := range l.watches {
		if selects(at, w) {
			paths[at.kind] = append(paths[at.kind], at.path)
		}
	}
	lists := paths[:]
	if op == jute.OpSetWatches {
		lists = paths[:persistentWatch]
	}
	for body := range watchLists(lists, zxid) {
		requests = append(requests, l.watchRequest(to, op, body, following))
	}
	return requests
}

// setWatchesLimit is the limit for the total size of the paths in one setWatches request, in
// bytes. It is the same as in the Java client, and far below the largest request that servers
// accept.
const setWatchesLimit = 128 << 10

// watchLists yields the bodies of setWatches requests that together contain all paths. The index in
// paths is the kind of watch, and the element is the list of paths for that kind.
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

// watchRequest returns a request that registers watches again. No goroutine waits for its answer.
// If the server throttles the request, it is sent again, together with the requests that the
// function following returns. If the server does not know the request, as in an ensemble of
// several versions, the link drops the persistent watches and adds events that report this.
// Otherwise such a server would close each new connection.
func (l *link) watchRequest(to target, code int32, body []byte, following func() []*wire.Request) *wire.Request {
	var pause pauses
	var again func() *wire.Request
	setting := operation{code: code, encode: func(e *jute.Encoder, _ chroot) { e.B = append(e.B, body...) }}
	again = func() *wire.Request {
		c := newCall(l.wire.Context(), to, &setting)
		c.Answered = func(_ int, r wire.Reply) {
			switch {
			case r.Code == wire.Throttled:
				go func() { // ends after the pause, or with the connection
					if !pause.wait(l.wire.Context(), to.Conn) {
						return
					}
					requests := []*wire.Request{again()}
					if following != nil {
						requests = append(requests, underLock(l, following)...)
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

// forgetPersistent drops the persistent watches from the link's records and adds an event for
// each. The caller must hold mu.
func (l *link) forgetPersistent() {
	for at := range l.watches {
		if at.persistent() {
			delete(l.watches, at)
			l.out.put(Event{Type: eventPersistentWatchRemoved, State: syncConnected, Path: l.root.client(at.path)})
		}
	}
}
