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

// A watchKind is one of ZooKeeper's kinds of watches.
type watchKind int

// The kinds of watches, in the order of the lists of paths in a setWatches2 request.
const (
	dataWatch watchKind = iota
	existWatch
	childWatch
	persistentWatch
	recursiveWatch
	watchKinds
)

// A watchKey identifies a watch of the session by its kind and path.
type watchKey struct {
	kind watchKind
	path string // the server's path
}

func (k watchKey) persistent() bool { return k.kind == persistentWatch || k.kind == recursiveWatch }

// A watch records the receivers of the events of one watch: the user, channels, both or none. A
// watch without receivers is recorded as long as the server holds it.
type watch struct {
	shown bool                  // whether the events are shown to the user
	older bool                  // whether a persistent watch of the other mode was added later; on servers up to 3.8, that one replaces this watch
	wakes []chan<- zk.EventType // each channel receives the type of the event, unless the channel is full
}

// A watchTable records the watches that the server holds for the session, so that zksh can
// register them again on another connection. It is guarded by the link's lock.
type watchTable map[watchKey]watch

// usedUp maps each event type to the kinds of one-shot watches that such an event triggers. A
// triggered watch no longer exists.
var usedUp = map[EventType][]watchKind{
	eventNodeCreated:         {dataWatch, existWatch},
	eventNodeDataChanged:     {dataWatch, existWatch},
	eventNodeDeleted:         {dataWatch, existWatch, childWatch},
	eventNodeChildrenChanged: {childWatch},
}

// has reports whether there is a watch of one of these kinds on path. If onlyShown is true, only
// watches whose events are shown to the user count.
func (w watchTable) has(onlyShown bool, path string, kinds ...watchKind) bool {
	return slices.ContainsFunc(kinds, func(k watchKind) bool {
		found, ok := w[watchKey{k, path}]
		return ok && (found.shown || !onlyShown)
	})
}

// Watching reports whether there is at least one watch whose events are shown to the user.
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

// fire removes the watches of the given kinds on path, and sends the event type to their channels.
// It returns those kinds whose events are shown to the user.
func (w watchTable) fire(event EventType, path string, kinds ...watchKind) (shown []watchKind) {
	for _, k := range kinds {
		fired := w[watchKey{k, path}]
		delete(w, watchKey{k, path})
		if fired.shown {
			shown = append(shown, k)
		}
		for _, c := range fired.wakes {
			select {
			case c <- event.number():
			default: // the channel is full, so its receiver will wake up anyway
			}
		}
	}
	return shown
}

