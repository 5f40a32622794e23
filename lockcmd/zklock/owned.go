package zklock

import (
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
	ErrExpire   = errors.New("the owner holds the lock with another expiry; unlock it first")
	ErrFamily   = errors.New("the owner holds the lock with znodes of another family; unlock it first")
)

// An Owned is a lock on a path that belongs to a name, the owner, and not to a session. It
// outlives the process that acquired it, the connection and the machine: it is held until
// somebody calls Unlock for the same owner, from any process, or until it expires
// ([Options.Expire]).
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
	Nodes  []string // paths of the lock's persistent znodes; a lock of family All has several
	Token  int64    // fencing token: the czxid of the znode with which the owner waited; the same whenever the owner asks
	Mode   Mode
	Family Family        // family of the znodes
	Since  time.Time     // when the owner got the lock, by the server's clock; zero without permission to read the znode
	Expire time.Duration // time after the last request of the owner at which the lock is released; 0 if it does not expire
	Data   []byte        // data of the first znode
	Before bool          // the owner held the lock before this request
}

// NewOwned returns the lock on a path for an owner. It sends nothing to the server. The owner
// can be any text that is not empty.
func NewOwned(conn Conn, path, owner string, opt Options) *Owned {
	l := New(conn, path, opt)
	l.owner = ownerHash(owner)
	return &Owned{l}
}

// Lock acquires the lock for the owner. It waits until ctx ends, across lost connections and
// sessions. If the owner already holds the lock, Lock returns it and restarts its expiry, if it
// has one. If the owner holds it in another way than requested, Lock returns ErrUpgrade, ErrFamily
// or ErrExpire. After ErrUnknown, it is not known whether the owner holds the lock: call Lock
// again, or call Unlock. After any other error, the owner does not hold the lock because of this
// call. A lock that had expired, or had lost one of its znodes, may have been released.
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
		case !own.Before:
			return own, nil
		}
		switch err := o.renew(ctx, own, mode); {
		case err == nil:
			return own, nil
		case !errors.Is(err, errPlaceLost):
			return Ownership{}, err
		}
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
		own.Before = !slices.Contains(o.l.created, path.Base(own.Nodes[0]))
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
		nodes, err := o.l.permanentNodes(ctx, s)
		if err != nil || len(nodes) == 0 {
			return err
		}
		data, st, err := s.Get(ctx, nodes[0], nil)
		switch {
		case errors.Is(err, zk.ErrNoNode): // released since the list
			return nil
		case err != nil && !errors.Is(err, zk.ErrNoAuth):
			return err
		}
		n, _ := ParseName(path.Base(nodes[0]))
		own, held = Ownership{Nodes: nodes, Token: n.token, Mode: n.Mode, Family: familyOf(nodes), Expire: n.Expire, Data: data}, true
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
	var nodes []string
	err := l.inSession(ctx, func(s Session) (err error) { nodes, err = l.permanentNodes(ctx, s); return err })
	switch {
	case err != nil:
		return err
	case len(nodes) > 0:
		return errOwned
	}
	l.unsettled = false // the session of an unsettled transaction has ended, and the list is newer
	return nil
}

