package zklock

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// Errors that Lock and Lease return, in addition to the errors of [Session].
var (
	ErrBusy        = errors.New("another client holds the lock")
	ErrUpgrade     = errors.New("a shared lock cannot become exclusive, because it would wait for itself; unlock it first")
	ErrNotHeld     = errors.New("the lock is not held")
	ErrLost        = errors.New("the lock was lost")
	ErrUnconfirmed = errors.New("the release is not confirmed")
)

// sessionOver is the error for the end of a session. Its text is the same wherever the end is
// noticed.
type sessionOver struct{}

func (sessionOver) Error() string { return "its session has ended" }

func (sessionOver) Is(target error) bool { return target == zk.ErrSessionExpired }

// Options configure a lock. The zero value creates znodes like those of Curator's mutex, with
// an ACL that gives everyone all permissions.
type Options struct {
	Family Family // Mutex if empty
	Data   []byte // data of the lock's znodes, usually a description of the holder
	// ACL is the ACL of the lock's znodes, and of missing parents that the lock creates.
	// If ACL is nil, the lock's znodes give everyone all permissions, and each created
	// parent gets the ACL of its own parent; see [ContainerCreator] for an exception.
	ACL []zk.ACL
	// Notify is called after each change of the lock's status, in order, by one goroutine
	// at a time. It must not block, and must not call methods of the lock.
	Notify func(Status)
}

// A Lock is a distributed lock on a path, and belongs to one owner. The owner can acquire it
// several times, also shared while it is held exclusively. Each acquisition returns a Lease,
// which must be released once. If the last exclusive lease is released before the shared
// ones, the lock becomes shared without a gap.
//
// The methods may be called from any goroutine, but all calls act for the same owner.
// Goroutines that must exclude each other need a Lock each.
type Lock struct {
	conn Conn
	path string // parent of the lock's own znodes
	opt  Options

	parents   []zk.ACL   // ACL of created parents; nil means a copy of the ACL of the znode above
	owner     string     // hash of the owner's name; only for Owned
	unsettled bool       // whether a transaction of the current call may still create persistent znodes; only for Owned, guarded by turn
	semaphore *Semaphore // the semaphore whose leases these are; nil for a lock
	// created contains the names of the persistent znodes that the current call may have created. It is
	// set only for Owned, and guarded by turn.
	created []string

	turn   chan struct{} // semaphore of capacity 1: serializes acquiring and releasing
	hold   *hold         // guarded by turn; nil while nothing is held
	sweeps background    // removals of znodes; each ends at the latest when its session ends

	notifyMu sync.Mutex // held during a call of opt.Notify
}

// New returns a lock on a path. It sends nothing to the server.
func New(conn Conn, path string, opt Options) *Lock {
	l := &Lock{conn: conn, path: path, opt: opt, parents: opt.ACL, turn: make(chan struct{}, 1)}
	if opt.Family == noFamily {
		l.opt.Family = Mutex
	}
	if opt.ACL == nil {
		l.opt.ACL = zk.WorldACL(zk.PermAll)
	}
	return l
}

// Lock acquires the lock. It waits until ctx ends, across lost connections and sessions. If
// Lock fails, the lock is not held, and the error is ErrUpgrade, an error of Session, or the
// cause of ctx.
func (l *Lock) Lock(ctx context.Context) (*Lease, error) { return l.acquire(ctx, Exclusive, true) }

// TryLock acquires the lock if it is free, and returns ErrBusy otherwise.
func (l *Lock) TryLock(ctx context.Context) (*Lease, error) { return l.acquire(ctx, Exclusive, false) }

// RLock is like Lock, but acquires the lock shared: others can hold it shared at the same
// time.
func (l *Lock) RLock(ctx context.Context) (*Lease, error) { return l.acquire(ctx, Shared, true) }

// TryRLock is like TryLock, but acquires the lock shared, as RLock does.
func (l *Lock) TryRLock(ctx context.Context) (*Lease, error) { return l.acquire(ctx, Shared, false) }

// Drain waits until all znodes of abandoned attempts and of unconfirmed releases have been
// removed, or ctx ends.
func (l *Lock) Drain(ctx context.Context) error {
	return l.sweeps.wait(ctx)
}

// takeTurn waits until no other call is acquiring or releasing this Lock.
func (l *Lock) takeTurn(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}: // even if ctx has ended, because a release must still begin
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
		switch again, err := l.hold.reacquire(ctx, mode); {
		case err != nil:
			return nil, err
		case again:
			return l.hold.lease(mode), nil
		}
		l.hold = nil // the lock was lost
	}
	start := time.Now()
	e, err := l.joinQueue(ctx, mode, wait)
	if err != nil {
		return nil, err
	}
	l.hold = newHold(e, time.Since(start))
	return l.hold.lease(mode), nil
}

