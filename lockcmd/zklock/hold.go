package zklock

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// hold is a lock that is held, by one or more leases.
type hold struct {
	e     *entry
	delay *time.Timer        // until keep begins
	stop  context.CancelFunc // makes keep end
	done  chan struct{}      // closed when keep has ended

	counts  map[Mode]int // leases; guarded by the lock's turn
	request []byte       // the last request to let go; keep's own

	mu      sync.Mutex
	st      Status
	nodes   []string      // paths of the own znodes
	lost    chan struct{} // closed when the lock is lost or presumed lost; made anew when it is held again
	changed chan struct{} // closed, and made anew, with each change of st
}

// keepAfter is how long a lock must be held to be worth watching over.
const keepAfter = 5 * time.Millisecond

func newHold(e *entry, waited time.Duration) *hold {
	h := &hold{e: e, request: e.request, counts: map[Mode]int{e.mode: 1},
		lost: make(chan struct{}), changed: make(chan struct{})}
	h.nodes = e.nodes()
	h.st = Status{State: Held, Mode: e.mode, Node: e.node(), Token: e.czxid, Waited: waited, Until: h.e.clock.end(), Revoke: e.request}
	e.l.notify(h.st)
	h.judge(true) // a process that was paused just before the end may come too late
	h.start()
	return h
}

// start lets keep run until end, which waits for it, or the loss of the lock.
// Nobody else changes the state meanwhile.
func (h *hold) start() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	h.stop, h.done = stop, done
	h.delay = time.AfterFunc(keepAfter, func() {
		defer close(done)
		h.keep(ctx)
	})
}

func (h *hold) status() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := h.st
	st.Path = h.e.l.path
	if st.Left = h.e.clock.left(); st.State == Held {
		st.Until = h.e.clock.end()
	}
	return st
}

func (h *hold) over() bool {
	s := h.status().State
	return s == Lost || s == Released
}

// set changes the state, unless it has reached its end, and tells.
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

func (h *hold) lose(why error) { h.set(Lost, func(st *Status) { st.Err = why }) }

// keep watches over a held lock until ctx ends or the lock is lost: the own
// znode, the connection, the lease, for which one errand at a time is run.
func (h *hold) keep(ctx context.Context) {
	defer guard(h.e.s)()
	ctx, stop := context.WithCancel(ctx)
	var errand chan error // of the one under way; nil without one
	defer func() {
		if stop(); errand != nil {
			<-errand
		}
	}()
	seen := h.e.armed // the own znode is known to be there, on this connection
	for !h.over() {
		changed := nextChange(h.e.s)
		if ended(h.e.s) { // before the lease is judged: what the server says is certain
			h.lose(errSessionOver)
			return
		}
		connected := isConnected(h.e.s) // one that comes from here on has its turn next: the errand is not to wait for a look
		seen = seen && connected
		next := h.judge(seen)
		if errand == nil {
			if wait := h.e.clock.wait(); wait > 0 {
				next = min(next, wait)
			} else {
				errand = h.errand(ctx)
			}
		}
		if connected && !(seen && h.e.armed) {
			seen = h.look(ctx, next)
			next = h.judge(seen)
		}
		select {
		case <-ctx.Done():
			return
		case <-h.e.s.Ended():
			h.lose(errSessionOver)
		case <-h.e.own:
			h.e.armed = false
		case <-changed:
		case err := <-errand:
			errand = nil
			h.e.armed = h.e.armed && !errors.Is(err, zk.ErrNoNode) // the next look tells what has become of it
		case <-time.After(next):
		}
	}
}

// errand begins what is due for the lease. Its end, which ctx brings about at the
// latest, is told on the channel.
func (h *hold) errand(ctx context.Context) chan error {
	done, node := make(chan error, 1), h.e.node()
	go func() { done <- h.e.clock.run(ctx, node) }() // keep waits for it
	return done
}

// Why a lock is lost.
var (
	errSessionOver  error = sessionOver{}
	errRemoved            = errors.New("another client deleted the holder's znode")
	errDisconnected       = errors.New("the connection was lost, and this server ends a session when its connection ends")
)

// look reads the own znodes, for at most so long, and leaves watches. It tells
// whether they are all there.
func (h *hold) look(ctx context.Context, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	data, readable, err := h.e.readOwn(ctx)
	switch {
	case errors.Is(err, zk.ErrNoNode) && h.e.next != nil:
		h.shared()
		return h.look(ctx, patience)
	case errors.Is(err, zk.ErrNoNode):
		h.lose(errRemoved)
		if len(h.e.names) > 1 { // one without the others excludes only some
			h.e.withdrawLater(func(bool) {})
		}
	case err == nil:
		h.e.armed, h.e.next = readable, nil
		if asksToLetGo(data) && !bytes.Equal(data, h.request) {
			h.request = data
			h.set(Held, func(st *Status) { st.Revoke = data })
		}
		return true
	}
	return false
}

// lookAgain bounds the time between two looks at the lease: a machine that was
// asleep must notice it soon.
const lookAgain = time.Second

// judge sets the state by the lease, and returns when to do so again.
func (h *hold) judge(seen bool) time.Duration {
	left := h.e.clock.left()
	switch {
	case left <= 0:
		if why := h.disconnected(); why != nil {
			h.set(PresumedLost, func(st *Status) { st.Err = why })
		}
		h.set(PresumedLost, nil) // which changes nothing more
		return lookAgain
	case !isConnected(h.e.s) && h.status().State != PresumedLost:
		h.set(Suspended, nil)
	case seen:
		h.set(Held, nil)
	}
	return min(left, lookAgain)
}

// disconnected is why the lease ended with the connection, if it has just done so.
func (h *hold) disconnected() error {
	st := h.e.s.State(time.Now())
	if st.EndsWithConnection && !st.Connected && h.status().State != PresumedLost {
		return errDisconnected
	}
	return nil
}

// again takes the lock once more for its owner, or tells that it is lost. While
// that is not known it waits.
func (h *hold) again(ctx context.Context, mode Mode) (bool, error) {
	for {
		h.mu.Lock()
		state, changed := h.st.State, h.changed
		h.mu.Unlock()
		switch {
		case state == Lost || state == Released:
			return false, nil
		case ended(h.e.s): // keep has not come to tell
			h.end()
			h.lose(errSessionOver)
			return false, nil
		case state == PresumedLost || h.e.clock.left() <= 0:
			select {
			case <-changed:
			case <-time.After(lookAgain):
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

// lostError is nil unless the lock is lost.
func (h *hold) lostError() error {
	st := h.status()
	if st.State != Lost {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrLost, st.Err)
}

// end stops keep and waits for it.
func (h *hold) end() {
	h.stop()
	if h.delay.Stop() {
		close(h.done) // it has not begun
	}
	<-h.done
}

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

// Context returns a context that is cancelled when the lease ends: with ErrLost as its
// cause when Lost is closed, or with ErrNotHeld when the lease is given back.
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

// end cancels the lease's context, for a loss or for any other reason.
func (l *Lease) end(why error) {
	if !errors.Is(why, ErrLost) {
		why = ErrNotHeld
	}
	l.cancel(why)
}
