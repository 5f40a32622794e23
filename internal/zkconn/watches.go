package zkconn

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
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

// watchKey is where a watch is.
type watchKey struct {
	kind watchKind
	path string // the server's
}

func (k watchKey) persistent() bool { return k.kind == persistentWatch || k.kind == recursiveWatch }

// watch says whom an event is for. A watch that is for nobody is one that the
// server still holds.
type watch struct {
	shown bool                  // the user sees it
	older bool                  // one of another mode was added behind it, which a server up to 3.8 has in its place
	wakes []chan<- zk.EventType // each is sent what has happened, if there is room
}

// watchTable knows which watches the server holds for the session, so that they
// can be set again on another connection. Not safe for concurrent use; the link's
// lock guards it.
type watchTable map[watchKey]watch

// usedUp are the kinds of one-shot watches that an event uses up.
var usedUp = map[EventType][]watchKind{
	eventNodeCreated:         {dataWatch, existWatch},
	eventNodeDataChanged:     {dataWatch, existWatch},
	eventNodeDeleted:         {dataWatch, existWatch, childWatch},
	eventNodeChildrenChanged: {childWatch},
}

// has reports whether there is a watch of one of these kinds on path, or, if shown
// is true, one whose events the user sees.
func (w watchTable) has(shown bool, path string, kinds ...watchKind) bool {
	return slices.ContainsFunc(kinds, func(k watchKind) bool {
		found, ok := w[watchKey{k, path}]
		return ok && (found.shown || !shown)
	})
}

// Watching reports whether there is any watch whose events the user sees.
func (s *Session) Watching() bool {
	l := s.current()
	return underLock(l, func() bool {
		for _, w := range l.watches {
			if w.shown {
				return true
			}
		}
		return false
	})
}

// fire forgets the watches of these kinds on path, tells those who wait for them
// what has happened and returns which of them were shown.
func (w watchTable) fire(what EventType, path string, kinds ...watchKind) (shown []watchKind) {
	for _, k := range kinds {
		fired := w[watchKey{k, path}]
		delete(w, watchKey{k, path})
		if fired.shown {
			shown = append(shown, k)
		}
		for _, c := range fired.wakes {
			select {
			case c <- what.number():
			default: // it has not looked since the last time
			}
		}
	}
	return shown
}

// seen reports whether the user sees an event of path: whether one of their watches asked
// for it.
func (w watchTable) seen(t EventType, path string) bool {
	if w.has(true, path, append(usedUp[t], persistentWatch)...) {
		return true
	}
	if t == eventNodeChildrenChanged { // a recursive watch hears of the children themselves
		return false
	}
	for above := path; ; above = above[:strings.LastIndexByte(above, '/')] {
		above = cmp.Or(above, "/")
		if w.has(true, above, recursiveWatch) {
			return true
		}
		if above == "/" || !strings.Contains(above, "/") {
			return false
		}
	}
}

// watcher notes a watch that the server now holds. It runs with the link's lock
// held. A nil one asks for no watch.
type watcher func(l *link, at watchKey)

// shown is a watch whose event the user sees.
func shown(wanted bool) watcher {
	if !wanted {
		return nil
	}
	return func(l *link, at watchKey) {
		now := l.watches[at]
		now.shown = true
		l.watches[at] = now
	}
}

// waking is a quiet watch: the event's type is sent into wake, if there is room,
// and the user does not see it.
func waking(wake chan<- zk.EventType) watcher {
	if wake == nil {
		return nil
	}
	return func(l *link, at watchKey) {
		now := l.watches[at]
		if !slices.Contains(now.wakes, wake) {
			now.wakes = append(now.wakes, wake)
		}
		l.watches[at] = now
	}
}

// drop takes wake off a watch. The server keeps its watch until it fires.
func (w watchTable) drop(at watchKey, wake chan<- zk.EventType) {
	if now, ok := w[at]; ok {
		now.wakes = slices.DeleteFunc(now.wakes, func(c chan<- zk.EventType) bool { return c == wake })
		w[at] = now
	}
}

// WatcherType says which watches RemoveWatches removes.
type WatcherType int32

// The values of Watcher.WatcherType; the persistent ones need a 3.9 server.
const (
	ChildrenWatches   WatcherType = 1
	DataWatches       WatcherType = 2
	AnyWatches        WatcherType = 3
	PersistentWatches WatcherType = 4
	RecursiveWatches  WatcherType = 5
)

// covered are the watches of each type, in the order in which their removal shows.
var covered = map[WatcherType][]watchKind{
	ChildrenWatches:   {childWatch},
	DataWatches:       {dataWatch, existWatch},
	AnyWatches:        {childWatch, dataWatch, existWatch, persistentWatch, recursiveWatch},
	PersistentWatches: {persistentWatch},
	RecursiveWatches:  {recursiveWatch},
}

// removedEvents is the event each kind of removed watch shows.
var removedEvents = map[watchKind]EventType{
	childWatch:      eventChildWatchRemoved,
	dataWatch:       eventDataWatchRemoved,
	existWatch:      eventDataWatchRemoved,
	persistentWatch: eventPersistentWatchRemoved,
	recursiveWatch:  eventPersistentWatchRemoved,
}

// forgetWatches shows each kind of removed watch as an event. The server has dropped the
// quiet watches with the user's, so those who wait for them are woken.
func (l *link) forgetWatches(path string, t WatcherType, state KeeperState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var events []EventType
	for _, k := range l.watches.fire(eventDataWatchRemoved, path, covered[t]...) {
		events = append(events, removedEvents[k])
	}
	for _, e := range slices.Compact(events) {
		l.out.put(Event{Type: e, State: state, Path: l.root.client(path)})
	}
}

