package zklock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// Errors that the methods of Owned return, in addition to those of Lock and Session.
var (
	ErrUnknown  = errors.New("it is not known whether the owner holds the lock")
	ErrOverflow = errors.New("the sequence numbers of the lock's path have overflowed; delete the path once the lock is free")
	ErrFamily   = errors.New("the owner holds the lock with a znode of another family; unlock it first")
)

// An Owned is a lock on a path that belongs to a name, the owner, and not to a session. It
// outlives the process that acquired it, the connection and the machine: it is held until
// somebody calls Unlock for the same owner, from any process.
//
// While an owner waits, its znode is ephemeral, so a waiter that dies leaves the queue. When
// the owner gets the lock, one transaction replaces this znode by a persistent one with the
// same sequence number. The lock is therefore held from that transaction on, whatever happens
// to the session, and needs no lease.
//
// Owned locks exclude the locks of [Lock], Curator, go-zookeeper and kazoo, and wait for them,
// like a Lock of the same family. An owner never has two places: if it asks again, from any
// process, it gets the lock that it already holds. The field Options.Data should name the owner
// for people who look at the queue.
//
// The methods may be called from any goroutine.
type Owned struct{ l *Lock }

// Ownership describes a lock that an owner holds.
type Ownership struct {
	Node   string // path of the lock's persistent znode
	Token  int64  // fencing token: the czxid of the znode with which the owner waited; the same whenever the owner asks
	Mode   Mode
	Family Family    // family of the znode
	Since  time.Time // when the owner got the lock, by the server's clock; zero without permission to read the znode
	Data   []byte    // data of the znode
	Before bool      // the owner held the lock before this request
}

// NewOwned returns the lock on a path for an owner. It sends nothing to the server. The owner
// can be any text that is not empty.
func NewOwned(conn Conn, path, owner string, opt Options) *Owned {
	l := New(conn, path, opt)
	l.owner = ownerHash(owner)
	return &Owned{l}
}

// Lock acquires the lock for the owner. It waits until ctx ends, across lost connections and
// sessions. If the owner already holds the lock, Lock returns it. If the owner holds it in another
// way than requested, Lock returns ErrUpgrade or ErrFamily. After ErrUnknown, it is not known
// whether the owner holds the lock: call Lock again, or call Unlock. After any other error, the
// owner does not hold the lock because of this call.
func (o *Owned) Lock(ctx context.Context) (Ownership, error) { return o.acquire(ctx, Exclusive, true) }

// TryLock is like Lock, but returns ErrBusy if the owner would have to wait.
func (o *Owned) TryLock(ctx context.Context) (Ownership, error) {
	return o.acquire(ctx, Exclusive, false)
}

// RLock is like Lock, but acquires the lock in shared mode: others can hold it in that mode at
// the same time. If the owner already holds the lock in either mode, RLock returns it.
func (o *Owned) RLock(ctx context.Context) (Ownership, error) { return o.acquire(ctx, Shared, true) }

// TryRLock is like TryLock, but acquires the lock in shared mode, as RLock does.
func (o *Owned) TryRLock(ctx context.Context) (Ownership, error) {
	return o.acquire(ctx, Shared, false)
}

// Drain is like [Lock.Drain].
func (o *Owned) Drain(ctx context.Context) error {
	if o.l.semaphore != nil {
		return o.l.semaphore.Drain(ctx)
	}
	return o.l.Drain(ctx)
}

// errOwned ends an attempt, because the owner turned out to hold the lock already.
var errOwned = errors.New("the owner already holds the lock")

func (o *Owned) acquire(ctx context.Context, mode Mode, wait bool) (Ownership, error) {
	if err := o.l.takeTurn(ctx); err != nil {
		return Ownership{}, err
	}
	defer func() { <-o.l.turn }()
	if o.l.semaphore != nil {
		mode = Counted
	}
	o.l.created, o.l.unsettled = nil, false
	for {
		var own Ownership
		var held bool
		e, err := o.l.joinQueue(ctx, mode, wait)
		if err == nil || errors.Is(err, errOwned) {
			own, held, err = o.heldAfter(ctx, e)
		}
		switch {
		case err != nil && o.l.unsettled && !errors.Is(err, ErrUnknown):
			return Ownership{}, fmt.Errorf("%w: %w", ErrUnknown, err)
		case err != nil:
			return Ownership{}, err
		case !held: // the lock was released meanwhile
			continue
		case own.Before && own.Family != o.l.opt.Family:
			return Ownership{}, ErrFamily
		case own.Before && mode == Exclusive && own.Mode == Shared:
			return Ownership{}, ErrUpgrade
		}
		return own, nil
	}
}

