package zklock

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"
)

// Conn is a client of a ZooKeeper ensemble, such as
// [github.com/zksh/zksh/lockcmd/zklock/ensemble.Client]. The documentation of that package
// explains why no adapter can turn a *zk.Conn into a Conn.
type Conn interface {
	// Session waits until the client has a live session, and returns it. If ctx ends
	// first, Session returns an error. After its session has ended, a lock calls Session
	// again, and expects another session then. A lock does not retry after an error, but
	// returns the error to its caller.
	Session(ctx context.Context) (Session, error)
}

// Session is one session of a client. All methods are safe for concurrent use.
//
// Requests run in this session or not at all: once the session is over, they fail with
// zk.ErrSessionExpired, or with another error that makes a retry pointless, even if the client
// has a new session. A request waits for a connection until ctx or the session ends. It is
// sent at most once, and never after ctx has ended. Two requests that are made one after the
// other reach the server in that order. Paths do not include the client's chroot: an
// implementation that supports a chroot adds it to requests, and removes it from answers.
//
// Errors match go-zookeeper's values with errors.Is. A request that the server rejects has no
// effect, and fails with zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNoAuth and so on. A request
// whose connection is lost fails with zk.ErrConnectionClosed, zk.ErrNoServer or
// zk.ErrSessionMoved. It did not take effect, or its outcome is unknown. The lock then calls
// Await to wait for a connection, and finds out the outcome. If ctx ends first, the request
// returns an error, and its outcome is unknown as well.
//
// A session can also implement [Guarder], [StandaloneChecker] and [ContainerCreator].
// A type that wraps a Session hides these methods unless it forwards them.
type Session interface {
	// State returns a snapshot of the session and its connection. The fields Sent and
	// Came describe the latest answer that had arrived at the time asOf, which may be up
	// to a third of the session timeout ago. State sends nothing and does not wait. A
	// lock calls it several times for each request.
	State(asOf time.Time) SessionState

	// Ended returns a channel that is closed once the session is known to be over: when a
	// server reports that it has expired, when the client closes it, or when a reconnect
	// results in another session. The channel must not be closed earlier, for example
	// only because no server has answered for the session timeout. Each call returns the
	// same channel.
	Ended() <-chan struct{}

	// Await waits for a connection. It returns nil at once if there is one, and an error
	// when ctx or the session ends.
	Await(ctx context.Context) error

	// CreateAndList creates the requested znode, and lists the children of dir right after
	// that. It returns the path of the znode with the sequence number that the server has
	// added, its czxid, and the names of dir's children. If the znode was created but the
	// list failed, it returns the path and czxid with the error of the list. If no path is
	// returned, the create failed with the error.
	//
	// The request has the flags zk.FlagEphemeral and zk.FlagSequence. One round trip is
	// enough: send a create and a getChildren right after it, without waiting for the
	// first answer. The zxid in the header of the first answer is the czxid.
	CreateAndList(ctx context.Context, req *zk.CreateRequest, dir string) (
		node string, czxid int64, children []string, err error)

	// Multi carries out all operations in one transaction, or none of them. They are of the
	// types *zk.CreateRequest, *zk.DeleteRequest, *zk.SetDataRequest and
	// *zk.CheckVersionRequest. Version -1 matches any version, also in a check. The error is
	// the error of the operation that failed.
	//
	// A single delete may be sent as an ordinary delete request. A single check must be
	// sent as a transaction, because only a transaction needs a quorum.
	Multi(ctx context.Context, ops ...any) error

	// Children returns the names of a znode's children. If wake is not nil and Children
	// succeeds, it also sets a watch, as Get does, for the next change of this list
	// (zk.EventNodeChildrenChanged or zk.EventNodeDeleted).
	Children(ctx context.Context, path string, wake chan<- zk.EventType) ([]string, error)

	// Sync sends ZooKeeper's sync request, and returns when the server has caught up with
	// the leader. An implementation must always send the request, and wait for the
	// server's answer.
	Sync(ctx context.Context, path string) error

	// Get returns a znode's data and Stat. If wake is not nil and Get succeeds, it also
	// sets a watch: the client sends the type of the znode's next event
	// (zk.EventNodeDataChanged or zk.EventNodeDeleted) to wake, once. The client does
	// not wait: if wake is full, it drops the event. One channel can serve several znodes.
	//
	// A watch outlives its connection: after a reconnect, the client registers it again,
	// and the server reports a change that was made in the meantime. Events are sent to
	// their channels in the order in which they arrive from the server. All events of a
	// connection are sent before State returns the Begun of the next connection.
	Get(ctx context.Context, path string, wake chan<- zk.EventType) ([]byte, *zk.Stat, error)

	// Exists returns a znode's Stat, or zk.ErrNoNode. Unlike Get, it needs no permission
	// to read the znode, at least on most servers. It sets no watch.
	Exists(ctx context.Context, path string) (*zk.Stat, error)

	// Unwatch makes the client forget all watches that were set for this path and this
	// channel. The watches may remain on the server, because the client drops their events.
	Unwatch(path string, wake chan<- zk.EventType)
}

