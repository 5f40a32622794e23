package zklock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// Lease is a lock that was taken once and is to be given back once.
type Lease struct {
	h    *hold
	mode Mode
	lost <-chan struct{}
	done bool // given back; guarded by the lock's turn
}

func (h *hold) lease(mode Mode) *Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &Lease{h: h, mode: mode, lost: h.lost}
}

// Lost is closed when the lock is lost, or may be: when its znode or its session
// is gone, or the lease is over and the server has not been heard of since. It
// stays closed when the lock turns out to be held all the same.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// State describes the lock as it is now.
func (l *Lease) State() Status { return l.h.status() }

// Path is the path of the lock.
func (l *Lease) Path() string { return l.h.e.l.path }

// Node is the path of the own znode; of several, the first.
func (l *Lease) Node() string { return l.h.status().Node }

// Token is the fencing token: the czxid of the own znode. It grows from holder
// to holder, over the whole ensemble, and stays when a lock becomes shared.
func (l *Lease) Token() int64 { return l.h.e.czxid }

// Mode is how the lease was taken.
func (l *Lease) Mode() Mode { return l.mode }

// SessionID is the id of the session that holds the lock.
func (l *Lease) SessionID() int64 { return l.h.e.s.ID() }

// Unlock gives the lease back; the last one releases the lock, and is done when
// the server has confirmed it. The error is ErrNotHeld if it was given back
// before, ErrLost if the lock had been lost, ErrUnconfirmed if ctx ended before
// the answer came: the lease is given back then, too, and the removal goes on in
// the background until the state is Released. After any other error, such as a
// missing permission, it is still held.
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
	}
	if lock.hold == l.h && (l.h.over() || errors.Is(err, ErrUnconfirmed)) {
		lock.hold = nil
	}
	return err
}

// hold is a lock that is held, by one or more leases.
type hold struct {
	e     *entry
	delay *time.Timer        // until keep begins
	stop  context.CancelFunc // makes keep end
	done  chan struct{}      // closed when keep has ended

	counts map[Mode]int // leases; guarded by the lock's turn
	asked  []byte       // the last request to let go; keep's own

	mu      sync.Mutex
	st      Status
	lost    chan struct{} // closed when the lock is lost or presumed lost; made anew when it is held again
	changed chan struct{} // closed, and made anew, with each change of st
}

// keepAfter is how long a lock must be held to be worth watching over.
const keepAfter = 5 * time.Millisecond

func newHold(e *entry, waited time.Duration) *hold {
	h := &hold{e: e, asked: e.asked, lost: make(chan struct{}), changed: make(chan struct{}), counts: map[Mode]int{e.mode: 1}}
	h.st = Status{State: Held, Mode: e.mode, Node: e.node(), Token: e.czxid, Waited: waited, Until: h.leaseEnd(), Revoke: e.asked}
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

func (h *hold) leaseEnd() time.Time { return h.e.s.LastContact().Add(h.e.s.Timeout()) }

func (h *hold) status() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := h.st
	st.Path = h.e.l.path
	if st.State == Held {
		st.Until = h.leaseEnd()
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
	told := isClosed(h.lost)
	h.st.State, h.st.Revoke, h.st.Again = s, nil, s == Held && told
	h.st.Waited = 0
	h.st.Until = h.leaseEnd()
	if change != nil {
		change(&h.st)
	}
	switch {
	case s == Held && told:
		h.lost = make(chan struct{})
	case (s == Lost || s == PresumedLost) && !told:
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
// znode, the connection, the lease.
func (h *hold) keep(ctx context.Context) {
	seen := h.e.armed // the own znode is known to be there, on this connection
	for !h.over() {
		changed := h.e.s.Changed()
		seen = seen && h.e.s.Connected()
		next := h.judge(seen)
		if h.e.s.Connected() && !(seen && h.e.armed) {
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
		case <-time.After(next):
		}
	}
}

var errSessionOver = errors.New("its session is over")

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
		h.lose(errors.New("its znode was removed by somebody else"))
		if len(h.e.names) > 1 { // one without the others excludes only some
			h.e.withdrawLater(func() {})
		}
	case err == nil:
		h.e.armed, h.e.next = readable, nil
		if askedToLetGo(data) && !bytes.Equal(data, h.asked) {
			h.asked = data
			h.set(Held, func(st *Status) { st.Revoke = data })
		}
		return true
	}
	return false
}

// lookAgain bounds the time between two looks at the lease: a machine that was
// asleep must notice it soon.
const lookAgain = time.Second

// left is how long the lease lasts.
func (h *hold) left() time.Duration {
	return h.e.s.Timeout() - leaseAge(h.e.s.LastContact(), time.Now())
}

// judge sets the state by the lease, and returns when to do so again.
func (h *hold) judge(seen bool) time.Duration {
	left := h.left()
	switch {
	case left <= 0:
		h.set(PresumedLost, nil)
		return lookAgain
	case !h.e.s.Connected() && h.status().State != PresumedLost:
		h.set(Suspended, nil)
	case seen:
		h.set(Held, nil)
	}
	return min(left, lookAgain)
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
		case state == PresumedLost || h.left() <= 0:
			select {
			case <-changed:
			case <-time.After(lookAgain):
			case <-ctx.Done():
				return false, context.Cause(ctx)
			}
			continue
		}
		if mode == Exclusive && h.mode() == Shared {
			return false, ErrUpgrade
		}
		h.counts[mode]++
		return true, nil
	}
}

