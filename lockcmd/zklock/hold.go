package zklock

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// A hold is the state of a held lock. All leases of the lock share it.
type hold struct {
	e     *entry
	delay *time.Timer        // starts monitor after monitorAfter
	stop  context.CancelFunc // stops monitor
	done  chan struct{}      // closed when monitor has returned

	counts     map[Mode]int // number of unreleased leases in each mode; guarded by Lock.turn
	revocation []byte       // data of the last request to release the lock; used only by monitor

	mu      sync.Mutex // guards the fields below
	st      Status
	lost    chan struct{} // closed when the lock is lost or presumed lost; replaced when it is held again
	changed chan struct{} // closed and replaced at each change of st
}

// monitorAfter is how long a lock must be held before zklock starts to monitor it. A lock that
// is released sooner is not worth the cost.
const monitorAfter = 5 * time.Millisecond

func newHold(e *entry, waited time.Duration) *hold {
	h := &hold{e: e, revocation: e.revocation, counts: map[Mode]int{e.mode: 1},
		lost: make(chan struct{}), changed: make(chan struct{})}
	h.st = Status{State: Held, Mode: e.mode, Node: e.node(), Token: e.czxid, Waited: waited, Until: h.e.clock.end(), Revoke: e.revocation}
	e.l.notify(h.st)
	h.updateState(true) // the lease may have ended if the process was suspended just now
	h.startMonitor()
	return h
}

// startMonitor starts monitor in a goroutine, after monitorAfter. monitor runs until stopMonitor
// is called or the lock is lost. Until then, only monitor changes the state of the lock.
func (h *hold) startMonitor() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	h.stop, h.done = stop, done
	h.delay = time.AfterFunc(monitorAfter, func() {
		defer close(done)
		h.monitor(ctx)
	})
}

func (h *hold) status() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := h.st
	st.Path = h.e.l.publicPath()
	if st.Left = h.e.clock.left(); st.State == Held {
		st.Until = h.e.clock.end()
	}
	return st
}

// isOver reports whether the lock is lost or released.
func (h *hold) isOver() bool {
	s := h.status().State
	return s == Lost || s == Released
}

// set changes the state of the lock to s, calls change to update other fields of the status, and
// notifies the owner. It does nothing if the lock is lost or released, or if the state is
// already s and change is nil.
func (h *hold) set(s State, change func(*Status)) {
	h.mu.Lock()
	was := h.st.State
	if was == Lost || was == Released || was == s && change == nil {
		h.mu.Unlock()
		return
	}
	wasLost := isClosed(h.lost)
	h.st.State, h.st.Revoke, h.st.Again = s, nil, s == Held && wasLost
	h.st.Waited = 0
	if s != was {
		h.st.Err = nil
	}
	h.st.Until, h.st.Left = h.e.clock.end(), h.e.clock.left()
	if change != nil {
		change(&h.st)
	}
	switch {
	case s == Held && wasLost:
		h.lost = make(chan struct{})
	case (s == Lost || s == PresumedLost) && !wasLost:
		close(h.lost)
	}
	close(h.changed)
	h.changed = make(chan struct{})
	st := h.st
	h.mu.Unlock()
	h.e.l.notify(st)
}

// lose records that the lock is lost for the reason why.
func (h *hold) lose(why error) { h.set(Lost, func(st *Status) { st.Err = why }) }

