package zklock

import (
	"cmp"
	"context"
	"errors"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// errPlaceLost says that the own znode vanished while it waited.
var errPlaceLost = errors.New("the own znode was removed by somebody else")

// entry is one attempt to get a lock, in one session.
type entry struct {
	l     *Lock
	s     Session
	mode  Mode
	guid  string
	names []string // of the own znodes, once they are known to exist
	czxid int64
	wake  chan struct{} // capacity 1: the znode ahead has changed
	own   chan struct{} // capacity 1: the own one has
	armed bool          // own will hear of it
}

func newEntry(l *Lock, s Session, mode Mode) *entry {
	return &entry{l: l, s: s, mode: mode, guid: newGUID(), wake: make(chan struct{}, 1), own: make(chan struct{}, 1)}
}

// node is the path of the first own znode, or empty.
func (e *entry) node() string {
	if len(e.names) == 0 {
		return ""
	}
	return e.l.child(e.names[0])
}

// queue makes the own znodes and waits until nobody conflicting is ahead. When
// it fails nothing stays behind: what cannot be removed at once is removed in
// the background.
func (e *entry) queue(ctx context.Context, wait bool) error {
	children, err := e.enter(ctx)
	if err == nil {
		err = e.line(ctx, children, wait)
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
		if err != nil || len(ahead) == 0 {
			return err
		}
		if !wait {
			return ErrBusy
		}
		if !e.armed { // a removal of the own znode must be seen while waiting, too
			if _, err := e.look(ctx, e.node(), e.own); err != nil {
				return err
			}
			e.armed = true
		}
		if err := e.await(ctx, ahead); err != nil {
			return err
		}
		err = insist(ctx, e.s, func() (err error) {
			children, err = e.s.Children(ctx, e.l.path)
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

// await waits until something changes at the nearest znode ahead, or at the own one.
func (e *entry) await(ctx context.Context, ahead []string) error {
	node := e.l.child(ahead[len(ahead)-1])
	defer e.s.Unwatch(node, e.wake)
	st, err := e.look(ctx, node, e.wake)
	if errors.Is(err, errPlaceLost) { // it was the one ahead that has gone meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	e.l.notify(Status{State: Queued, Mode: e.mode, Node: e.node(), Place: owners(ahead) + 1, Ahead: st})
	select {
	case <-e.wake:
		return nil
	case <-e.own:
		e.armed = false
		return nil
	case <-e.s.Ended():
		return zk.ErrSessionExpired
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// owners counts the contenders behind a list of znodes; one may have several.
func owners(names []string) int {
	seen := map[string]bool{}
	for _, name := range names {
		n, _ := ParseName(name)
		seen[cmp.Or(strings.ReplaceAll(strings.TrimPrefix(n.GUID, "_c_"), "-", ""), name)] = true
	}
	return len(seen)
}

// look reads a znode and leaves a watch. Reading the data leaves none behind on a
// znode that is gone; where reading is forbidden, exists does.
func (e *entry) look(ctx context.Context, node string, wake chan<- struct{}) (*Ahead, error) {
	var data []byte
	var st *zk.Stat
	err := insist(ctx, e.s, func() (err error) {
		data, st, err = e.s.Get(ctx, node, wake)
		if errors.Is(err, zk.ErrNoAuth) {
			st, err = e.s.Exists(ctx, node, wake)
		}
		return err
	})
	if err != nil {
		return nil, placeLost(err)
	}
	return &Ahead{Node: node, Data: data, Since: time.UnixMilli(st.Ctime)}, nil
}

// rank orders contenders: by number, or by czxid where numbers cannot be trusted.
type rank struct {
	name string
	key  int64
}

// ahead lists the contenders that are waited for, the nearest last.
func (e *entry) ahead(ctx context.Context, children []string) ([]string, error) {
	own := slices.DeleteFunc(slices.Clone(children), func(c string) bool { return !slices.Contains(e.names, c) })
	if len(own) < len(e.names) {
		return nil, errPlaceLost
	}
	key := int64(math.MaxInt64)
	for _, name := range own {
		n, _ := ParseName(name)
		key = min(key, n.Number)
	}
	others, byNumber := e.rivals(children, key)
	if !byNumber {
		key = e.czxid
		var err error
		if others, err = e.byCzxid(ctx, others); err != nil {
			return nil, err
		}
	}
	others = slices.DeleteFunc(others, func(r rank) bool { return r.key >= key })
	slices.SortFunc(others, func(a, b rank) int { return cmp.Compare(a.key, b.key) })
	names := make([]string, len(others))
	for i, r := range others {
		names[i] = r.name
	}
	return names, nil
}

// rivals are the contenders that conflict with us. Their numbers tell their
// order unless the server's counter has overflowed: then it sticks at its last
// value, and numbers repeat.
func (e *entry) rivals(children []string, own int64) (list []rank, byNumber bool) {
	byNumber = trusted(own)
	for _, name := range children {
		n, ok := ParseName(name)
		if !ok || n.Number == NoNumber || !conflicts(e.mode, n.Mode) || slices.Contains(e.names, name) {
			continue
		}
		list = append(list, rank{name, n.Number})
		if !trusted(n.Number) || n.Number == own {
			byNumber = false
		}
	}
	return list, byNumber
}

func trusted(number int64) bool { return number >= 0 && number < math.MaxInt32 }

// byCzxid ranks contenders by the transaction that made them.
func (e *entry) byCzxid(ctx context.Context, list []rank) ([]rank, error) {
	var ranked []rank
	for _, r := range list {
		var st *zk.Stat
		err := insist(ctx, e.s, func() (err error) {
			st, err = e.s.Exists(ctx, e.l.child(r.name), nil)
			return err
		})
		switch {
		case errors.Is(err, zk.ErrNoNode): // gone
		case err != nil:
			return nil, err
		default:
			ranked = append(ranked, rank{r.name, st.Czxid})
		}
	}
	return ranked, nil
}

// enter makes the own znodes, with the parents they need, and returns the
// children listed after that.
func (e *entry) enter(ctx context.Context) ([]string, error) {
	var reqs []*zk.CreateRequest
	for _, prefix := range prefixes(e.l.opt.Family, e.mode, e.guid) {
		reqs = append(reqs, &zk.CreateRequest{Path: e.l.child(prefix), Data: e.l.opt.Data, Acl: e.l.opt.ACL,
			Flags: zk.FlagEphemeral | zk.FlagSequence})
	}
	for {
		paths, czxid, children, err := e.s.CreateAndList(ctx, reqs, e.l.path)
		switch {
		case len(paths) > 0:
			e.take(paths, czxid)
			if err == nil {
				return children, nil
			}
			fallthrough
		case transient(err):
			children, err := e.recover(ctx, len(reqs))
			if err != nil || len(e.names) > 0 {
				return children, err
			}
		case errors.Is(err, zk.ErrNoNode):
			if err := e.makeParents(ctx, e.l.path); err != nil {
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
	err = insist(ctx, e.s, func() (err error) {
		if err = e.s.Sync(ctx, e.l.path); err == nil {
			children, err = e.s.Children(ctx, e.l.path)
		}
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		if len(e.names) > 0 {
			return nil, errPlaceLost
		}
		return nil, nil // no parent, no znodes of ours
	}
	if err != nil || len(e.names) > 0 {
		return children, err
	}
	if found := e.find(children); len(found) == want {
		e.names = found
		var st *zk.Stat
		err = insist(ctx, e.s, func() (err error) {
			st, err = e.s.Exists(ctx, e.node(), nil)
			return err
		})
		if err != nil {
			return nil, placeLost(err)
		}
		e.czxid = st.Czxid
	}
	return children, nil
}

// find picks the own znodes out of a list by their mark.
func (e *entry) find(children []string) []string {
	return slices.DeleteFunc(slices.Clone(children), func(c string) bool { return !mine(c, e.guid) })
}

// makeParents makes a path of containers, which the server removes once they
// have been used and are empty again. One may vanish while the next is made.
func (e *entry) makeParents(ctx context.Context, dir string) error {
	for {
		err := insist(ctx, e.s, func() error { return e.s.CreateContainer(ctx, dir) })
		switch {
		case err == nil || errors.Is(err, zk.ErrNodeExists):
			return nil
		case !errors.Is(err, zk.ErrNoNode) || path.Dir(dir) == "/": // a chroot is not ours to make
			return err
		}
		if err := e.makeParents(ctx, path.Dir(dir)); err != nil {
			return err
		}
	}
}