// joinQueue joins the queue of contenders and waits for the lock. It joins the queue again
// whenever the session ends or another client deletes the lock's znode.
func (l *Lock) joinQueue(ctx context.Context, mode Mode, wait bool) (*entry, error) {
	unlisted := 0
	for {
		e, err := l.attempt(ctx, mode, wait)
		if e == nil || err == nil {
			return e, err
		}
		if unlisted++; ended(e.s) || e.listed {
			unlisted = 0
		}
		switch {
		case ctx.Err() != nil || !ended(e.s) && !errors.Is(err, errPlaceLost):
			return nil, err
		case unlisted == maxUnlisted:
			return nil, fmt.Errorf("zksh created %d znodes for the lock, but none of them appeared among the lock's contenders: %w", unlisted, err)
		}
		if ended(e.s) {
			err = errSessionOver
		}
		l.notify(Status{State: Requeued, Mode: mode, Node: e.node(), Err: err})
	}
}

// attempt makes one attempt to acquire the lock, in the current session. The entry is nil if the
// attempt failed before it had one.
func (l *Lock) attempt(ctx context.Context, mode Mode, wait bool) (*entry, error) {
	if l.owner != "" {
		if err := l.checkNotOwned(ctx); err != nil {
			return nil, err
		}
	}
	if l.semaphore != nil {
		return l.semaphore.attempt(ctx, wait)
	}
	s, err := l.conn.Session(ctx)
	if err != nil {
		return nil, err
	}
	e := newEntry(l, s, mode)
	return e, e.queue(ctx, wait)
}

// maxUnlisted is the maximum number of successive attempts whose znode appears in no list
// of contenders. joinQueue then gives up.
const maxUnlisted = 3

func (l *Lock) notify(s Status) {
	if l.opt.Notify == nil {
		return
	}
	s.Path = l.publicPath()
	l.notifyMu.Lock()
	defer l.notifyMu.Unlock()
	l.opt.Notify(s)
}

// publicPath returns the path that the lock's owner knows. It is different only for the leases of
// a Semaphore.
func (l *Lock) publicPath() string {
	if l.semaphore != nil {
		return l.semaphore.path
	}
	return l.path
}

func (l *Lock) child(name string) string { return path.Join(l.path, name) }

// State is the state of a lock.
type State string

// The states of a lock.
const (
	Queued       State = "queued"
	Requeued     State = "requeued" // the place in the queue was lost; the lock joins the queue again
	Held         State = "held"
	Suspended    State = "suspended"     // held, but without a connection
	PresumedLost State = "presumed lost" // the lease has ended; it is not known yet whether the lock is lost
	Lost         State = "lost"
	Releasing    State = "releasing"
	Released     State = "released"
)

// Status describes a lock at one moment. Some fields are set only in the states that their
// comments name.
type Status struct {
	State State
	Path  string
	Mode  Mode
	Node  string // path of the lock's own znode
	Token int64  // fencing token of a held lock: see Lease.Token

	Place int    // Queued: 1 plus the number of contenders that the lock waits for
	Ahead *Ahead // Queued: the nearest contender that the lock waits for

	Until  time.Time     // Held, Suspended: end of the lease
	Left   time.Duration // Held, Suspended: time left of the lease; see Lease.Left
	Waited time.Duration // Held for the first time: time since the lock was requested
	Again  bool          // Held: the state before was PresumedLost
	Revoke []byte        // Held: data of a request to release the lock
	Err    error         // cause of Requeued and Lost, and of PresumedLost unless the lease simply expired
}

// Ahead describes a contender that the lock waits for.
type Ahead struct {
	Node  string
	Data  []byte    // nil without permission to read it
	Since time.Time // creation time by the server's clock; zero if it could not be read
}

func (s Status) String() string { return fmt.Sprintf("%s %s %s", s.Path, s.Mode, s.State) }

// RevokeMessage asks the holder of a lock to release it. Another client writes it at the
// beginning of the data of the holder's znode. Curator uses the same message, but ignores it if
// more data follows.
const RevokeMessage = "__REVOKE__"

// UnlockMessage is the same request in the form that ZooKeeper's own recipes use: it is the
// complete data of the holder's znode.
const UnlockMessage = "unlock"

// asksForRelease reports whether data, the content of a holder's znode, asks the holder to
// release the lock.
func asksForRelease(data []byte) bool {
	text := string(data)
	return text == UnlockMessage || strings.HasPrefix(text, RevokeMessage)
}
