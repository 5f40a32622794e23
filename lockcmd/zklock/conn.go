package zklock

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// Conn is a client of a ZooKeeper ensemble, such as *ensemble.Client; that package
// tells why a bare *zk.Conn does not do.
type Conn interface {
	// Session waits for a live session until ctx ends, and binds to it. Its error
	// is final.
	Session(ctx context.Context) (Session, error)
}

// Session is one session of an ensemble. Its requests run in this session or
// not at all: one that finds the session over fails. They wait for a connection
// until ctx or the session ends, are sent at most once, and never after ctx has
// ended. Two requests made one after the other reach the server in that order.
//
// Errors are told apart with errors.Is and go-zookeeper's values: a refusal by
// ErrNoNode, ErrNodeExists, ErrNoAuth and so on; ErrConnectionClosed,
// ErrNoServer or ErrSessionMoved when it is unknown whether the request took
// effect, or sure that it did not.
type Session interface {
	Connection
	Requests
}

// Connection is what is known of a session, and of its connection.
type Connection interface {
	ID() int64
	Timeout() time.Duration // negotiated
	Connected() bool
	// Begun is when the connect request of the present connection was sent; zero
	// without a connection.
	Begun() time.Time
	// Heard is the latest sending on the present connection, pings included, that had
	// been answered by a moment, and when its answer had come at the latest. It is
	// Begun if nothing later is known.
	Heard(by time.Time) (sent, came time.Time)
	// Standalone tells whether the server of the present connection is known to be
	// no member of an ensemble. It may ask it once for each connection.
	Standalone(ctx context.Context) (bool, error)
	// EndsWithConnection reports whether the session is known to end with its
	// connection, as that of a ClickHouse Keeper does. It asks nobody; it is to be
	// known when CreateAndList has made a znode.
	EndsWithConnection() bool
	Changed() <-chan struct{} // closed when the connection changes next
	Ended() <-chan struct{}   // closed once the session is known to be over
	// Guard makes the session leave a server that falls silent, until release is called.
	Guard() (release func())
	// Await waits for a connection until ctx or the session ends.
	Await(ctx context.Context) error
}

// Requests are what a session asks of the ensemble.
type Requests interface {
	// CreateAndList makes the znodes, all or none, and lists dir right behind, in
	// one round trip. It returns their paths, their czxid and dir's children. With
	// paths and an error, the znodes were made and the list failed.
	CreateAndList(ctx context.Context, reqs []*zk.CreateRequest, dir string) (paths []string, czxid int64, children []string, err error)
	// Multi carries out all operations or none: *zk.CreateRequest, *zk.DeleteRequest,
	// *zk.SetDataRequest and *zk.CheckVersionRequest.
	Multi(ctx context.Context, ops ...any) error
	Delete(ctx context.Context, path string) error
	// CreateContainer makes an empty container znode; without an ACL it gets that of
	// the znode above it.
	CreateContainer(ctx context.Context, path string, acl []zk.ACL) error
	Children(ctx context.Context, path string) ([]string, error)
	Sync(ctx context.Context, path string) error
	// Get and Exists read a znode. With a wake channel, the type of the next event of
	// the znode is sent into it, if there is room, also of one while the connection
	// was down. Events are sent in the order in which they come, those of a connection
	// before the next one has begun. Unwatch takes that back.
	Get(ctx context.Context, path string, wake chan<- zk.EventType) ([]byte, *zk.Stat, error)
	Exists(ctx context.Context, path string, wake chan<- zk.EventType) (*zk.Stat, error)
	Unwatch(path string, wake chan<- zk.EventType)
}

// transient tells an error that the next connection can cure.
func transient(err error) bool {
	return errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer) || errors.Is(err, zk.ErrSessionMoved)
}

func ended(s Session) bool { return isClosed(s.Ended()) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// insist repeats a request until its answer is known: nil, or an error that is
// not transient, or the end of ctx or of the session.
func insist(ctx context.Context, s Session, request func() error) error {
	for pause := firstPause; ; pause = longer(pause) {
		changed := s.Changed()
		err := request()
		switch {
		case errors.Is(err, zk.ErrSessionExpired) && !ended(s): // the server is about to close the connection
			select {
			case <-changed:
			case <-ctx.Done():
			}
		case !transient(err):
			return err
		default:
			calmDown(ctx, changed, pause)
		}
		if ctx.Err() != nil {
			return err
		}
		if err := s.Await(ctx); err != nil {
			return err
		}
	}
}

// The pauses before a request is made again on the same connection.
const (
	firstPause = 5 * time.Millisecond
	longPause  = time.Second
)

func longer(pause time.Duration) time.Duration { return min(2*pause, longPause) }

// calmDown waits for so long, or until the connection changes: a server that answers
// with an error of connections, and keeps this one, is not to be asked without end.
func calmDown(ctx context.Context, changed <-chan struct{}, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// bound gives a context of its own that ends with the session: what cleans up
// must not depend on the context whose end it follows.
func bound(s Session) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with cancel or with the session
		select {
		case <-s.Ended():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
