package zklock

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"
)

// Conn is a client of a ZooKeeper ensemble, such as
// [github.com/zksh/zksh/lockcmd/zklock/ensemble.Client]. The documentation of that
// package says why a *zk.Conn cannot be made into one.
type Conn interface {
	// Session waits until the client has a live session, and returns it. A lock calls
	// it again after its session has ended, and expects another session then. An error
	// is final: the lock returns it to its caller. When ctx ends, so does the wait, with
	// an error.
	Session(ctx context.Context) (Session, error)
}

// Session is one session of a client. All methods are safe for concurrent use.
//
// Requests run in this session or not at all: once the session is over, they fail with
// zk.ErrSessionExpired, or another error that no retry can cure, even if the client has
// a new session. A request waits for a connection until ctx or the session ends. It is
// sent at most once, and never after ctx has ended. Two requests that are made one after
// the other reach the server in that order. Paths are those of the client: an
// implementation that supports a chroot adds and removes it.
//
// Errors match go-zookeeper's values with errors.Is. A request that the server rejected
// fails with zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNoAuth and so on, and had no effect.
// A request fails with zk.ErrConnectionClosed, zk.ErrNoServer or zk.ErrSessionMoved if
// its connection was lost, so that it did not take effect or its outcome is unknown. The
// lock then waits with Await and finds out the outcome. If ctx ends first, the request returns an
// error, and its outcome is unknown as well.
//
// A session can also implement [Guarder], [StandaloneChecker] and [ContainerCreator].
// A type that wraps a Session hides these methods unless it forwards them.
type Session interface {
	// State returns a snapshot of the session and its connection. The fields Sent and
	// Came describe the latest answer that had come at the time by, which may be up to a
	// third of the session timeout ago. State sends nothing and does not wait. It is
	// called several times for each request.
	State(by time.Time) SessionState

	// Ended returns a channel that is closed once the session is known to be over: when
	// a server says that it has expired, when the client closes it, or when a reconnect
	// brings another session. It must not be closed earlier, for example because no
	// server has answered for the session timeout. Each call returns the same channel.
	Ended() <-chan struct{}

	// Await waits for a connection. It returns nil at once if there is one, and an error
	// when ctx or the session ends.
	Await(ctx context.Context) error

	// CreateAndList creates the znodes, all or none, and lists the children of dir right
	// after that. It returns the paths of the znodes with the sequence numbers that the
	// server gave them, their czxid, and the names of dir's children. If the znodes
	// were created but the list failed, it returns their paths and czxid with the error
	// of the list. If no paths are returned, the create failed with the error.
	//
	// The requests have the flags zk.FlagEphemeral and zk.FlagSequence. One round trip
	// is enough: send a create (for several znodes a multi) and a getChildren at once.
	// The zxid in the header of the first answer is the czxid.
	CreateAndList(ctx context.Context, reqs []*zk.CreateRequest, dir string) (paths []string, czxid int64, children []string, err error)

	// Multi carries out all operations in one transaction, or none of them. They are of
	// the types *zk.CreateRequest, *zk.DeleteRequest, *zk.SetDataRequest and
	// *zk.CheckVersionRequest; version -1 stands for any version, also in a check. The
	// error is the error of the operation that failed. A single delete may be sent as an
	// ordinary delete request. A single check must be sent as a transaction, because
	// only a transaction needs a quorum.
	Multi(ctx context.Context, ops ...any) error

	// Children returns the names of a znode's children.
	Children(ctx context.Context, path string) ([]string, error)

	// Sync returns when the server has caught up with the leader (ZooKeeper's sync
	// request). An implementation must not answer it by itself.
	Sync(ctx context.Context, path string) error

	// Get returns a znode's data and Stat. If wake is not nil and Get succeeds, it also
	// leaves a watch: the type of the znode's next event (zk.EventNodeDataChanged or
	// zk.EventNodeDeleted) is sent to wake, once, and without blocking: if wake has no
	// room, the event is dropped. One channel can serve several znodes.
	//
	// A watch outlives its connection: the client sets it again on the next one, where
	// the server reports a change that was made in the meantime. Events are sent to
	// their channels in the order in which they come from the server, all events of a
	// connection before State returns the Begun of the next one.
	Get(ctx context.Context, path string, wake chan<- zk.EventType) ([]byte, *zk.Stat, error)

	// Exists returns a znode's Stat, or zk.ErrNoNode. Unlike Get it needs no permission
	// to read the znode, at least on most servers. It leaves no watch.
	Exists(ctx context.Context, path string) (*zk.Stat, error)

	// Unwatch makes the client forget all watches that were left for this path and this
	// channel. The server may keep them: an event without a channel is dropped.
	Unwatch(path string, wake chan<- zk.EventType)
}

