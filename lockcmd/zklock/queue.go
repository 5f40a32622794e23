package zklock

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// errPlaceLost means that another client deleted the znode of a waiter.
var errPlaceLost = errors.New("another client deleted the waiter's znode")

// An entry is one attempt to acquire a lock, in one session. Its own znodes are the znodes
// that this attempt has created.
type entry struct {
	l             *Lock
	s             Session
	clock         *leaseClock
	mode          Mode
	guid          string
	names         []string          // names of our own znodes, once they are known to exist
	czxid         int64             // czxid of our own znodes
	ownEvents     chan zk.EventType // events of our own znodes; capacity 1
	watched       bool              // our own znodes have watches that report to ownEvents
	listedOn      time.Time         // start of the connection on which the last list was requested
	notifiedPlace int               // place in the queue that was last reported
	notifiedAhead Ahead             // contender ahead that was last reported
	createSent    time.Time         // send time of the create request; zero once that is long ago

	revocation  []byte   // request to release the lock that arrived during the wait
	sharedNames []string // names that our own znodes have if an unanswered downgrade took effect
	mayExist    bool     // our own znodes may exist under names that are not known
	listed      bool     // our own znodes were seen in a list
	unanswered  bool     // a delete was sent but not answered: it may have taken effect
}

func newEntry(l *Lock, s Session, mode Mode) *entry {
	return &entry{l: l, s: s, clock: newLeaseClock(s), mode: mode, guid: newGUID(), ownEvents: make(chan zk.EventType, 1)}
}

// node returns the path of the entry's first own znode, or an empty string if none is known.
func (e *entry) node() string {
	if len(e.names) == 0 {
		return ""
	}
	return e.l.child(e.names[0])
}

// nodes returns the paths of all own znodes of the entry.
func (e *entry) nodes() []string {
	paths := make([]string, len(e.names))
	for i, name := range e.names {
		paths[i] = e.l.child(name)
	}
	return paths
}

// queue creates the entry's own znodes and waits until no conflicting contender is ahead of
// them. If it fails, it deletes them, in the background if they cannot be deleted at once.
func (e *entry) queue(ctx context.Context, wait bool) error {
	children, err := e.createZnodes(ctx)
	if err == nil {
		err = e.waitUntilFree(ctx, children, wait)
	}
	if err == nil {
		err = retry(ctx, e.s, func() error { return placeLost(e.clock.secure(ctx, e.createSent, e.node())) })
	}
	if err != nil && !ended(e.s) {
		err = errors.Join(err, e.withdraw(ctx))
	}
	return err
}

// waitUntilFree waits until no conflicting contender is ahead. children is the first list of
// contenders to examine. If wait is false, waitUntilFree returns ErrBusy instead of waiting.
func (e *entry) waitUntilFree(ctx context.Context, children []string, wait bool) error {
	for {
		ahead, err := e.ahead(ctx, children)
		e.listed = e.listed || !errors.Is(err, errPlaceLost)
		if err != nil || len(ahead) == 0 {
			return err
		}
		if !wait {
			return ErrBusy
		}
		if !e.watched { // a waiter must notice the deletion of its own znode, too
			var data []byte
			err := retry(ctx, e.s, func() (err error) {
				data, e.watched, err = e.readOwn(ctx)
				return err
			})
			if err != nil {
				return placeLost(err)
			}
			if asksForRelease(data) {
				e.revocation = data
			}
		}
		nearest, place, mayHandOff := ahead[len(ahead)-1], countOwners(ahead)+1, e.mayHandOff(ahead)
		e.createSent = time.Time{}
		children, ahead = nil, nil // a thousand waiters must not keep a thousand names each
		event, err := e.waitForChange(ctx, e.l.child(nearest), place)
		if err != nil || mayHandOff && e.undisturbed(event) {
			return err
		}
		err = retry(ctx, e.s, func() (err error) {
			children, err = e.list(ctx)
			return err
		})
		if err != nil {
			return placeLost(err)
		}
	}
}

// placeLost returns errPlaceLost if err is zk.ErrNoNode, which means that our own znode or its
// parent is missing. It returns other errors unchanged.
func placeLost(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return errPlaceLost
	}
	return err
}

