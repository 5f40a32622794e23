package zkconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn/wire"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// Pinned sends requests in one session of the ensemble and in no other: once
// that session is over, each fails with SessionExpired, or ErrNotConnected after
// a close. Requests wait for a connection until their context ends, and are sent
// once. Paths are without the chroot.
type Pinned struct {
	l       *link
	in      wire.Epoch
	id      int64
	timeout time.Duration // as it was when it was pinned
	ended   <-chan struct{}
}

// What a zklock.Session can have in addition is looked for at run time, so it is checked
// here that Pinned has it.
var _ interface {
	zklock.Session
	zklock.Guarder
	zklock.StandaloneChecker
	zklock.ContainerCreator
} = (*Pinned)(nil)

// Ensemble is the ensemble a Session is connected to now. What Connect puts in its
// place is another one, even of the same servers.
type Ensemble struct{ l *link }

// Ensemble binds to the present ensemble.
func (s *Session) Ensemble() Ensemble { return Ensemble{s.current()} }

// Servers is the connect string it is reached by.
func (en Ensemble) Servers() Servers { return en.l.servers }

// Closed reports whether it was left by Close or Connect.
func (en Ensemble) Closed() bool {
	return stateOf(en.l.wire.Status()) == StateClosed
}

// Pin waits for a session until ctx ends and binds to it.
func (en Ensemble) Pin(ctx context.Context) (*Pinned, error) {
	for {
		if _, err := en.l.await(ctx, "", true); err != nil && !errors.Is(err, SessionExpired) {
			return nil, err
		}
		if p := en.pinned(); p != nil {
			return p, nil
		}
	}
}

// pinned binds to the session, or returns nil if the connection has gone again:
// without one the session may have no id yet.
func (en Ensemble) pinned() *Pinned {
	now := en.l.wire.Status()
	if now.Conn == nil {
		return nil
	}
	return &Pinned{l: en.l, in: now.Epoch, id: now.ID, timeout: now.Timeout, ended: now.Over}
}

// ID is the session's id.
func (p *Pinned) ID() int64 { return p.id }

// Connected reports whether there is a connection to a server.
func (p *Pinned) Connected() bool {
	now := p.l.wire.Status()
	return now.Conn != nil && now.Epoch == p.in
}

// Changed is closed when the connection changes next.
func (p *Pinned) Changed() <-chan struct{} { return p.l.wire.Status().Changed }

// Ended is closed once the session is known to be over.
func (p *Pinned) Ended() <-chan struct{} { return p.ended }

// Await waits for a connection until ctx or the session ends.
func (p *Pinned) Await(ctx context.Context) error {
	_, err := p.connection(ctx, "")
	return err
}

func (p *Pinned) connection(ctx context.Context, path string) (target, error) {
	k, err := p.l.awaitIn(ctx, p.in, path, true)
	return target{k, p.l, p.l.root}, err
}

// fencedBy has what takes and gives locks depend on none.
func (p *Pinned) fencedBy() Fence { return nil }

// CreateAndList makes the znodes, all or none, and lists dir right behind, in
// one round trip. It returns their paths and czxid, and the names of dir's
// children. With paths and an error, the znodes were made and the list failed. What is to
// be known of a server that holds something is asked in the same round trip.
func (p *Pinned) CreateAndList(ctx context.Context, reqs []*zk.CreateRequest, dir string) (paths []string, czxid int64, children []string, err error) {
	making, listing := creations(reqs), GetChildren(dir)
	if err := errors.Join(making.err, listing.err); err != nil {
		return nil, 0, nil, err
	}
	to, err := p.connection(ctx, making.path)
	if err != nil {
		return nil, 0, nil, err
	}
	made, list := bind(ctx, to, making), bind(ctx, to, listing)
	to.send(made.call, list.call)
	_, unknown := to.inquire(ctx).learn(ctx) // the last answer first: one wait instead of several
	children, listErr := list.Wait(ctx)
	w, err := made.Wait(ctx)
	if errors.Is(err, Throttled) { // the list was too early
		w, err = Do(ctx, p, making)
		listErr = Throttled
	}
	if err != nil {
		return nil, 0, nil, err
	}
	if errors.Is(listErr, Throttled) {
		children, listErr = Do(ctx, p, listing)
	}
	return w.Paths, w.Zxid, children, cmp.Or(listErr, unknown)
}

// creations is a create for one znode and a multi for more. Servers of all versions
// know both, and answer at the transaction that made the znodes, which is their czxid.
func creations(reqs []*zk.CreateRequest) Op[Written] {
	if len(reqs) == 1 {
		return alone(creation(jute.OpCreate, reqs[0], 0))
	}
	changes := make([]Change, len(reqs))
	for i, r := range reqs {
		changes[i] = creation(jute.OpCreate, r, 0)
	}
	return Multi(changes)
}