// SessionState is a snapshot of a session and of its connection. All fields except ID
// describe the same moment.
//
// A lock computes from the times how long the ensemble is certain to keep the session. They
// come from time.Now, with its monotonic clock reading. A time that is not known exactly must
// be on the safe side: an earlier Begun or Sent and a later Came are always safe.
type SessionState struct {
	// ID is the id of the session.
	ID int64

	// Timeout is the session timeout that was negotiated with the server. After the
	// session has ended, it keeps its last value.
	Timeout time.Duration

	// Connected reports whether the session has a connection to a server. It is false
	// until the server has accepted the session, and after the session has ended.
	Connected bool

	// Begun is the time just before the connect request of the current connection was
	// sent; zero without a connection. A lock uses this time to distinguish connections,
	// so no two connections may have the same Begun.
	Begun time.Time

	// Sent is the time just before a certain request was sent on the current connection:
	// the latest request whose answer had arrived at the time asOf, the argument of
	// State. Pings count as requests. Sent equals Begun if no such request is known, and
	// is zero without a connection.
	//
	// An implementation sends a ping at least every third of Timeout, and remembers the
	// times of answers for half of Timeout; one answer every 1/32 of Timeout is enough.
	// If Sent is too old, a lock cannot be acquired on a connection that is older than
	// Timeout.
	Sent time.Time

	// Came is a time at which the answer to the request that was sent at Sent had certainly
	// arrived. If Sent equals Begun, Came is asOf, the argument of State. Came is zero
	// without a connection.
	Came time.Time

	// EndsWithConnection reports whether the session is known to end when its connection
	// is lost. The sessions of ClickHouse Keeper do; those of ZooKeeper do not. The field
	// must be correct once CreateAndList returns: if it is false on a server that ends
	// sessions with their connections, a lock counts as held although it is lost.
	EndsWithConnection bool

	// Changed is closed when Connected or Begun changes next, and when the session ends.
	// It may be closed at other times, too. State returns a new channel after that.
	Changed <-chan struct{}
}

// A Guarder is a Session that can switch from an unresponsive server to another one before
// the session times out.
//
// Without Guard, a client that is slow to notice an unresponsive server can lose its locks
// although other servers are available. Even then, a lease ends before another client can
// hold the lock.
type Guarder interface {
	// Guard makes the session switch to the next server of the ensemble whenever a server
	// does not answer in time, until release is called. Calls nest. A lock calls Guard
	// while it is held, and while it is being released.
	Guard() (release func())
}

// A StandaloneChecker is a Session that can distinguish a standalone server from a member of
// an ensemble.
//
// Without Standalone, each server counts as a member of an ensemble. This is always safe. On
// a standalone server with a session timeout of 10 s, it costs about one request per second
// for each lock.
type StandaloneChecker interface {
	// Standalone reports whether the server of the current connection is known to be
	// standalone: both the leader and the whole quorum. If that is not certain, it
	// returns false. It may ask the server, once for each connection: a standalone
	// ZooKeeper has a znode /zookeeper/config without data, and a member of an ensemble
	// has one that lists the members. It fails with the same errors as other requests.
	Standalone(ctx context.Context) (bool, error)
}

// A ContainerCreator is a Session that can create containers, the parents of locks that
// the server deletes once they are empty.
//
// Without CreateContainer, a lock creates missing parents as persistent znodes, which the
// server does not delete. The lock cannot read the ACL of the znode above them, so they get
// the ACL of the lock's znodes: Options.ACL, or an ACL that gives everyone all permissions.
// Create the parents beforehand to choose another ACL.
type ContainerCreator interface {
	// CreateContainer creates a container without data, or a persistent znode if the
	// server does not support containers (ZooKeeper before 3.5). If acl is nil, the
	// container gets the ACL of the znode above it. The error is zk.ErrNoNode if there
	// is no znode above it.
	CreateContainer(ctx context.Context, path string, acl []zk.ACL) error
}

// guard calls s.Guard if s is a Guarder. Otherwise it returns a function that does nothing.
func guard(s Session) (release func()) {
	if g, ok := s.(Guarder); ok {
		return g.Guard()
	}
	return func() {}
}

// isStandalone calls s.Standalone if s is a StandaloneChecker, and returns false otherwise.
func isStandalone(ctx context.Context, s Session) (bool, error) {
	if c, ok := s.(StandaloneChecker); ok {
		return c.Standalone(ctx)
	}
	return false, nil
}

// createParent creates a parent of a lock. If s is a ContainerCreator, the parent is a
// container with the given ACL or, if acl is nil, with the ACL of the znode above it.
// Otherwise the parent is a persistent znode with the ACL fallback, because s cannot read
// the ACL of the znode above it.
func createParent(ctx context.Context, s Session, path string, acl, fallback []zk.ACL) error {
	if c, ok := s.(ContainerCreator); ok {
		return c.CreateContainer(ctx, path, acl)
	}
	return s.Multi(ctx, &zk.CreateRequest{Path: path, Data: []byte{}, Acl: fallback})
}

func ended(s Session) bool { return isClosed(s.Ended()) }

func nextChange(s Session) <-chan struct{} { return s.State(time.Now()).Changed }

func isConnected(s Session) bool { return s.State(time.Now()).Connected }

// begunAt returns the time at which the current connection began (SessionState.Begun), or the
// zero time without a connection.
func begunAt(s Session) time.Time { return s.State(time.Now()).Begun }