// heldAfter is like Held, and also sets the field Before. e is the attempt that acquired the
// lock, or nil if the owner already held it. If e acquired the lock but ctx has ended since,
// heldAfter still waits up to one session timeout for the answer of a server.
func (o *Owned) heldAfter(ctx context.Context, e *entry) (own Ownership, held bool, err error) {
	own, held, err = o.Held(ctx)
	if e != nil && ctx.Err() != nil {
		ctx, cancel := context.WithTimeout(context.Background(), e.s.State(time.Now()).Timeout)
		defer cancel()
		own, held, err = o.Held(ctx)
	}
	if err != nil && e != nil {
		err = fmt.Errorf("%w: it got the lock, but %w", ErrUnknown, err)
	}
	if held {
		own.Before = !slices.Contains(o.l.created, path.Base(own.Node))
	}
	return own, held, err
}

// inSession calls f with the current session. After a connection error, it calls f again, in
// the next session if the session has ended.
func (l *Lock) inSession(ctx context.Context, f func(Session) error) error {
	for {
		s, err := l.conn.Session(ctx)
		if err != nil {
			return err
		}
		if err = retry(ctx, s, func() error { return f(s) }); err == nil || !ended(s) || ctx.Err() != nil {
			return err
		}
	}
}

// Held returns the lock if the owner holds it. A waiting owner does not hold it.
func (o *Owned) Held(ctx context.Context) (own Ownership, held bool, err error) {
	err = o.l.inSession(ctx, func(s Session) error {
		own, held = Ownership{}, false
		node, err := o.l.permanentNode(ctx, s)
		if err != nil || node == "" {
			return err
		}
		data, st, err := s.Get(ctx, node, nil)
		switch {
		case errors.Is(err, zk.ErrNoNode): // released since the list
			return nil
		case err != nil && !errors.Is(err, zk.ErrNoAuth):
			return err
		}
		n, _ := ParseName(path.Base(node))
		own, held = Ownership{Node: node, Token: n.token, Mode: n.Mode, Family: n.family, Data: data}, true
		if err == nil {
			own.Since = time.UnixMilli(st.Ctime)
		}
		return nil
	})
	return own, held, err
}

// checkNotOwned returns errOwned if the owner already holds the lock. It avoids an unnecessary
// create: an attempt makes the same check again after the create.
func (l *Lock) checkNotOwned(ctx context.Context) error {
	var node string
	err := l.inSession(ctx, func(s Session) (err error) { node, err = l.permanentNode(ctx, s); return err })
	switch {
	case err != nil:
		return err
	case node != "":
		return errOwned
	}
	l.unsettled = false // the session of an unsettled transaction has ended, and the list is newer
	return nil
}

// permanentNode returns the path of the owner's persistent znode, or an empty string if there is none.
func (l *Lock) permanentNode(ctx context.Context, s Session) (node string, err error) {
	children, err := l.list(ctx, s)
	if name := l.permanentAmong(children); name != "" {
		node = l.child(name)
	}
	return node, err
}

// list lists the contenders after the server has caught up with the leader. If the path does not
// exist, there are none.
func (l *Lock) list(ctx context.Context, s Session) (children []string, err error) {
	if err = s.Sync(ctx, l.path); err == nil || errors.Is(err, zk.ErrNoNode) {
		children, err = s.Children(ctx, l.path, nil)
	}
	if errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	return children, err
}