// Multi carries out all operations or none: *zk.CreateRequest (without container
// or TTL), *zk.DeleteRequest, *zk.SetDataRequest, *zk.CheckVersionRequest. A single
// delete is sent as such: servers of all versions know it.
func (p *Pinned) Multi(ctx context.Context, ops ...any) error {
	if len(ops) == 1 {
		if r, ok := ops[0].(*zk.DeleteRequest); ok {
			return Exec(ctx, p, Delete(r.Path, r.Version))
		}
	}
	changes := make([]Change, len(ops))
	for i, o := range ops {
		changes[i] = changeOf(o)
	}
	return Exec(ctx, p, Multi(changes))
}

// CreateContainer makes an empty container znode, or a persistent one where the server
// knows no containers, as before 3.5. Without an ACL it gets that of the znode above it.
func (p *Pinned) CreateContainer(ctx context.Context, path string, acl []zk.ACL) error {
	if err := ValidatePath(path, false); err != nil {
		return err
	}
	if acl == nil {
		above := path[:max(1, strings.LastIndexByte(path, '/'))]
		got, err := Do(ctx, p, GetACL(above))
		if err == nil && slices.ContainsFunc(got.ACL, Masked) {
			err = &Error{Code: NoAuth, Path: above}
		}
		if errors.Is(err, NoAuth) {
			return fmt.Errorf("cannot create %s with the ACL of its parent: %w; set another ACL with --acl", path, err)
		}
		if err != nil {
			return err
		}
		acl = got.ACL
	}
	none, err := p.lacksContainers(ctx)
	if err != nil {
		return err
	}
	_, err = once(ctx, p, Create(path, []byte{}, acl, CreateMode{Container: !none}))
	_, hungUp := errors.AsType[*hangUp](err)
	if none || !hungUp && !errors.Is(err, Unimplemented) {
		return err
	}
	p.l.mu.Lock()
	p.l.noContainers = true // it hangs up over each request that it does not know, with an answer or without
	p.l.mu.Unlock()
	return p.CreateContainer(ctx, path, acl)
}

// lacksContainers reports whether the server is known not to know containers. It might
// close the connection over one, and end the session with it. So it is asked for its
// version, once for each connection; one that does not tell is tried.
func (p *Pinned) lacksContainers(ctx context.Context) (bool, error) {
	if look(p.l, func() bool { return p.l.noContainers }) {
		return true, nil
	}
	to, err := p.connection(ctx, "")
	if err != nil {
		return false, err
	}
	v, err := to.Version(ctx)
	return v.Product != "" && !v.AtLeast(newer[jute.OpCreateContainer].minor()), err
}

// Masked tells an entry that a server shows without its hash, to all who may not
// administer the znode. In another ACL it would let nobody in.
func Masked(a zk.ACL) bool { return a.Scheme == "digest" && strings.HasSuffix(a.ID, ":x") }

// Sync waits until the server has caught up with the leader.
func (p *Pinned) Sync(ctx context.Context, path string) error { return Exec(ctx, p, Sync(path)) }

// Children returns the names of a znode's children.
func (p *Pinned) Children(ctx context.Context, path string) ([]string, error) {
	return Do(ctx, p, GetChildren(path))
}

// Get returns a znode's data and Stat. With a wake channel, it leaves a watch, as Op.Wake does.
func (p *Pinned) Get(ctx context.Context, path string, wake chan<- zk.EventType) ([]byte, *zk.Stat, error) {
	n, err := Do(ctx, p, GetData(path).Wake(wake))
	return n.Data, n.Stat, err
}

// Exists returns a znode's Stat, which needs no permission.
func (p *Pinned) Exists(ctx context.Context, path string) (*zk.Stat, error) {
	return Do(ctx, p, Exists(path))
}

// Unwatch forgets what requests on path were given this wake channel for. The
// server keeps its watches until they fire, which then shows nowhere.
func (p *Pinned) Unwatch(path string, wake chan<- zk.EventType) {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	for _, kind := range []watchKind{dataWatch, existWatch, childWatch} {
		p.l.watches.drop(watchKey{kind, p.l.root.server(path)}, wake)
	}
}

// Guard makes the session leave a server that falls silent, until release is called:
// for as long as something depends on the session that must be given up in time.
// Silence is noticed by a request or a ping without an answer, so the caller must
// not be without a request for long. The connection then changes as when it has
// broken: Changed is closed, and what was sent has an unknown outcome.
func (p *Pinned) Guard() (release func()) { return p.l.wire.Guard() }

// State is that of the session and its connection at one moment; see zklock.SessionState.
// EndsWithConnection is learned by CreateAndList and Standalone.
func (p *Pinned) State(by time.Time) zklock.SessionState {
	now := p.l.wire.Status()
	st := zklock.SessionState{ID: p.id, Timeout: p.timeout, Changed: now.Changed}
	if now.Epoch == p.in {
		st.Timeout = now.Timeout
		if k := now.Conn; k != nil {
			st.Connected, st.Begun = true, k.Asked
			st.Sent, st.Came = k.AnsweredBy(by)
		}
	}
	st.EndsWithConnection = p.l.wire.Tied()
	return st
}