// monitor watches a held lock until ctx ends or the lock is lost. It watches the lock's
// znode and the connection, and extends the lease with one probe at a time.
func (h *hold) monitor(ctx context.Context) {
	defer guard(h.e.s)()
	ctx, stop := context.WithCancel(ctx)
	var probing chan error // receives the result of the probe in flight; nil if there is none
	defer func() {
		if stop(); probing != nil {
			<-probing
		}
	}()
	seen := h.e.watched // whether the lock's znode was seen on the current connection
	for !h.isOver() {
		changed := nextChange(h.e.s)
		if ended(h.e.s) { // checked first, because the end of a session is certain
			h.lose(errSessionOver)
			return
		}
		// If a connection is established after this line, the next iteration handles it.
		// Its probe then does not have to wait for checkZnode.
		connected := isConnected(h.e.s)
		seen = seen && connected
		next := h.updateState(seen)
		if probing == nil {
			if wait := h.e.clock.untilDue(); wait > 0 {
				next = min(next, wait)
			} else {
				probing = h.startProbe(ctx)
			}
		}
		if connected && !(seen && h.e.watched) {
			seen = h.checkZnode(ctx, next)
			next = h.updateState(seen)
		}
		select {
		case <-ctx.Done():
			return
		case <-h.e.s.Ended():
			h.lose(errSessionOver)
		case <-h.e.ownEvents:
			h.e.watched = false
		case <-changed:
		case err := <-probing:
			probing = nil
			h.e.watched = h.e.watched && !errors.Is(err, zk.ErrNoNode) // after ErrNoNode, checkZnode reads the znode again
		case <-time.After(next):
		}
	}
}

// startProbe sends the next probe of the lease in a goroutine. It returns a channel that
// receives the result. If ctx ends first, the result arrives soon afterwards.
func (h *hold) startProbe(ctx context.Context) chan error {
	done, node := make(chan error, 1), h.e.node()
	go func() { done <- h.e.clock.runDue(ctx, node) }() // monitor waits for this goroutine
	return done
}

// Reasons why a lock was lost, as reported in Status.Err.
var (
	errSessionOver  error = sessionOver{}
	errRemoved            = errors.New("another client deleted the holder's znode")
	errDisconnected       = errors.New("the connection was lost, and this server ends a session when its connection ends")
)

// checkZnode reads the lock's own znode and sets a watch on it. It reports whether it found the znode.
// It gives up after timeout.
func (h *hold) checkZnode(ctx context.Context, timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	data, readable, err := h.e.readOwn(ctx)
	switch {
	case errors.Is(err, zk.ErrNoNode) && h.e.replacement != "":
		h.recordShared()
		return h.checkZnode(ctx, timeout)
	case errors.Is(err, zk.ErrNoNode):
		h.lose(errRemoved)
	case err == nil:
		h.e.watched, h.e.replacement = readable, ""
		if asksForRelease(data) && !bytes.Equal(data, h.revocation) {
			h.revocation = data
			h.set(Held, func(st *Status) { st.Revoke = data })
		}
		return true
	}
	return false
}

// recheckInterval is the maximum time between two checks of the lease. It is short, so that a
// client whose machine was asleep soon notices that the lease has ended.
const recheckInterval = time.Second

// updateState updates the state of the lock from its lease and connection. seen says whether the
// lock's znode was seen on the current connection. The caller must call updateState again
// after the returned duration.
func (h *hold) updateState(seen bool) time.Duration {
	left := h.e.clock.left()
	switch {
	case left <= 0:
		if why := h.disconnectError(); why != nil {
			h.set(PresumedLost, func(st *Status) { st.Err = why })
		}
		h.set(PresumedLost, nil) // no effect if the state is PresumedLost already
		return recheckInterval
	case !isConnected(h.e.s) && h.status().State != PresumedLost:
		h.set(Suspended, nil)
	case seen:
		h.set(Held, nil)
	}
	return min(left, recheckInterval)
}

// disconnectError returns errDisconnected if the server ends sessions with their connections,
// the connection is lost, and the lock is not presumed lost yet. Otherwise it returns nil.
func (h *hold) disconnectError() error {
	st := h.e.s.State(time.Now())
	if st.EndsWithConnection && !st.Connected && h.status().State != PresumedLost {
		return errDisconnected
	}
	return nil
}

