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

// errPlaceLost says that the own znode vanished while it waited.
var errPlaceLost = errors.New("another client deleted the waiter's znode")

// entry is one attempt to get a lock, in one session.
type entry struct {
	l     *Lock
	s     Session
	clock *leaseClock
	mode  Mode
	guid  string
	names []string // of the own znodes, once they are known to exist
	czxid int64
	own   chan zk.EventType // capacity 1: the own znode has changed
	armed bool              // own will hear of it
	asked time.Time         // when the connection had begun on which the last list was asked for
	place int               // said last
	said  Ahead             // with it
	made  time.Time         // when the transaction was sent that made the own znodes; zero once that is long ago

	request    []byte   // to let go, that came while we waited
	next       []string // names of the own znodes if a change to shared, whose answer is missing, took effect
	unsure     bool     // there may be own znodes whose names are not known
	listed     bool     // the own znodes were seen in a list
	unanswered bool     // a removal was sent and has not been answered: it may have been carried out
}

func newEntry(l *Lock, s Session, mode Mode) *entry {
	return &entry{l: l, s: s, clock: newLeaseClock(s), mode: mode, guid: newGUID(), own: make(chan zk.EventType, 1)}
}

// node is the path of the first own znode, or empty.
func (e *entry) node() string {
	if len(e.names) == 0 {
		return ""
	}
	return e.l.child(e.names[0])
}

// nodes are the paths of all own znodes.
func (e *entry) nodes() []string {
	paths := make([]string, len(e.names))
	for i, name := range e.names {
		paths[i] = e.l.child(name)
	}
	return paths
}

// queue makes the own znodes and waits until nobody conflicting is ahead. When
// it fails nothing stays behind: what cannot be removed at once is removed in
// the background.
func (e *entry) queue(ctx context.Context, wait bool) error {
	children, err := e.enter(ctx)
	if err == nil {
		err = e.line(ctx, children, wait)
	}
	if err == nil {
		err = insist(ctx, e.s, func() error { return placeLost(e.clock.secure(ctx, e.made, e.node())) })
	}
	if err != nil && !ended(e.s) {
		err = errors.Join(err, e.withdraw(ctx))
	}
	return err
}

// line is the wait from the first list on.
func (e *entry) line(ctx context.Context, children []string, wait bool) error {
	for {
		ahead, err := e.ahead(ctx, children)
		e.listed = e.listed || !errors.Is(err, errPlaceLost)
		if err != nil || len(ahead) == 0 {
			return err
		}
		if !wait {
			return ErrBusy
		}
		if !e.armed { // a removal of the own znode must be seen while waiting, too
			var data []byte
			err := insist(ctx, e.s, func() (err error) {
				data, e.armed, err = e.readOwn(ctx)
				return err
			})
			if err != nil {
				return placeLost(err)
			}
			if asksToLetGo(data) {
				e.request = data
			}
		}
		nearest, place, last := ahead[len(ahead)-1], owners(ahead)+1, e.last(ahead)
		e.made = time.Time{}
		children, ahead = nil, nil // a thousand waiters must not keep a thousand names each
		what, err := e.await(ctx, e.l.child(nearest), place)
		if err != nil || last && e.undisturbed(what) {
			return err
		}
		err = insist(ctx, e.s, func() (err error) {
			children, err = e.list(ctx)
			return err
		})
		if err != nil {
			return placeLost(err)
		}
	}
}

// placeLost reads the absence of the own znode, or of its parent.
func placeLost(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return errPlaceLost
	}
	return err
}