// addMode notes a persistent watch. What another mode has left on the path stays with
// servers from 3.9 on, and is replaced by older ones. Which it was need not be known:
// set again in the same order, both come to the same.
func (w watchTable) addMode(kind watchKind, path string) {
	for _, k := range []watchKind{persistentWatch, recursiveWatch} {
		if other, ok := w[watchKey{k, path}]; ok {
			other.older = true
			w[watchKey{k, path}] = other
		}
	}
	w[watchKey{kind, path}] = watch{shown: true}
}

// State is the state of a connection as the prompt shows it.
type State string

// The states of ZooKeeper.States that can be seen here.
const (
	StateConnecting        State = "CONNECTING"
	StateConnected         State = "CONNECTED"
	StateConnectedReadOnly State = "CONNECTEDREADONLY"
	StateClosed            State = "CLOSED"
	StateAuthFailed        State = "AUTH_FAILED"
)

// EventType is what happened to a watched znode, by its Java name.
type EventType string

// The event types of the protocol, and the local ones of removed watches.
const (
	eventNone                   EventType = "None"
	eventNodeCreated            EventType = "NodeCreated"
	eventNodeDeleted            EventType = "NodeDeleted"
	eventNodeDataChanged        EventType = "NodeDataChanged"
	eventNodeChildrenChanged    EventType = "NodeChildrenChanged"
	eventDataWatchRemoved       EventType = "DataWatchRemoved"
	eventChildWatchRemoved      EventType = "ChildWatchRemoved"
	eventPersistentWatchRemoved EventType = "PersistentWatchRemoved"
)

// eventTypes are those that a server sends, by their numbers.
var eventTypes = map[int32]EventType{
	1: eventNodeCreated, 2: eventNodeDeleted, 3: eventNodeDataChanged, 4: eventNodeChildrenChanged,
}

// number is go-zookeeper's constant for an event that a server sends.
func (t EventType) number() zk.EventType {
	for n, name := range eventTypes {
		if name == t {
			return zk.EventType(n)
		}
	}
	return zk.EventNotWatching
}

// KeeperState is the state of the session as an event tells it.
type KeeperState string

// The states of Watcher.Event.KeeperState.
const (
	disconnected      KeeperState = "Disconnected"
	syncConnected     KeeperState = "SyncConnected"
	eventAuthFailed   KeeperState = "AuthFailed"
	connectedReadOnly KeeperState = "ConnectedReadOnly"
	Expired           KeeperState = "Expired"
	eventClosed       KeeperState = "Closed"
)

// Event is a change of the session (Type eventNone, no Path) or of a watched
// znode (Path without the chroot).
type Event struct {
	Type  EventType
	State KeeperState
	Path  string
	Zxid  int64    // of the transaction it comes of, where a server tells it, from 3.9 on; else 0
	Gone  []string // with Expired: the ephemeral znodes the session is known to have had, sorted

	Received time.Time // by this machine's clock
}

// Session reports whether it is about the session rather than a znode.
func (e Event) Session() bool { return e.Type == eventNone }

// Connected reports whether it is about a new connection.
func (e Event) Connected() bool {
	return e.Session() && (e.State == syncConnected || e.State == connectedReadOnly)
}

// String is WatchedEvent.toString of the Java client, which has told the zxid since 3.9.
func (e Event) String() string {
	path := e.Path
	if e.Session() {
		path = "null"
	}
	text := "WatchedEvent state:" + string(e.State) + " type:" + string(e.Type) + " path:" + path
	if e.Zxid > 0 {
		text += " zxid: " + strconv.FormatInt(e.Zxid, 10)
	}
	return text
}

// maxEvents is how many bytes of events are kept until somebody takes them: those of some
// 200,000 changes.
const maxEvents = 32 << 20

// errOverflow is why a session ends whose events nobody takes.
var errOverflow = fmt.Errorf("%w: the server sent events faster than zksh could process them, so zksh closed the session when more than %d MiB of events were waiting; to start another session, run: connect",
	ErrNotConnected, maxEvents>>20)

// eventQueue holds events until somebody takes them. Unless drop says that nobody
// will, it never drops one that it took. It never makes the receiving goroutine wait.
type eventQueue struct {
	drop  bool
	mu    sync.Mutex
	list  []Event
	size  int           // of those in list, in bytes
	taken int           // how many were there before those in list
	ready chan struct{} // capacity 1: there may be events
}

// put adds an event, unless it is one of a znode and too many are waiting.
func (q *eventQueue) put(e Event) bool {
	if q.drop {
		return true
	}
	e.Received = time.Now()
	q.mu.Lock()
	room := e.Session() || q.size+e.size() <= maxEvents
	if room {
		q.list = append(q.list, e)
		q.size += e.size()
	}
	q.mu.Unlock()
	q.wake()
	return room
}

// size is about how many bytes an event takes.
func (e Event) size() int { return 128 + len(e.Path) }

// wake has whoever waits for events look whether there are any.
func (q *eventQueue) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take takes those among the first events there were, counted from the beginning,
// that are still here.
func (q *eventQueue) take(first int) []Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := max(0, min(first-q.taken, len(q.list)))
	l := q.list[:n:n]
	q.list = q.list[n:]
	q.taken += n
	for _, e := range l {
		q.size -= e.size()
	}
	return l
}

// count is how many there have been.
func (q *eventQueue) count() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.taken + len(q.list)
}