// SessionState is a snapshot of a session and of its connection. All fields except ID show
// the same moment.
//
// The times show for how long the ensemble is certain to keep the session. They come from
// time.Now, with its monotonic clock reading. A time that is not known exactly must be
// on the safe side: an earlier Begun or Sent and a later Came are always safe.
type SessionState struct {
	// ID is the id of the session.
	ID int64

	// Timeout is the session timeout that was negotiated with the server. After the
	// session has ended, it is the last one.
	Timeout time.Duration

	// Connected reports whether the session has a connection to a server. It is false
	// until the server has accepted the session, and after the session has ended.
	Connected bool

	// Begun is the time just before the connect request of the current connection was
	// sent; zero without a connection. A lock tells connections apart by this time, so no two
	// connections may have the same Begun.
	Begun time.Time

	// Sent is the time just before a request was sent on the current connection: the
	// latest request whose answer had come at the time by, the argument of State. Pings
	// count. Sent is Begun if no such request is known, and zero without a connection.
	//
	// An implementation sends a ping at least every third of Timeout, and keeps the times
	// of answers for half of Timeout; one every 1/32 of Timeout is enough. If Sent is too
	// old, a lock cannot be acquired on a connection that is older than Timeout.
	Sent time.Time

	// Came is a time at which the answer to that request had certainly come. It is the
	// argument of State if Sent is Begun, and zero without a connection.
	Came time.Time

	// EndsWithConnection reports whether the session is known to end when its connection
	// is lost. The sessions of ClickHouse Keeper do; those of ZooKeeper do not. It must
	// be known when CreateAndList returns: if it is false on a server that ends sessions
	// with their connections, a lock counts as held although it is lost.
	EndsWithConnection bool

	// Changed is closed when Connected or Begun changes next, and when the session ends.
	// It may be closed at other times, too. State returns a new channel after that.
	Changed <-chan struct{}
}

// A Guarder is a Session that can leave a server that falls silent before the session
// times out.
//
// Without it, a client that notices a silent server late can lose its locks although
// other servers are there. The locks stay safe.
type Guarder interface {
	// Guard makes the session leave a server that does not answer in time, for the next
	// server of the ensemble, until release is called. Calls nest. A lock is guarded
	// while it is held, and while it is released.
	Guard() (release func())
}

// A StandaloneChecker is a Session that can tell a standalone server from a member of an
// ensemble.
//
// Without it, each server counts as a member of an ensemble. This is always safe, and
// costs about one request per second and lock on a standalone server with a session
// timeout of 10 s.
type StandaloneChecker interface {
	// Standalone reports whether the server of the current connection is known to be a
	// standalone one: both the leader and all of the quorum. If that is not certain, it
	// returns false. It may ask the server, once for each connection: a standalone
	// ZooKeeper has a znode /zookeeper/config without data, and a member of an ensemble
	// has one that lists the members. It fails like a request.
	Standalone(ctx context.Context) (bool, error)
}

// A ContainerCreator is a Session that can create containers, the parents of locks that
// the server deletes once they are empty.
//
// Without it, a lock creates missing parents as persistent znodes, which stay. As there
// is no way to learn the ACL of the znode above, they get the ACL of the lock's znodes:
// Options.ACL, or else one that gives everyone all permissions. Create the parents
// beforehand to choose another ACL.
type ContainerCreator interface {
	// CreateContainer creates a container without data, or a persistent znode if the
	// server does not support containers (ZooKeeper before 3.5). If acl is nil, the
	// container gets the ACL of the znode above it. The error is zk.ErrNoNode if there
	// is no znode above it.
	CreateContainer(ctx context.Context, path string, acl []zk.ACL) error
}

// guard calls s.Guard if s is a Guarder.
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

// createParent calls s.CreateContainer if s is a ContainerCreator. A nil acl stands for the
// ACL of the znode above. Without CreateContainer, that ACL is not known, and createParent
// creates a persistent znode with the ACL fallback.
func createParent(ctx context.Context, s Session, path string, acl, fallback []zk.ACL) error {
	if c, ok := s.(ContainerCreator); ok {
		return c.CreateContainer(ctx, path, acl)
	}
	return s.Multi(ctx, &zk.CreateRequest{Path: path, Data: []byte{}, Acl: fallback})
}

func ended(s Session) bool { return isClosed(s.Ended()) }

func nextChange(s Session) <-chan struct{} { return s.State(time.Now()).Changed }

func isConnected(s Session) bool { return s.State(time.Now()).Connected }

// begunAt returns Begun of the current connection, or the zero time without one.
func begunAt(s Session) time.Time { return s.State(time.Now()).Begun }