// Unlock releases the lock if the owner holds it, whichever process acquired it. released is
// false if the owner held nothing. The error is ErrLost if another client deleted the lock's
// znode at the same moment. Unlock does not affect processes that wait for the owner.
func (o *Owned) Unlock(ctx context.Context) (released bool, err error) {
	mine := ""    // the znode to delete; the owner may have acquired the lock again since it was listed
	sent := false // a delete was sent, and its outcome is not known
	lost := false // another client has deleted the znode
	err = o.l.inSession(ctx, func(s Session) error {
		node, err := o.l.permanentNode(ctx, s)
		if err != nil {
			return err
		}
		mine = cmp.Or(mine, node)
		if node == "" || node != mine {
			released = sent
			return nil
		}
		err = s.Multi(ctx, &zk.DeleteRequest{Path: node, Version: -1})
		sent = sent || transient(err) || ctx.Err() != nil
		switch {
		case errors.Is(err, zk.ErrNoNode) && sent:
			return zk.ErrConnectionClosed // look again: an earlier delete may have taken effect
		case errors.Is(err, zk.ErrNoNode):
			lost = true
			return nil
		}
		released = err == nil
		return err
	})
	switch {
	case err != nil && sent:
		return false, fmt.Errorf("%w: %w", ErrUnconfirmed, err)
	case err == nil && lost:
		return false, ErrLost
	}
	return released, err
}

// ownedBySame reports whether a znode with this name belongs to the same owner, and to a lock or a
// lease as l does.
func (l *Lock) ownedBySame(n Name) bool {
	return l.owner != "" && n.Owner == l.owner && (n.Mode == Counted) == (l.semaphore != nil)
}

// permanentAmong returns the child that is the persistent znode of the owner, or an empty string if
// there is none.
func (l *Lock) permanentAmong(children []string) string {
	if l.owner == "" {
		return ""
	}
	i := slices.IndexFunc(children, func(name string) bool {
		n, ok := ParseName(name)
		return ok && n.Permanent && l.ownedBySame(n)
	})
	if i < 0 {
		return ""
	}
	return children[i]
}

// makePermanent replaces the znode of a granted attempt with a persistent znode, in one transaction.
// The transaction fails if the old znode no longer exists. Therefore, no other client can have
// acquired the lock in the meantime.
func (e *entry) makePermanent(ctx context.Context) error {
	name, ok := e.renamed(prefix(e.l.opt.Family, e.mode, permanentGUID(e.l.owner, e.czxid)))
	if !ok {
		return ErrOverflow
	}
	e.l.created = append(e.l.created, name)
	replace := func(data []byte, version int32) error {
		r := e.replacedBy(name, 0, data, version)
		return e.s.Multi(ctx, r.create, r.change, r.remove)
	}
	data, version := e.l.opt.Data, int32(0)
	err := retry(ctx, e.s, func() error {
		err := replace(data, version)
		if errors.Is(err, zk.ErrBadVersion) { // another client has asked the waiter to release the lock
			if data, _, err = e.readOwn(ctx); err == nil {
				version = -1
				err = replace(data, version)
			}
		}
		return err
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil || ended(e.s) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists):
		return e.settle(name, err)
	}
	return err // rejected: no earlier request took effect
}

// settle finds out whether the transaction of makePermanent, which failed with err, has taken
// effect, and returns nil if so: the owner then holds the lock, even if it no longer wants to
// wait. Otherwise, settle makes sure that the transaction cannot take effect any more, and returns
// an error. permanent is the name of the znode that the transaction creates. Another request of the
// owner may already rely on this znode, so settle never deletes it. settle waits at most for one
// session timeout, also if the caller's context has ended.
func (e *entry) settle(permanent string, err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), e.s.State(time.Now()).Timeout)
	defer cancel()
	e.l.unsettled = true
	if !ended(e.s) { // without its ephemeral znode, the transaction fails
		remove := &zk.DeleteRequest{Path: e.node(), Version: -1}
		failed := retry(ctx, e.s, func() error { return e.s.Multi(ctx, remove) })
		switch {
		case failed == nil:
			e.name, e.mayExist, e.l.unsettled = "", false, false
			return placeLost(err)
		case !errors.Is(failed, zk.ErrNoNode) && !ended(e.s):
			return errors.Join(err, failed)
		}
	}
	var children []string
	if failed := e.l.inSession(ctx, func(s Session) (err error) { children, err = e.l.list(ctx, s); return err }); failed != nil {
		return errors.Join(err, failed)
	}
	e.l.unsettled = false
	if slices.Contains(children, permanent) {
		return nil
	}
	return placeLost(err)
}
