package zklock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Lease is a lock that was taken once and is to be given back once.
type Lease struct {
	h    *hold
	mode Mode
	lost <-chan struct{}
	done bool // given back; guarded by the lock's turn

	ctx    context.Context // see Context
	cancel context.CancelCauseFunc
	watch  sync.Once
}

func (h *hold) lease(mode Mode) *Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Lease{h: h, mode: mode, lost: h.lost, ctx: ctx, cancel: cancel}
}

// Lost is closed when the lock is lost, or may be: when its znode or its session
// is gone, or the lease is over and the server has not been heard of since. It
// stays closed when the lock turns out to be held all the same.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// State describes the lock as it is now.
func (l *Lease) State() Status { return l.h.status() }

// Left is how long the lock surely lasts if no server is heard of any more, by
// the wall clock and by the monotonic one: whichever leaves less. It is no use
// once the state is Lost.
func (l *Lease) Left() time.Duration { return l.h.e.clock.left() }

// Timeout is that of the session that holds the lock: what Left is at most.
func (l *Lease) Timeout() time.Duration { return l.h.e.s.State(time.Now()).Timeout }

// Path is the path of the lock.
func (l *Lease) Path() string { return l.h.e.l.path }

// Node is the path of the own znode; of several, the first.
func (l *Lease) Node() string { return l.h.status().Node }

// Nodes are the paths of all own znodes, of which a lock of family All has several.
// Their names are never used again: a transaction that checks them has no effect
// once the lock is gone.
func (l *Lease) Nodes() []string {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	return slices.Clone(l.h.nodes)
}

// Token is the fencing token: the czxid of the own znode. It grows from holder
// to holder, over the whole ensemble, and stays when a lock becomes shared.
func (l *Lease) Token() int64 { return l.h.e.czxid }

// Mode is how the lease was taken.
func (l *Lease) Mode() Mode { return l.mode }

// SessionID is the id of the session that holds the lock.
func (l *Lease) SessionID() int64 { return l.h.e.s.State(time.Now()).ID }

// Unlock gives the lease back; the last one releases the lock, and is done when
// the server has confirmed that it was held until then. The error is ErrNotHeld
// if the lease was given back before, ErrLost if the lock had been lost, which the
// release itself may find out, ErrUnconfirmed if ctx ended before the answer came:
// the lease is given back then, too, and the removal goes on in the background
// until the state is Released or Lost. After any other error, such as a missing
// permission, it is still held.
func (l *Lease) Unlock(ctx context.Context) error {
	lock := l.h.e.l
	if err := lock.takeTurn(ctx); err != nil {
		return err
	}
	defer func() { <-lock.turn }()
	if l.done {
		return ErrNotHeld
	}
	err := l.h.give(ctx, l.mode)
	if err == nil || errors.Is(err, ErrLost) || errors.Is(err, ErrUnconfirmed) {
		l.done = true
		l.end(err)
	}
	if lock.hold == l.h && (l.h.over() || errors.Is(err, ErrUnconfirmed)) {
		lock.hold = nil
	}
	return err
}
