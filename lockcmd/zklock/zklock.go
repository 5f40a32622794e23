// Package zklock holds locks in ZooKeeper: mutexes, read and write locks, made of
// ephemeral sequential znodes. It understands and makes the names that Curator,
// go-zookeeper and kazoo use, so that it can share locks with them.
//
// What is guaranteed. A lock is reported as held only after its own znode has
// been seen in the list of contenders with no conflicting one before it, or with one
// that has gone since and left nobody: see The hand-off. Waiting
// is in the order of arrival. No znode of ours stays behind: each exit removes
// it, in the background if need be, until the server has confirmed it or the
// session is over. A request of one session never runs in another.
//
// What is not. A lock is held by a session, and the ensemble's leader ends a session
// it has not heard of for the negotiated timeout. So a lock counts as held only for
// as long as the leader is proven to keep the session: see The lease. Lost is closed
// when the lease ends, before anybody else can hold the lock. What stays unsafe is
// listed there; besides, a process that was paused learns of the end only afterwards.
// What must never be written by two must carry the Token, which
// grows from holder to holder, to a store that refuses an older one.
//
// # Use in other programs
//
// Most programs connect with package ensemble, which has the shortest way to a lock. A
// program that has a ZooKeeper client of its own can implement [Conn] and [Session]
// instead.
//
// This package and package ensemble are the only packages of this module that are meant
// to be imported. Their exported names follow semantic versioning. What a session may be
// able to do besides becomes an optional interface, such as [Guarder], or a field of
// [SessionState]: Session itself does not grow.
package zklock

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// The errors of locks, besides those of [Session].
var (
	ErrBusy        = errors.New("another client holds the lock")
	ErrUpgrade     = errors.New("a shared lock cannot become exclusive, because it would wait for itself; unlock it first")
	ErrNotHeld     = errors.New("the lock is not held")
	ErrLost        = errors.New("the lock was lost")
	ErrUnconfirmed = errors.New("the release is not confirmed")
)

// sessionOver is the end of a session, in the same words wherever it was noticed.
type sessionOver struct{}

func (sessionOver) Error() string { return "its session has ended" }

func (sessionOver) Is(target error) bool { return target == zk.ErrSessionExpired }

// Options of a lock. The zero value stands for Curator's mutex, with all permissions for
// everyone.
type Options struct {
	Family Family // Mutex if empty
	Data   []byte // of the znodes: who holds the lock
	// ACL is that of the znodes, and of the parents that are created for them. If it is
	// nil, the znodes give everyone all permissions, and each parent gets the ACL of the
	// znode above it; see [ContainerCreator] for an exception.
	ACL []zk.ACL
	// Notify is called with each change, in order, by one goroutine at a time. It must
	// not block, and must not call the lock.
	Notify func(Status)
}

// Lock is a lock on a path that belongs to one owner. The owner can acquire it several
// times, and also shared while it is held exclusively. Each Lease is given back once. If
// the last exclusive lease is given back before the shared ones, the lock becomes shared
// without a gap.
//
// The methods may be called from any goroutine, but all of them act for the one owner:
// goroutines that must exclude each other need a Lock each.
type Lock struct {
	conn Conn
	path string
	opt  Options

	parents []zk.ACL // nil: as the znode above

	turn   chan struct{} // holds a value while somebody acquires or releases
	hold   *hold         // guarded by turn; nil while nothing is held
	sweeps background    // end with their sessions at the latest

	nmu sync.Mutex // one notification at a time
}

// New returns a lock on a path. Nothing is sent yet.
func New(conn Conn, path string, opt Options) *Lock {
	l := &Lock{conn: conn, path: path, opt: opt, parents: opt.ACL, turn: make(chan struct{}, 1)}
	if opt.Family == absent {
		l.opt.Family = Mutex
	}
	if opt.ACL == nil {
		l.opt.ACL = zk.WorldACL(zk.PermAll)
	}
	return l
}

// Lock waits for the lock until ctx ends, even if connections and sessions are lost. The
// error is ErrUpgrade, an error of Session, or that of the context; then nothing is held.
func (l *Lock) Lock(ctx context.Context) (*Lease, error) { return l.acquire(ctx, Exclusive, true) }

// TryLock acquires the lock if it is free. Otherwise the error is ErrBusy.
func (l *Lock) TryLock(ctx context.Context) (*Lease, error) { return l.acquire(ctx, Exclusive, false) }