// permanentNodes returns the paths of the owner's persistent znodes.
func (l *Lock) permanentNodes(ctx context.Context, s Session) (nodes []string, err error) {
	children, err := l.list(ctx, s)
	for _, name := range l.permanentAmong(children) {
		nodes = append(nodes, l.child(name))
	}
	return nodes, err
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
	var mine []string // the znodes to delete; the owner may have acquired the lock again since they were listed
	sent := false     // a delete was sent, and its outcome is not known
	lost := false     // another client has deleted a znode
	err = o.l.inSession(ctx, func(s Session) error {
		nodes, err := o.l.permanentNodes(ctx, s)
		if err != nil {
			return err
		}
		if mine == nil {
			mine = nodes
		}
		nodes = slices.DeleteFunc(nodes, func(node string) bool { return !slices.Contains(mine, node) })
		if len(nodes) == 0 {
			released = sent
			return nil
		}
		ops := deletes(nodes, nil)
		err = s.Multi(ctx, ops...)
		sent = sent || transient(err) || ctx.Err() != nil
		switch {
		case errors.Is(err, zk.ErrNoNode) && sent:
			err = zk.ErrConnectionClosed // look again: an earlier delete may have taken effect
		case errors.Is(err, zk.ErrNoNode):
			lost, sent = true, true
			return deleteEach(ctx, s, ops)
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

// deletes returns the requests to delete znodes, each only if it has its version in versions. A
// znode that is not in versions is deleted in any version.
func deletes(nodes []string, versions map[string]int32) (ops []any) {
	for _, node := range nodes {
		version, ok := versions[node]
		if !ok {
			version = -1
		}
		ops = append(ops, &zk.DeleteRequest{Path: node, Version: version})
	}
	return ops
}

// deleteEach carries out deletes one by one. A znode that is missing or has another version is not
// an error.
func deleteEach(ctx context.Context, s Session, deletes []any) error {
	for _, op := range deletes {
		if err := s.Multi(ctx, op); err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrBadVersion) {
			return err
		}
	}
	return nil
}

// ownedBySame reports whether a znode with this name belongs to the same owner, and to a lock or a
// lease as l does.
func (l *Lock) ownedBySame(n Name) bool {
	return l.owner != "" && n.Owner == l.owner && (n.Mode == Counted) == (l.semaphore != nil)
}

// permanentAmong returns the children that are persistent znodes of the owner, in the order of
// their sequence numbers.
func (l *Lock) permanentAmong(children []string) (names []string) {
	if l.owner == "" {
		return nil
	}
	for _, name := range children {
		if n, ok := ParseName(name); ok && n.Permanent && l.ownedBySame(n) {
			names = append(names, name)
		}
	}
	sortByNumber(names)
	return names
}

// makePermanent replaces the znodes of a granted attempt with persistent znodes, in one
// transaction. The transaction fails if the old znodes no longer exist. Therefore, no other
// client can have acquired the lock in the meantime.
func (e *entry) makePermanent(ctx context.Context) error {
	names, ok := e.renamed(prefixes(e.l.opt.Family, e.mode, permanentGUID(e.l.owner, e.czxid, e.l.opt.Expire)))
	if !ok {
		return ErrOverflow
	}
	e.l.created = append(e.l.created, names[0])
	data, version := e.l.opt.Data, int32(0)
	err := retry(ctx, e.s, func() error {
		err := e.s.Multi(ctx, e.replaceOps(names, e.createPermanent(data), e.l.opt.Data, version)...)
		if errors.Is(err, zk.ErrBadVersion) { // another client has asked the waiter to release the lock
			if data, _, err = e.readOwn(ctx); err == nil {
				version = -1
				err = e.s.Multi(ctx, e.replaceOps(names, e.createPermanent(data), data, version)...)
			}
		}
		return err
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil || ended(e.s) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists):
		return e.settle(names[0], err)
	}
	return err // rejected: no earlier request took effect
}

// settle finds out whether the transaction of makePermanent, which failed with err, has taken
// effect, and returns nil if so: the owner then holds the lock, even if it no longer wants to
// wait. Otherwise, settle makes sure that the transaction cannot take effect any more, and returns
// an error. permanent is the name of the first znode that the transaction creates. Another request
// of the owner may already rely on this znode, so settle never deletes it. settle waits at most for
// one session timeout, also if the caller's context has ended.
func (e *entry) settle(permanent string, err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), e.s.State(time.Now()).Timeout)
	defer cancel()
	e.l.unsettled = true
	if !ended(e.s) { // without its ephemeral znodes, the transaction fails
		failed := retry(ctx, e.s, func() error { return e.s.Multi(ctx, deletes(e.nodes(), nil)...) })
		switch {
		case failed == nil:
			e.names, e.mayExist, e.l.unsettled = nil, false, false
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

// createPermanent returns a function that returns the request to create a persistent znode at a
// path.
func (e *entry) createPermanent(data []byte) func(path string) any {
	return func(path string) any {
		if ttl := e.l.opt.Expire; ttl > 0 {
			return &zk.CreateTTLRequest{Path: path, Data: data, Acl: e.l.opt.ACL, Flags: zk.FlagTTL, Ttl: ttl.Milliseconds()}
		}
		return &zk.CreateRequest{Path: path, Data: data, Acl: e.l.opt.ACL}
	}
}

// checkExpire returns an error if the server does not support the TTL that Options.Expire
// requires. It creates a znode with a TTL in a transaction that always fails, so the znode
// never exists.
func (e *entry) checkExpire(ctx context.Context) error {
	if e.l.opt.Expire == 0 {
		return nil
	}
	const never = 1 << 30 // a version that the waiter's znode does not have
	create := e.createPermanent(nil)(e.node() + "-expire")
	err := retry(ctx, e.s, func() error { return e.s.Multi(ctx, create, &zk.CheckVersionRequest{Path: e.node(), Version: never}) })
	if errors.Is(err, zk.ErrBadVersion) {
		return nil
	}
	return placeLost(err)
}