func (h *hold) mode() Mode {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.st.Mode
}

// give takes back one lease of a mode.
func (h *hold) give(ctx context.Context, mode Mode) error {
	if err := h.lostError(); err != nil {
		h.end()
		return err
	}
	switch {
	case h.counts[mode] > 1 || mode == Shared && h.counts[Exclusive] > 0:
		h.counts[mode]--
		return nil
	case mode == Exclusive && h.counts[Shared] > 0:
		if err := h.share(ctx); err != nil {
			return err
		}
		h.counts[mode]--
		return nil
	}
	return h.release(ctx)
}

// lostError is nil unless the lock is lost.
func (h *hold) lostError() error {
	st := h.status()
	if st.State != Lost {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrLost, st.Err)
}

// release removes the own znodes and waits for the server's word.
func (h *hold) release(ctx context.Context) error {
	h.end()
	if err := h.lostError(); err != nil { // the last that keep found out
		return err
	}
	h.set(Releasing, nil)
	err := h.e.remove(ctx)
	switch {
	case err == nil:
		h.set(Released, nil)
		return nil
	case ended(h.e.s):
		h.lose(errSessionOver)
		return h.lostError()
	case ctx.Err() != nil:
		h.e.withdrawLater(func() { h.set(Released, nil) })
		return ErrUnconfirmed
	}
	h.set(Held, nil)
	h.start()
	return h.e.stuck(err)
}

// end stops keep and waits for it.
func (h *hold) end() {
	h.stop()
	if h.delay.Stop() {
		close(h.done) // it has not begun
	}
	<-h.done
}

// share turns an exclusive lock into a shared one without a gap: in one
// transaction its znode is replaced by a shared one of the same number, so that
// no writer that waits can get in between (CURATOR-621).
func (h *hold) share(ctx context.Context) error {
	e := h.e
	var ops []any
	var names []string
	for i, prefix := range prefixes(e.l.opt.Family, Shared, e.guid) {
		n, ok := ParseName(e.names[i])
		if !ok || !trusted(n.Number) {
			return nil // numbers repeat: a new znode's place would be behind those that wait
		}
		name := fmt.Sprintf("%s%010d", prefix, n.Number)
		names = append(names, name)
		ops = append(ops, &zk.CreateRequest{Path: e.l.child(name), Data: e.l.opt.Data, Acl: e.l.opt.ACL, Flags: zk.FlagEphemeral})
	}
	for _, name := range e.names {
		ops = append(ops, &zk.DeleteRequest{Path: e.l.child(name), Version: -1})
	}
	h.end()
	defer h.start()
	e.next = names
	err := insist(ctx, e.s, func() error { return e.s.Multi(ctx, ops...) })
	switch {
	case err == nil || errors.Is(err, zk.ErrNodeExists): // which says that a lost answer was yes
		h.shared()
		return nil
	case ended(e.s):
		h.lose(errSessionOver)
		return h.lostError()
	case ctx.Err() == nil: // refused
		e.next = nil
	}
	e.armed = false // keep shall find out whether it has happened
	return err
}

// shared takes note that the lock has become shared.
func (h *hold) shared() {
	e := h.e
	e.names, e.next, e.mode, e.armed = e.next, nil, Shared, false
	h.set(h.status().State, func(st *Status) { st.Mode, st.Node = Shared, e.node() })
}