// RLock is like Lock, but others can hold the lock shared at the same time.
func (l *Lock) RLock(ctx context.Context) (*Lease, error) { return l.acquire(ctx, Shared, true) }

// TryRLock is like TryLock, but others can hold the lock shared at the same time.
func (l *Lock) TryRLock(ctx context.Context) (*Lease, error) { return l.acquire(ctx, Shared, false) }

// Drain waits until all znodes of abandoned attempts and unconfirmed releases have been
// removed, or ctx ends.
func (l *Lock) Drain(ctx context.Context) error {
	return l.sweeps.wait(ctx)
}

// takeTurn waits while others of the same owner acquire or release.
func (l *Lock) takeTurn(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}: // also when ctx has ended: a release must be begun
		return nil
	default:
	}
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Lock) acquire(ctx context.Context, mode Mode, wait bool) (*Lease, error) {
	if err := l.takeTurn(ctx); err != nil {
		return nil, err
	}
	defer func() { <-l.turn }()
	if l.hold != nil {
		switch again, err := l.hold.again(ctx, mode); {
		case err != nil:
			return nil, err
		case again:
			return l.hold.lease(mode), nil
		}
		l.hold = nil // it was lost
	}
	h, err := l.waitFor(ctx, mode, wait)
	if err != nil {
		return nil, err
	}
	l.hold = h
	return h.lease(mode), nil
}

// waitFor queues up, again and again while sessions end or the own znode is
// removed by somebody else.
func (l *Lock) waitFor(ctx context.Context, mode Mode, wait bool) (*hold, error) {
	start := time.Now()
	unlisted := 0
	for {
		s, err := l.conn.Session(ctx)
		if err != nil {
			return nil, err
		}
		e := newEntry(l, s, mode)
		if err = e.queue(ctx, wait); err == nil {
			return newHold(e, time.Since(start)), nil
		}
		if unlisted++; ended(s) || e.listed {
			unlisted = 0
		}
		switch {
		case ctx.Err() != nil || !ended(s) && !errors.Is(err, errPlaceLost):
			return nil, err
		case unlisted == maxUnlisted:
			return nil, fmt.Errorf("zksh created %d znodes for the lock, but none of them appeared among the lock's contenders: %w", unlisted, err)
		}
		if ended(s) {
			err = errSessionOver
		}
		l.notify(Status{State: Requeued, Mode: mode, Node: e.node(), Err: err})
	}
}

// maxUnlisted is how often in a row the own znode may be gone before it was seen.
const maxUnlisted = 3

func (l *Lock) notify(s Status) {
	if l.opt.Notify == nil {
		return
	}
	s.Path = l.path
	l.nmu.Lock()
	defer l.nmu.Unlock()
	l.opt.Notify(s)
}

func (l *Lock) child(name string) string { return path.Join(l.path, name) }

// State is the state of a lock.
type State string

// The states.
const (
	Queued       State = "queued"
	Requeued     State = "requeued" // the place in the queue was lost; the lock queues up again
	Held         State = "held"
	Suspended    State = "suspended"     // held, but there is no connection
	PresumedLost State = "presumed lost" // the lease is over, and no server has said yet what became of the lock
	Lost         State = "lost"
	Releasing    State = "releasing"
	Released     State = "released"
)

// Status describes a lock at one moment.
type Status struct {
	State State
	Path  string
	Mode  Mode
	Node  string // path of the own znode; the first of several
	Token int64  // of a held lock: see Lease.Token

	Place int    // Queued: one more than those that are waited for
	Ahead *Ahead // Queued: the nearest of them

	Until  time.Time     // Held, Suspended: the end of the lease
	Left   time.Duration // Held, Suspended: until then; see Lease.Left
	Waited time.Duration // Held for the first time: since the lock was asked for
	Again  bool          // Held after it had been presumed lost
	Revoke []byte        // Held: what asks us to let go
	Err    error         // Requeued, Lost: why; PresumedLost: why, if the lease did not simply run out
}

// Ahead is a contender that the lock waits for.
type Ahead struct {
	Node  string
	Data  []byte    // nil if it may not be read
	Since time.Time // its creation, by the server's clock; zero if that may not be known
}

func (s Status) String() string { return fmt.Sprintf("%s %s %s", s.Path, s.Mode, s.State) }