// waitForChange waits for an event of node, the nearest znode ahead, or of our own znodes. It
// returns the event of node, or 0 if the wait ended for another reason.
func (e *entry) waitForChange(ctx context.Context, node string, place int) (zk.EventType, error) {
	wake := make(chan zk.EventType, 1) // a separate channel, so that events of other znodes do not count
	defer e.s.Unwatch(node, wake)
	st, err := e.readAhead(ctx, node, wake)
	if errors.Is(err, errPlaceLost) { // node, not our own znode, is gone
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	e.notifyPlace(place, st)
	var again <-chan time.Time
	if st.Data == nil || !e.watched {
		again = time.After(recheckInterval)
	}
	select {
	case event := <-wake:
		return event, nil
	case <-again:
		return 0, nil
	case <-e.ownEvents:
		e.watched = false
		return 0, nil
	case <-e.s.Ended():
		return 0, errSessionOver
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// notifyPlace reports the place in the queue to the owner if the place, or the contender
// ahead, has changed.
func (e *entry) notifyPlace(place int, ahead *Ahead) {
	if e.notifiedPlace == place && e.notifiedAhead.Node == ahead.Node && bytes.Equal(e.notifiedAhead.Data, ahead.Data) {
		return
	}
	e.notifiedPlace, e.notifiedAhead = place, *ahead
	e.l.notify(Status{State: Queued, Mode: e.mode, Node: e.node(), Place: place, Ahead: ahead})
}

// readAhead reads the znode of the contender ahead, and sets a watch that reports to wake.
// Without permission to read the znode, it sets no watch, and returns an Ahead with nil Data.
func (e *entry) readAhead(ctx context.Context, node string, wake chan<- zk.EventType) (*Ahead, error) {
	var data []byte
	var st *zk.Stat
	err := retry(ctx, e.s, func() (err error) {
		data, st, err = read(ctx, e.s, node, wake)
		return err
	})
	if err != nil {
		return nil, placeLost(err)
	}
	ahead := &Ahead{Node: node, Data: data}
	if st != nil {
		ahead.Since = time.UnixMilli(st.Ctime)
	}
	return ahead, nil
}

// readOwn reads our own znodes and sets watches on them. It returns the data of the first
// znode, or of the last one that contains a request to release the lock. readable reports
// whether all of them could be read.
func (e *entry) readOwn(ctx context.Context) (data []byte, readable bool, err error) {
	readable = true
	for _, name := range e.names {
		d, _, err := read(ctx, e.s, e.l.child(name), e.ownEvents)
		if err != nil {
			return nil, false, err
		}
		readable = readable && d != nil
		if data == nil || asksForRelease(d) {
			data = d
		}
	}
	return data, readable, nil
}

// read returns a znode's data and Stat, and sets a watch that reports to wake. Without
// permission to read the znode, it sets no watch, and returns nil data, and on newer servers
// a nil Stat as well, although the znode exists. A watch set with an exists request would not
// help: newer servers do not report its events without that permission, and if the znode was
// deleted meanwhile, the watch would remain forever. A caller that gets no data must read
// again soon.
func read(ctx context.Context, s Session, node string, wake chan<- zk.EventType) ([]byte, *zk.Stat, error) {
	data, st, err := s.Get(ctx, node, wake)
	if errors.Is(err, zk.ErrNoAuth) {
		st, err = s.Exists(ctx, node)
		if errors.Is(err, zk.ErrNoAuth) {
			return nil, nil, nil
		}
		return nil, st, err
	}
	if data == nil {
		data = []byte{}
	}
	return data, st, err
}

// createZnodes creates our own znodes, and missing parents. It returns the children of the
// lock's path, listed right after the creation.
func (e *entry) createZnodes(ctx context.Context) ([]string, error) {
	var reqs []*zk.CreateRequest
	for _, prefix := range prefixes(e.l.opt.Family, e.mode, e.guid) {
		reqs = append(reqs, &zk.CreateRequest{Path: e.l.child(prefix), Data: e.l.opt.Data, Acl: e.l.opt.ACL,
			Flags: zk.FlagEphemeral | zk.FlagSequence})
	}
	for pause := firstPause; ; pause = nextPause(pause) {
		changed := nextChange(e.s)
		begun, sent := e.clock.refresh(), time.Now()
		e.listedOn = begun
		paths, czxid, children, err := e.s.CreateAndList(ctx, reqs, e.l.path)
		e.mayExist = transient(err) || ctx.Err() != nil
		switch {
		case len(paths) > 0:
			e.setZnodes(paths, czxid)
			if err == nil {
				if e.clock.recordAnswer(begun, sent, nil) {
					e.createSent = sent
				}
				return children, nil
			}
			fallthrough
		case transient(err):
			children, err := e.findCreated(ctx, len(reqs))
			if err != nil || len(e.names) > 0 {
				return children, err
			}
			backOff(ctx, changed, pause)
		case errors.Is(err, zk.ErrNoNode):
			if err := e.makeParents(ctx, e.l.path, err); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

// setZnodes records the paths and the czxid of our own znodes.
func (e *entry) setZnodes(paths []string, czxid int64) {
	e.names, e.czxid = nil, czxid
	for _, p := range paths {
		e.names = append(e.names, path.Base(p))
	}
}

// findCreated finds out whether our own znodes were created, after the answer to the create,
// or to the list that follows it, was lost. It sends a sync first, because the next server
// may lag behind the one that created them. want is the number of own znodes that the create
// should have created.
func (e *entry) findCreated(ctx context.Context, want int) (children []string, err error) {
	children, err = e.syncAndList(ctx)
	if errors.Is(err, zk.ErrNoNode) {
		if len(e.names) > 0 {
			return nil, errPlaceLost
		}
		return nil, nil // without the parent, our own znodes cannot exist
	}
	if err != nil || len(e.names) > 0 {
		return children, err
	}
	e.names = e.ownAmong(children)
	switch len(e.names) {
	case 0:
	case want:
		var st *zk.Stat
		err = retry(ctx, e.s, func() (err error) {
			st, err = e.s.Exists(ctx, e.node())
			return err
		})
		if err != nil {
			return nil, placeLost(err)
		}
		e.czxid = st.Czxid
	default:
		return nil, errPlaceLost
	}
	return children, nil
}

// syncAndList lists the contenders after the server has caught up with the leader.
func (e *entry) syncAndList(ctx context.Context) (children []string, err error) {
	err = retry(ctx, e.s, func() (err error) {
		if err = e.s.Sync(ctx, e.l.path); err == nil {
			children, err = e.list(ctx)
		}
		return err
	})
	return children, err
}

// list returns the names of the contenders, and records on which connection it requested
// them.
func (e *entry) list(ctx context.Context) ([]string, error) {
	e.listedOn = begunAt(e.s)
	return e.s.Children(ctx, e.l.path)
}

// ownAmong returns the children whose names contain this entry's GUID, in the order of their
// creation.
func (e *entry) ownAmong(children []string) []string {
	own := slices.DeleteFunc(slices.Clone(children), func(c string) bool { return !isOwn(c, e.guid) })
	number := func(name string) int64 { n, _ := ParseName(name); return n.Number }
	slices.SortFunc(own, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	return own
}

// makeParents creates dir and its missing parents as containers, which the server deletes
// once they have been used and are empty again. If a parent is deleted before its child is
// created, makeParents creates both again. missing is the error that reported that dir does
// not exist.
func (e *entry) makeParents(ctx context.Context, dir string, missing error) error {
	if dir == "/" { // only the chroot itself can be missing, and creating it is not our task
		return missing
	}
	for {
		err := retry(ctx, e.s, func() error { return createParent(ctx, e.s, dir, e.l.parents, e.l.opt.ACL) })
		switch {
		case err == nil || errors.Is(err, zk.ErrNodeExists):
			return nil
		case !errors.Is(err, zk.ErrNoNode):
			return err
		}
		if err := e.makeParents(ctx, path.Dir(dir), err); err != nil {
			return err
		}
	}
}
