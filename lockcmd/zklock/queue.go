package zklock

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// errPlaceLost means that another client deleted the znode of a waiter.
var errPlaceLost = errors.New("another client deleted the waiter's znode")

// An entry is one attempt to acquire a lock, in one session. Its own znode is the znode that this
// attempt has created.
type entry struct {
	l             *Lock
	s             Session
	clock         *leaseClock
	mode          Mode
	guid          string
	name          string            // name of our own znode, once it is known to exist
	czxid         int64             // czxid of our own znode
	ownEvents     chan zk.EventType // events of our own znode; capacity 1
	watched       bool              // our own znode has a watch that reports to ownEvents
	listedOn      time.Time         // start of the connection on which the last list was requested
	notifiedPlace int               // place in the queue that was last reported
	notifiedAhead Ahead             // contender ahead that was last reported
	createSent    time.Time         // send time of the create request; zero once that is long ago

	revocation  []byte // request to release the lock that arrived during the wait
	replacement string // name that our own znode has if an unanswered transaction, which replaces it, took effect
	mayExist    bool   // our own znode may exist under a name that is not known
	listed      bool   // our own znode was seen in a list
	unanswered  bool   // a delete was sent but not answered: it may have taken effect
}

func newEntry(l *Lock, s Session, mode Mode) *entry {
	e := &entry{l: l, s: s, clock: newLeaseClock(s), mode: mode, guid: newGUID(), ownEvents: make(chan zk.EventType, 1)}
	if l.owner != "" {
		e.guid = waitingGUID(l.owner, e.guid)
	}
	return e
}

// node returns the path of the entry's own znode, or an empty string if it is not known.
func (e *entry) node() string {
	if e.name == "" {
		return ""
	}
	return e.l.child(e.name)
}

// queue creates the entry's own znode and waits until no conflicting contender is ahead of it. If
// it fails, it deletes the znode, in the background if it cannot be deleted at once.
func (e *entry) queue(ctx context.Context, wait bool) error {
	children, err := e.createZnode(ctx)
	if err == nil {
		err = e.waitUntilFree(ctx, children, wait)
	}
	if err == nil {
		err = e.secure(ctx)
	}
	return e.withdrawAfter(ctx, err)
}

// secure completes the acquisition of a lock that was just granted. For a Lock, it makes
// sure that the lease is long enough. For an Owned, it replaces our own znode with a
// persistent znode.
func (e *entry) secure(ctx context.Context) error {
	if e.l.owner != "" {
		return e.makePermanent(ctx)
	}
	return retry(ctx, e.s, func() error { return placeLost(e.clock.secure(ctx, e.createSent, e.node())) })
}

// waitUntilFree waits until no conflicting contender is ahead. children is the first list of
// contenders to examine. If wait is false, waitUntilFree returns ErrBusy instead of waiting.
func (e *entry) waitUntilFree(ctx context.Context, children []string, wait bool) error {
	for {
		if e.l.permanentAmong(children) != "" {
			return errOwned
		}
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
		blockers, place, mayHandOff := e.blockers(ahead), len(ahead)+1, e.mayHandOff(ahead)
		e.createSent = time.Time{}
		children, ahead = nil, nil // a thousand waiters must not keep a thousand names each
		event, err := e.waitForChange(ctx, blockers, place)
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

// blockers returns the paths of the znodes that a waiter watches. The first is the nearest
// znode ahead. For an Owned, there may be a second: the nearest znode ahead that belongs to
// the same owner. When that znode becomes persistent, the owner holds the lock, and the
// waiter can stop waiting.
func (e *entry) blockers(ahead []string) []string {
	nodes := []string{e.l.child(ahead[len(ahead)-1])}
	for _, name := range slices.Backward(ahead) {
		if n, _ := ParseName(name); e.l.ownedBySame(n) {
			if node := e.l.child(name); node != nodes[0] {
				nodes = append(nodes, node)
			}
			break
		}
	}
	return nodes
}

// waitForChange waits until one of the znodes in blockers or our own znode changes.
// The first blocker is the nearest contender ahead; place is our place in the queue, to be
// reported. waitForChange returns the event of a blocker, or 0 if the wait ended for
// another reason.
func (e *entry) waitForChange(ctx context.Context, blockers []string, place int) (zk.EventType, error) {
	wake := make(chan zk.EventType, 1) // a separate channel, so that events of other znodes do not count
	var again <-chan time.Time
	for i, node := range blockers {
		defer e.s.Unwatch(node, wake)
		st, err := e.readAhead(ctx, node, wake)
		if errors.Is(err, errPlaceLost) { // node, not our own znode, is gone
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		if i == 0 {
			e.notifyPlace(place, st)
		}
		if st.Data == nil || !e.watched {
			again = time.After(recheckInterval)
		}
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

// readOwn reads our own znode and sets a watch on it. readable reports whether zksh has the
// permission to read it.
func (e *entry) readOwn(ctx context.Context) (data []byte, readable bool, err error) {
	data, _, err = read(ctx, e.s, e.node(), e.ownEvents)
	return data, data != nil, err
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