// reacquire counts one more lease of the held lock. It returns false if the lock is lost. While
// the lock is presumed lost, reacquire waits until it is known to be held or lost.
func (h *hold) reacquire(ctx context.Context, mode Mode) (bool, error) {
	for {
		h.mu.Lock()
		state, changed := h.st.State, h.changed
		h.mu.Unlock()
		switch {
		case state == Lost || state == Released:
			return false, nil
		case ended(h.e.s): // monitor has not noticed the end of the session yet
			h.stopMonitor()
			h.lose(errSessionOver)
			return false, nil
		case state == PresumedLost || h.e.clock.left() <= 0:
			select {
			case <-changed:
			case <-time.After(recheckInterval):
			case <-ctx.Done():
				return false, context.Cause(ctx)
			}
			continue
		}
		if mode == Exclusive && h.status().Mode == Shared {
			return false, ErrUpgrade
		}
		h.counts[mode]++
		return true, nil
	}
}

// lostError returns an error that matches ErrLost if the lock is lost, and nil otherwise.
func (h *hold) lostError() error {
	st := h.status()
	if st.State != Lost {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrLost, st.Err)
}

// stopMonitor stops monitor and waits until it has returned.
func (h *hold) stopMonitor() {
	h.stop()
	if h.delay.Stop() {
		close(h.done) // monitor has not started, so it cannot close done
	}
	<-h.done
}

// A Lease is one acquisition of a lock. It lasts until Unlock releases it or the lock is
// lost.
type Lease struct {
	h    *hold
	mode Mode
	lost <-chan struct{}
	done bool // whether the lease has been released; guarded by Lock.turn

	ctx    context.Context // the context that Context returns
	cancel context.CancelCauseFunc
	watch  sync.Once // starts the goroutine that cancels ctx when the lock is lost
}

func (h *hold) lease(mode Mode) *Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Lease{h: h, mode: mode, lost: h.lost, ctx: ctx, cancel: cancel}
}

// Lost returns a channel that is closed when the lock is lost or may be lost: when its znode or
// its session is gone, or when the lease has ended because no server could confirm it in time.
// The channel stays closed if the lock later turns out to be still held.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// State returns the current status of the lock.
func (l *Lease) State() Status { return l.h.status() }

// Left returns how long the lock is certain to be held even if no server answers from now on.
// It measures the time by the wall clock and by the monotonic clock, and returns the smaller
// result. The result has no meaning once the state is Lost.
func (l *Lease) Left() time.Duration { return l.h.e.clock.left() }

// Timeout returns the timeout of the session that holds the lock. The result of Left is never
// longer.
func (l *Lease) Timeout() time.Duration { return l.h.e.s.State(time.Now()).Timeout }

// Path returns the path of the lock or semaphore.
func (l *Lease) Path() string { return l.h.e.l.publicPath() }

// Node returns the path of the lock's own znode. Its name is never used again, so a transaction that
// checks this znode fails once the lock is gone.
func (l *Lease) Node() string { return l.h.status().Node }

// Token returns the fencing token: the czxid of the lock's znode. Each new holder gets a larger
// token, because czxids only grow in an ensemble. The token stays the same when an exclusive
// lock becomes shared.
func (l *Lease) Token() int64 { return l.h.e.czxid }

// Mode returns the mode in which the lease was acquired.
func (l *Lease) Mode() Mode { return l.mode }

// SessionID returns the id of the session that holds the lock.
func (l *Lease) SessionID() int64 { return l.h.e.s.State(time.Now()).ID }

// Context returns a context that is canceled when the lease ends. Its cause is ErrLost if
// Lost was closed, or ErrNotHeld if the lease was released.
func (l *Lease) Context() context.Context {
	l.watch.Do(func() {
		go func() { // ends with the lease
			select {
			case <-l.lost:
				l.end(cmp.Or(l.h.lostError(), ErrLost))
			case <-l.ctx.Done():
			}
		}()
	})
	return l.ctx
}

// end cancels the lease's context. The cause is err if err matches ErrLost, and ErrNotHeld
// otherwise.
func (l *Lease) end(err error) {
	if !errors.Is(err, ErrLost) {
		err = ErrNotHeld
	}
	l.cancel(err)
}
