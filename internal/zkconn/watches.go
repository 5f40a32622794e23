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

// A watchKind is a kind of watch on a path.
type watchKind int

// The kinds of watches, in the order in which setWatches2 lists them.
const (
	dataWatch watchKind = iota
	existWatch
	childWatch
	persistentWatch
	recursiveWatch
	watchKinds
)

// A watchKey identifies a watch.
type watchKey struct {
	kind watchKind
	path string // the server's
}

func (k watchKey) persistent() bool { return k.kind == persistentWatch || k.kind == recursiveWatch }

// A watch records who gets its event: the user, wake channels, or nobody. The server still holds
// a watch that is for nobody.
type watch struct {
	shown bool                  // the user sees it
	older bool                  // a persistent watch of the other mode was added later; it replaces this one on servers up to 3.8
	wakes []chan<- zk.EventType // the type of the event is sent to each, if there is room
}

// A watchTable holds the watches that the server keeps for the session, so that they can be set
// again on another connection. The link's lock guards it.
type watchTable map[watchKey]watch

// usedUp maps an event to the kinds of one-shot watches that it triggers and so removes.
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

// fire removes the watches of these kinds on path, sends the event to their wake channels, and
// returns the kinds whose events the user sees.
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
			default: // the receiver has not taken the last event yet
			}
		}
	}
	return shown
}

// seen reports whether the user sees an event of path, because one of the user's watches covers it.
func (w watchTable) seen(t EventType, path string) bool {
	if w.has(true, path, append(usedUp[t], persistentWatch)...) {
		return true
	}
	if t == eventNodeChildrenChanged { // a recursive watch reports the children themselves
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

// A watcher records a watch that the server now holds. It is called with the link's lock held.
// Nil stands for no watch.
type watcher func(l *link, at watchKey)

// shown returns the watcher for a watch whose event the user sees; nil if wanted is false.
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

// waking returns the watcher for a watch whose event is sent to wake, if there is room, and which
// the user does not see; nil if wake is nil.
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

// drop removes wake from a watch. The server keeps the watch until it fires.
func (w watchTable) drop(at watchKey, wake chan<- zk.EventType) {
	if now, ok := w[at]; ok {
		now.wakes = slices.DeleteFunc(now.wakes, func(c chan<- zk.EventType) bool { return c == wake })
		w[at] = now
	}
}

// A WatcherType selects the watches that RemoveWatches removes.
type WatcherType int32

// The values of Watcher.WatcherType in Java. The persistent ones need ZooKeeper 3.9.
const (
	ChildrenWatches   WatcherType = 1
	DataWatches       WatcherType = 2
	AnyWatches        WatcherType = 3
	PersistentWatches WatcherType = 4
	RecursiveWatches  WatcherType = 5
)

// covered maps a type to its kinds of watches, in the order of the events of their removal.
var covered = map[WatcherType][]watchKind{
	ChildrenWatches:   {childWatch},
	DataWatches:       {dataWatch, existWatch},
	AnyWatches:        {childWatch, dataWatch, existWatch, persistentWatch, recursiveWatch},
	PersistentWatches: {persistentWatch},
	RecursiveWatches:  {recursiveWatch},
}

// removedEvents maps a kind of watch to the event of its removal.
var removedEvents = map[watchKind]EventType{
	childWatch:      eventChildWatchRemoved,
	dataWatch:       eventDataWatchRemoved,
	existWatch:      eventDataWatchRemoved,
	persistentWatch: eventPersistentWatchRemoved,
	recursiveWatch:  eventPersistentWatchRemoved,
}

// forgetWatches removes the watches of a type on path and adds an event for each kind that the
// user saw. The server has removed the watches with wake channels, too, so fire wakes these.
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

// addMode records a persistent watch. A watch of the other mode on the path stays on servers from
// 3.9 on; older servers replace it. zksh need not know which: setting both again in the same
// order has the same result.
func (w watchTable) addMode(kind watchKind, path string) {
	for _, k := range []watchKind{persistentWatch, recursiveWatch} {
		if other, ok := w[watchKey{k, path}]; ok {
			other.older = true
			w[watchKey{k, path}] = other
		}
	}
	w[watchKey{kind, path}] = watch{shown: true}
}

// A State is the state of a connection, as the prompt shows it.
type State string

// The states of ZooKeeper.States that zksh reports.
const (
	StateConnecting        State = "CONNECTING"
	StateConnected         State = "CONNECTED"
	StateConnectedReadOnly State = "CONNECTEDREADONLY"
	StateClosed            State = "CLOSED"
	StateAuthFailed        State = "AUTH_FAILED"
)

// An EventType is the kind of a change of a watched znode, by its Java name.
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

// eventTypes are the event types that a server sends, by their numbers in the protocol.
var eventTypes = map[int32]EventType{
	1: eventNodeCreated, 2: eventNodeDeleted, 3: eventNodeDataChanged, 4: eventNodeChildrenChanged,
}

// number returns go-zookeeper's constant for an event type that a server sends.
func (t EventType) number() zk.EventType {
	for n, name := range eventTypes {
		if name == t {
			return zk.EventType(n)
		}
	}
	return zk.EventNotWatching
}

// A KeeperState is the state of the session in an event.
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

// An Event is a change of the session (Type eventNone, no Path) or of a watched znode (Path
// without the chroot).
type Event struct {
	Type  EventType
	State KeeperState
	Path  string
	Zxid  int64    // of the transaction that caused it; 0 from servers before 3.9
	Gone  []string // with Expired: the known ephemeral znodes of the session, sorted

	Received time.Time
}

// Session reports whether the event is about the session rather than a znode.
func (e Event) Session() bool { return e.Type == eventNone }

// Connected reports whether the event is about a new connection.
func (e Event) Connected() bool {
	return e.Session() && (e.State == syncConnected || e.State == connectedReadOnly)
}

// String formats the event as WatchedEvent.toString of the Java client, which includes the zxid
// since 3.9.
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

// maxEvents bounds the waiting events, in bytes: about 200,000 events.
const maxEvents = 32 << 20

// errOverflow ends a session when too many events are waiting.
var errOverflow = fmt.Errorf("%w: the server sent events faster than zksh could process them, so zksh closed the session when more than %d MiB of events were waiting; to start another session, run: connect",
	ErrNotConnected, maxEvents>>20)

// An eventQueue holds events until take removes them. put never waits, and take loses no event.
type eventQueue struct {
	drop  bool // put drops every event
	mu    sync.Mutex
	list  []Event
	size  int           // of the events in list, in bytes
	taken int           // number of events that were removed from list
	ready chan struct{} // capacity 1: there may be events
}

// put adds an event. It returns false if the event is about a znode and too many are waiting.
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

// size returns about how many bytes an event takes.
func (e Event) size() int { return 128 + len(e.Path) }

// wake sends a value to ready.
func (q *eventQueue) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take removes and returns the waiting events among the first ones, which are counted from the
// first event that was ever put.
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

// count returns the number of events that were ever put.
func (q *eventQueue) count() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.taken + len(q.list)
}