// seen reports whether an event of type t on path is shown to the user, because one of the user's
// watches covers it.
func (w watchTable) seen(t EventType, path string) bool {
	if w.has(true, path, append(usedUp[t], persistentWatch)...) {
		return true
	}
	if t == eventNodeChildrenChanged { // a recursive watch reports the created and deleted children instead
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

// A watcher is a function that records a watch after the server has accepted it. The caller must
// hold the link's lock. A nil watcher means that no watch is wanted.
type watcher func(l *link, at watchKey)

// userWatcher returns the watcher for a watch whose event is shown to the user, or nil if wanted
// is false.
func userWatcher(wanted bool) watcher {
	if !wanted {
		return nil
	}
	return func(l *link, at watchKey) {
		now := l.watches[at]
		now.shown = true
		l.watches[at] = now
	}
}

// channelWatcher returns the watcher for a watch whose event is sent to the channel wake, unless
// the channel is full, and is not shown to the user. It returns nil if wake is nil.
func channelWatcher(wake chan<- zk.EventType) watcher {
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

// drop makes the watch with the given key stop sending events to the channel wake. The watch itself
// stays on the server until it fires.
func (w watchTable) drop(key watchKey, wake chan<- zk.EventType) {
	if now, ok := w[key]; ok {
		now.wakes = slices.DeleteFunc(now.wakes, func(c chan<- zk.EventType) bool { return c == wake })
		w[key] = now
	}
}

// A WatcherType selects the kinds of watches that RemoveWatches removes.
type WatcherType int32

// The values of Java's Watcher.WatcherType. The last two need ZooKeeper 3.9.
const (
	ChildrenWatches   WatcherType = 1
	DataWatches       WatcherType = 2
	AnyWatches        WatcherType = 3
	PersistentWatches WatcherType = 4
	RecursiveWatches  WatcherType = 5
)

// covered lists the kinds of watches for each WatcherType, in the order in which RemoveWatches
// reports their removal.
var covered = map[WatcherType][]watchKind{
	ChildrenWatches:   {childWatch},
	DataWatches:       {dataWatch, existWatch},
	AnyWatches:        {childWatch, dataWatch, existWatch, persistentWatch, recursiveWatch},
	PersistentWatches: {persistentWatch},
	RecursiveWatches:  {recursiveWatch},
}

// removedEvents maps each kind of watch to the type of the event that reports its removal.
var removedEvents = map[watchKind]EventType{
	childWatch:      eventChildWatchRemoved,
	dataWatch:       eventDataWatchRemoved,
	existWatch:      eventDataWatchRemoved,
	persistentWatch: eventPersistentWatchRemoved,
	recursiveWatch:  eventPersistentWatchRemoved,
}

// forgetWatches drops the watches of type t on path from the link's records. For each kind whose
// events were shown to the user, it adds an event that reports the removal. It also sends an event
// to the channels of the dropped watches, because the server has removed those watches, too.
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

// addMode records a persistent watch of the given kind on path. If the path already has a
// persistent watch of the other kind, servers before 3.9 replace it, and later servers keep both.
// zksh records both in either case. After a reconnect, it registers both again in the same order,
// with the same result.
func (w watchTable) addMode(kind watchKind, path string) {
	for _, k := range []watchKind{persistentWatch, recursiveWatch} {
		if other, ok := w[watchKey{k, path}]; ok {
			other.older = true
			w[watchKey{k, path}] = other
		}
	}
	w[watchKey{kind, path}] = watch{shown: true}
}

// A State is the state of a connection, which the prompt shows.
type State string

// The values of Java's ZooKeeper.States that zksh uses.
const (
	StateConnecting        State = "CONNECTING"
	StateConnected         State = "CONNECTED"
	StateConnectedReadOnly State = "CONNECTEDREADONLY"
	StateClosed            State = "CLOSED"
	StateAuthFailed        State = "AUTH_FAILED"
)

// An EventType is the Java name of the type of an event, such as NodeCreated.
type EventType string

// The event types that servers send, and those that zksh adds itself: for changes of the session,
// and for removed watches.
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

// eventTypes maps the numbers of the protocol to the event types that servers send.
var eventTypes = map[int32]EventType{
	1: eventNodeCreated, 2: eventNodeDeleted, 3: eventNodeDataChanged, 4: eventNodeChildrenChanged,
}

// EventTypeOf returns the event type that has the number n in the protocol.
func EventTypeOf(n int32) EventType { return cmp.Or(eventTypes[n], EventType(strconv.Itoa(int(n)))) }

// number returns go-zookeeper's constant for an event type, or zk.EventNotWatching if servers do
// not send events of the type.
func (t EventType) number() zk.EventType {
	for n, name := range eventTypes {
		if name == t {
			return zk.EventType(n)
		}
	}
	return zk.EventNotWatching
}

// A KeeperState is the Java name of the session's state in an event.
type KeeperState string

// The values of Java's Watcher.Event.KeeperState that zksh uses.
const (
	disconnected      KeeperState = "Disconnected"
	syncConnected     KeeperState = "SyncConnected"
	eventAuthFailed   KeeperState = "AuthFailed"
	connectedReadOnly KeeperState = "ConnectedReadOnly"
	Expired           KeeperState = "Expired"
	eventClosed       KeeperState = "Closed"
)

// An Event reports a change of the session or of a watched znode. For a change of the session,
// Type is eventNone and Path is empty. Otherwise Path is the path of the znode without the
// chroot.
type Event struct {
	Type  EventType
	State KeeperState
	Path  string
	Zxid  int64    // zxid of the transaction that caused the event; 0 from servers before 3.9
	Gone  []string // if State is Expired: paths of the session's known ephemeral znodes, sorted

	Received time.Time
}

// Session reports whether the event is about the session rather than a znode.
func (e Event) Session() bool { return e.Type == eventNone }

// Connected reports whether the event says that the session is connected.
func (e Event) Connected() bool {
	return e.Session() && (e.State == syncConnected || e.State == connectedReadOnly)
}

// String formats the event like WatchedEvent.toString of the Java client, which includes the zxid
// since ZooKeeper 3.9.
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

// maxEvents is the limit for the total size of the waiting events, in bytes. It is enough for
// about 200,000 events.
const maxEvents = 32 << 20

// errOverflow is the error of a session that zksh closed because too many events were waiting.
var errOverflow = fmt.Errorf("%w: the server sent events faster than zksh could process them, so zksh closed the session when more than %d MiB of events were waiting; to start another session, run: connect",
	ErrNotConnected, maxEvents>>20)

// An eventQueue holds events until take removes them. put never blocks, and no event that put has
// accepted is lost.
type eventQueue struct {
	drop  bool // whether put drops all events
	mu    sync.Mutex
	list  []Event
	size  int           // total size of the events in list, in bytes
	taken int           // number of events that were removed from list
	ready chan struct{} // capacity 1; receives a value when there may be events
}

// put adds an event to the queue. It returns false, and drops the event, if the event is about a
// znode and too many events are waiting.
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

// size returns the approximate memory of an event, in bytes.
func (e Event) size() int { return 128 + len(e.Path) }

// wake sends a value to the channel ready, unless one is already waiting there.
func (q *eventQueue) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take removes waiting events from the queue and returns them. It takes only events whose number
// is at most last, where 1 is the number of the first event that was ever put.
func (q *eventQueue) take(last int) []Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := max(0, min(last-q.taken, len(q.list)))
	l := q.list[:n:n]
	q.list = q.list[n:]
	q.taken += n
	for _, e := range l {
		q.size -= e.size()
	}
	return l
}

// count returns the number of events that were ever put into the queue.
func (q *eventQueue) count() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.taken + len(q.list)
}