// await waits until something changes at the nearest znode ahead, or at the own
// one. It returns the event of the one ahead, or 0.
func (e *entry) await(ctx context.Context, node string, place int) (zk.EventType, error) {
	wake := make(chan zk.EventType, 1) // none of another znode's
	defer e.s.Unwatch(node, wake)
	st, err := e.look(ctx, node, wake)
	if errors.Is(err, errPlaceLost) { // it was the one ahead that has gone meanwhile
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	e.say(place, st)
	var again <-chan time.Time
	if st.Data == nil || !e.armed {
		again = time.After(lookAgain)
	}
	select {
	case what := <-wake:
		return what, nil
	case <-again:
		return 0, nil
	case <-e.own:
		e.armed = false
		return 0, nil
	case <-e.s.Ended():
		return 0, errSessionOver
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// say reports the place in the queue if it has changed.
func (e *entry) say(place int, ahead *Ahead) {
	if e.place == place && e.said.Node == ahead.Node && bytes.Equal(e.said.Data, ahead.Data) {
		return
	}
	e.place, e.said = place, *ahead
	e.l.notify(Status{State: Queued, Mode: e.mode, Node: e.node(), Place: place, Ahead: ahead})
}

// look reads a znode and leaves a watch, which reading does only on a znode that is
// there. Where reading is forbidden there is none, and the data are nil.
func (e *entry) look(ctx context.Context, node string, wake chan<- zk.EventType) (*Ahead, error) {
	var data []byte
	var st *zk.Stat
	err := insist(ctx, e.s, func() (err error) {
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

// readOwn reads the own znodes and leaves watches. It returns the data of the
// first, or of the one that asks to let go, and whether all could be read.
func (e *entry) readOwn(ctx context.Context) (data []byte, readable bool, err error) {
	readable = true
	for _, name := range e.names {
		d, _, err := read(ctx, e.s, e.l.child(name), e.own)
		if err != nil {
			return nil, false, err
		}
		readable = readable && d != nil
		if data == nil || asksToLetGo(d) {
			data = d
		}
	}
	return data, readable, nil
}

// read returns a znode's data, nil if they may not be read, and its Stat, which newer
// servers do not tell then either: it is nil, but the znode is there. It leaves a
// watch only where the data may be read: newer servers never tell that another
// one has fired, and on a znode that vanishes meanwhile exists would leave it for
// good. Who gets no data looks again soon.
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

// enter makes the own znodes, with the parents they need, and returns the
// children listed after that.
func (e *entry) enter(ctx context.Context) ([]string, error) {
	var reqs []*zk.CreateRequest
	for _, prefix := range prefixes(e.l.opt.Family, e.mode, e.guid) {
		reqs = append(reqs, &zk.CreateRequest{Path: e.l.child(prefix), Data: e.l.opt.Data, Acl: e.l.opt.ACL,
			Flags: zk.FlagEphemeral | zk.FlagSequence})
	}
	for pause := firstPause; ; pause = longer(pause) {
		changed := nextChange(e.s)
		begun, sent := e.clock.present(), time.Now()
		e.asked = begun
		paths, czxid, children, err := e.s.CreateAndList(ctx, reqs, e.l.path)
		e.unsure = transient(err) || ctx.Err() != nil
		switch {
		case len(paths) > 0:
			e.take(paths, czxid)
			if err == nil {
				if e.clock.answered(begun, sent, nil) {
					e.made = sent
				}
				return children, nil
			}
			fallthrough
		case transient(err):
			children, err := e.recover(ctx, len(reqs))
			if err != nil || len(e.names) > 0 {
				return children, err
			}
			calmDown(ctx, changed, pause)
		case errors.Is(err, zk.ErrNoNode):
			if err := e.makeParents(ctx, e.l.path, err); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

func (e *entry) take(paths []string, czxid int64) {
	e.names, e.czxid = nil, czxid
	for _, p := range paths {
		e.names = append(e.names, path.Base(p))
	}
}

// recover finds out whether the own znodes were made when the answer, or that of
// the list behind, did not come. Sync comes first: another server may lag behind
// the one that made them.
func (e *entry) recover(ctx context.Context, want int) (children []string, err error) {
	children, err = e.syncAndList(ctx)
	if errors.Is(err, zk.ErrNoNode) {
		if len(e.names) > 0 {
			return nil, errPlaceLost
		}
		return nil, nil // no parent, no znodes of ours
	}
	if err != nil || len(e.names) > 0 {
		return children, err
	}
	e.names = e.find(children)
	switch len(e.names) {
	case 0:
	case want:
		var st *zk.Stat
		err = insist(ctx, e.s, func() (err error) {
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

func (e *entry) syncAndList(ctx context.Context) (children []string, err error) {
	err = insist(ctx, e.s, func() (err error) {
		if err = e.s.Sync(ctx, e.l.path); err == nil {
			children, err = e.list(ctx)
		}
		return err
	})
	return children, err
}

// list asks for the contenders, and notes on which connection.
func (e *entry) list(ctx context.Context) ([]string, error) {
	e.asked = begunAt(e.s)
	return e.s.Children(ctx, e.l.path)
}

// find picks the own znodes out of a list by their mark, as they were made.
func (e *entry) find(children []string) []string {
	own := slices.DeleteFunc(slices.Clone(children), func(c string) bool { return !mine(c, e.guid) })
	number := func(name string) int64 { n, _ := ParseName(name); return n.Number }
	slices.SortFunc(own, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	return own
}

// makeParents makes a path of containers, which the server removes once they
// have been used and are empty again. One may vanish while the next is made. The
// error missing tells that there is none.
func (e *entry) makeParents(ctx context.Context, dir string, missing error) error {
	if dir == "/" { // a chroot is not ours to make
		return missing
	}
	for {
		err := insist(ctx, e.s, func() error { return createParent(ctx, e.s, dir, e.l.parents, e.l.opt.ACL) })
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
