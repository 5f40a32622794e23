package zkconn

import (
	"cmp"
	"strconv"
	"sync"
)

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

// EventType is what happened to a watched znode.
type EventType int32

// The event types of the protocol, and the local ones of removed watches.
const (
	eventNone                   EventType = -1
	eventNodeCreated            EventType = 1
	eventNodeDeleted            EventType = 2
	eventNodeDataChanged        EventType = 3
	eventNodeChildrenChanged    EventType = 4
	eventDataWatchRemoved       EventType = 5
	eventChildWatchRemoved      EventType = 6
	eventPersistentWatchRemoved EventType = 7
)

var eventNames = map[EventType]string{
	eventNone:                   "None",
	eventNodeCreated:            "NodeCreated",
	eventNodeDeleted:            "NodeDeleted",
	eventNodeDataChanged:        "NodeDataChanged",
	eventNodeChildrenChanged:    "NodeChildrenChanged",
	eventDataWatchRemoved:       "DataWatchRemoved",
	eventChildWatchRemoved:      "ChildWatchRemoved",
	eventPersistentWatchRemoved: "PersistentWatchRemoved",
}

// String is the Java name.
func (t EventType) String() string { return cmp.Or(eventNames[t], strconv.Itoa(int(t))) }

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
	Gone  []string // with Expired: the ephemeral znodes the session is known to have had, sorted
}

// Session tells whether it is about the session rather than a znode.
func (e Event) Session() bool { return e.Type == eventNone }

// String is WatchedEvent.toString of the Java client before 3.9.
func (e Event) String() string {
	path := e.Path
	if e.Session() {
		path = "null"
	}
	return "WatchedEvent state:" + string(e.State) + " type:" + e.Type.String() + " path:" + path
}

// eventQueue holds events until somebody takes them. Unless drop tells that nobody
// will, it never drops one. It never makes the receiving goroutine wait.
type eventQueue struct {
	drop  bool
	mu    sync.Mutex
	list  []Event
	taken int           // how many were there before those in list
	ready chan struct{} // capacity 1: there may be events
}

func newEventQueue(drop bool) *eventQueue {
	return &eventQueue{drop: drop, ready: make(chan struct{}, 1)}
}

func (q *eventQueue) put(e Event) {
	if q.drop {
		return
	}
	q.mu.Lock()
	q.list = append(q.list, e)
	q.mu.Unlock()
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
	return l
}

// count is how many there have been.
func (q *eventQueue) count() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.taken + len(q.list)
}
