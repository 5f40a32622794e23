package zklock

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Lease is a lock that was acquired once. It is held until Unlock or until it is lost.
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

// Lost returns a channel that is closed when the lock is lost, or may be: when its znode
// or its session is gone, or the lease is over and no server has answered since. The
// channel stays closed if the lock turns out to be held all the same.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// State returns the present status of the lock.
func (l *Lease) State() Status { return l.h.status() }

// Left returns how long the lock is certain to be held if no server answers from now on,
// by the wall clock or by the monotonic clock, whichever leaves less. It means nothing
// once the state is Lost.
func (l *Lease) Left() time.Duration { return l.h.e.clock.left() }

// Timeout returns the timeout of the session that holds the lock. Left is never longer.
func (l *Lease) Timeout() time.Duration { return l.h.e.s.State(time.Now()).Timeout }

// Path returns the path of the lock.
func (l *Lease) Path() string { return l.h.e.l.path }

// Node returns the path of the lock's own znode; of several, the first.
func (l *Lease) Node() string { return l.h.status().Node }

// Nodes returns the paths of all own znodes, of which a lock of family All has several.
// Their names are never used again: a transaction that checks them has no effect
// once the lock is gone.
func (l *Lease) Nodes() []string {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	return slices.Clone(l.h.nodes)
}

// Token returns the fencing token: the czxid of the own znode. It grows from holder
// to holder, over the whole ensemble, and stays the same when a lock becomes shared.
func (l *Lease) Token() int64 { return l.h.e.czxid }

// Mode returns the mode in which the lease was acquired.
func (l *Lease) Mode() Mode { return l.mode }

// SessionID returns the id of the session that holds the lock.
func (l *Lease) SessionID() int64 { return l.h.e.s.State(time.Now()).ID }
