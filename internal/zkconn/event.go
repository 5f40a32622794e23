package zkconn

import (
	"strconv"
	"sync"
)

// EventType is what happened to a watched znode.
type EventType int32

// The event types of the protocol, and the local ones of removed watches.
const (
	EventNone                   EventType = -1
	EventNodeCreated            EventType = 1
	EventNodeDeleted            EventType = 2
	EventNodeDataChanged        EventType = 3
	EventNodeChildrenChanged    EventType = 4
	EventDataWatchRemoved       EventType = 5
	EventChildWatchRemoved      EventType = 6
	EventPersistentWatchRemoved EventType = 7
)

var eventNames = map[EventType]string{
	EventNone:                   "None",
	EventNodeCreated:            "NodeCreated",
	EventNodeDeleted:            "NodeDeleted",
	EventNodeDataChanged:        "NodeDataChanged",
	EventNodeChildrenChanged:    "NodeChildrenChanged",
	EventDataWatchRemoved:       "DataWatchRemoved",
	EventChildWatchRemoved:      "ChildWatchRemoved",
	EventPersistentWatchRemoved: "PersistentWatchRemoved",
}

// String is the Java name.
func (t EventType) String() string {
	if n, ok := eventNames[t]; ok {
		return n
	}
	return strconv.Itoa(int(t))
}

// KeeperState is the state of the session as an event tells it.
type KeeperState string

// The states of Watcher.Event.KeeperState.
const (
	Disconnected      KeeperState = "Disconnected"
	SyncConnected     KeeperState = "SyncConnected"
	EventAuthFailed   KeeperState = "AuthFailed"
	ConnectedReadOnly KeeperState = "ConnectedReadOnly"
	Expired           KeeperState = "Expired"
	EventClosed       KeeperState = "Closed"
)

// Event is a change of the session (Type EventNone, no Path) or of a watched
// znode (Path without the chroot).
type Event struct {
	Type  EventType
	State KeeperState
	Path  string
	Gone  []string // with Expired: the ephemeral znodes the session is known to have had, sorted
}

// Session tells whether it is about the session rather than a znode.
func (e Event) Session() bool { return e.Type == EventNone }

// String is WatchedEvent.toString of the Java client before 3.9.
func (e Event) String() string {
	path := e.Path
	if e.Session() {
		path = "null"
	}
	return "WatchedEvent state:" + string(e.State) + " type:" + e.Type.String() + " path:" + path
}

// eventQueue holds events until somebody takes them. It never drops one and
// never makes the receiving goroutine wait.
type eventQueue struct {
	mu    sync.Mutex
	list  []Event
	ready chan struct{} // capacity 1: there may be events
}

func newEventQueue() *eventQueue { return &eventQueue{ready: make(chan struct{}, 1)} }

func (q *eventQueue) put(e Event) {
	q.mu.Lock()
	q.list = append(q.list, e)
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

func (q *eventQueue) take() []Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.list
	q.list = nil
	return l
}
