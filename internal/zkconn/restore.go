package zkconn

import (
	"iter"
	"maps"
	"slices"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn/wire"
)

// restore makes the requests that give a connection what the one before had:
// credentials, then watches. Called with mu held.
func (l *link) restore(to target, zxid int64) []*wire.Request {
	var first []*wire.Request
	for _, c := range l.creds {
		first = append(first, &bind(l.wire.Context(), to, addAuth(c)).call.Request)
	}
	return append(first, l.setWatches(to, zxid)...)
}

// setWatches makes the requests that set all watches again, of two modes on one path the
// older first. Those that nobody waits for are forgotten: another connection does not
// have them. Called with mu held.
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

// settingAll makes the requests for some of the watches. Servers before 3.6 do not know
// setWatches2, which is for persistent ones. behind makes what must come behind them.
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

// watchLists encodes lists of paths, one for each kind of watch, in as many requests
// as are needed.
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

// settingWatches is a request that sets watches again, which nobody waits for. One that
// is throttled is sent again, and with it what must come behind it. A
// server that does not know it, as one of an ensemble of several versions may not, would
// hang up each time: then the persistent watches are given up, and their user told.
func (l *link) watchRequest(to target, code int32, body []byte, behind func() []*wire.Request) *wire.Request {
	var pause pauses
	var again func() *wire.Request
	setting := Op[struct{}]{code: code, encode: func(e *jute.Encoder, _ chroot) { e.B = append(e.B, body...) }}
	again = func() *wire.Request {
		c := bind(l.wire.Context(), to, setting).call
		c.Answered = func(_ int, r wire.Reply) {
			switch {
			case r.Code == wire.Throttled:
				go func() { // ends with its pause, or the connection
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

// forgetPersistent is called with mu held.
func (l *link) forgetPersistent() {
	for at := range l.watches {
		if at.persistent() {
			delete(l.watches, at)
			l.out.put(Event{Type: eventPersistentWatchRemoved, State: syncConnected, Path: l.root.client(at.path)})
		}
	}
}
