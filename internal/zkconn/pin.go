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
)

// A Pinned is a Sender for one session on the ensemble. Once that session is over, requests fail
// with SessionExpired, or with ErrNotConnected if it was closed. Requests wait for a connection
// until their context ends. Paths do not include the chroot.
type Pinned struct {
	l       *link
	in      wire.Epoch
	id      int64
	timeout time.Duration // session timeout that was negotiated when Pin was called
	ended   <-chan struct{}
}

// An Ensemble is the ensemble that a Session is connected to. Each call of Connect gives the
// Session a new Ensemble value, even if the servers are the same.
type Ensemble struct{ l *link }

// Ensemble returns the current ensemble.
func (s *Session) Ensemble() Ensemble { return Ensemble{s.current()} }

// Servers returns the connect string of the ensemble.
func (en Ensemble) Servers() Servers { return en.l.servers }

// Closed reports whether the Session has left the ensemble, by Close or Connect.
func (en Ensemble) Closed() bool {
	return stateOf(en.l.wire.Status()) == StateClosed
}

// Pin waits until there is a session, and returns a Pinned for it. It returns an error if ctx
// ends first.
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

// pinned returns a Pinned for the current session, or nil if there is no connection, because the
// session may then have no id.
func (en Ensemble) pinned() *Pinned {
	now := en.l.wire.Status()
	if now.Conn == nil {
		return nil
	}
	return &Pinned{l: en.l, in: now.Epoch, id: now.ID, timeout: now.Timeout, ended: now.Over}
}

// ID returns the id of the session.
func (p *Pinned) ID() int64 { return p.id }

// Connected reports whether the session has a connection to a server.
func (p *Pinned) Connected() bool {
	now := p.l.wire.Status()
	return now.Conn != nil && now.Epoch == p.in
}

// Changed returns a channel that is closed at the next change of the connection or the session.
func (p *Pinned) Changed() <-chan struct{} { return p.l.wire.Status().Changed }

// Ended returns a channel that is closed once the session is known to be over.
func (p *Pinned) Ended() <-chan struct{} { return p.ended }

// Await waits until there is a connection. It returns an error if ctx or the session ends first.
func (p *Pinned) Await(ctx context.Context) error {
	_, err := p.connection(ctx, "")
	return err
}

func (p *Pinned) connection(ctx context.Context, path string) (target, error) {
	k, err := p.l.awaitIn(ctx, p.in, path, true)
	return target{k, p.l, p.l.root}, err
}

// fencedBy returns nil, because the writes that acquire and release locks do not depend on a
// Fence.
func (p *Pinned) fencedBy() Fence { return nil }

// CreateAndList creates a znode and then lists the children of dir, in one round trip. It returns the
// path and the czxid of the new znode, and the names of the children. If it returns a path and an
// error, it created the znode but could not list the children. It also finds out, in the same round
// trip, which product the server is and whether it is standalone.
func (p *Pinned) CreateAndList(ctx context.Context, req *zk.CreateRequest, dir string) (
	node string, czxid int64, children []string, err error) {
	making, listing := alone(creation(jute.OpCreate, req, 0)), GetChildren(dir)
	if err := errors.Join(making.err, listing.err); err != nil {
		return "", 0, nil, err
	}
	to, err := p.connection(ctx, making.path)
	if err != nil {
		return "", 0, nil, err
	}
	made, list := bind(ctx, to, making), bind(ctx, to, listing)
	to.send(made.call, list.call)
	// Wait for the answer to the last request. Once it has arrived, the earlier answers have
	// arrived, too.
	_, unknown := to.inquire(ctx).learn(ctx)
	children, listErr := list.Wait(ctx)
	w, err := made.Wait(ctx)
	// The throttled create is sent again, after the list was read, so the list must be read
	// again.
	if errors.Is(err, Throttled) {
		w, err = Do(ctx, p, making)
		listErr = Throttled
	}
	if err != nil {
		return "", 0, nil, err
	}
	if errors.Is(listErr, Throttled) {
		children, listErr = Do(ctx, p, listing)
	}
	return w.Paths[0], w.Zxid, children, cmp.Or(listErr, unknown)
}

// Multi carries out all operations or none. Each must be a *zk.CreateRequest (not for a
// container), *zk.DeleteRequest, *zk.SetDataRequest or *zk.CheckVersionRequest. Multi sends a
// single delete as an ordinary delete request.
func (p *Pinned) Multi(ctx context.Context, ops ...any) error {
	if len(ops) == 1 {
		if r, ok := ops[0].(*zk.DeleteRequest); ok {
			return Exec(ctx, p, Delete(r.Path, r.Version))
		}
	}
	changes := make([]Change, len(ops))
	for i, op := range ops {
		changes[i] = changeOf(op)
	}
	return Exec(ctx, p, Multi(changes))
}

// CreateContainer creates an empty container znode. If the server does not support containers,
// which are new in ZooKeeper 3.5, it creates a persistent znode. If acl is nil, the znode gets
// the ACL of its parent.
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
	// From now on, send no createContainer, because this server closes the connection when it
	// receives one.
	p.l.noContainers = true
	p.l.mu.Unlock()
	return p.CreateContainer(ctx, path, acl)
}

// lacksContainers reports whether the server is known not to support containers. If such a server
// receives a createContainer, it might close the connection and end the session. So zksh first
// asks the server for its version, once for each connection. zksh assumes that a server without a
// version in its answer supports containers.
func (p *Pinned) lacksContainers(ctx context.Context) (bool, error) {
	if underLock(p.l, func() bool { return p.l.noContainers }) {
		return true, nil
	}
	v, err := p.Version(ctx)
	return v.Product != "" && !v.AtLeast(newer[jute.OpCreateContainer].minor()), err
}

// Version returns the product and version of the server to which the session is connected. It
// asks the server once for each connection. If the server does not answer, the result is zero.
func (p *Pinned) Version(ctx context.Context) (wire.Version, error) {
	to, err := p.connection(ctx, "")
	if err != nil {
		return wire.Version{}, err
	}
	return to.Version(ctx)
}

// Masked reports whether the server has hidden the password hash of the ACL entry a, because the
// client has no admin permission on the znode. If such an entry were written to an ACL, it would
// match no client.
func Masked(a zk.ACL) bool { return a.Scheme == "digest" && strings.HasSuffix(a.ID, ":x") }

// Sync waits until the server has caught up with the leader.
func (p *Pinned) Sync(ctx context.Context, path string) error { return Exec(ctx, p, Sync(path)) }

// Children returns the names of a znode's children. If wake is not nil, it leaves a watch, as
// Op.Wake does.
func (p *Pinned) Children(ctx context.Context, path string, wake chan<- zk.EventType) ([]string, error) {
	return Do(ctx, p, GetChildren(path).Wake(wake))
}

// Get returns a znode's data and Stat. If wake is not nil, it also leaves a watch, whose event is
// sent to wake; see Op.Wake.
func (p *Pinned) Get(ctx context.Context, path string, wake chan<- zk.EventType) ([]byte, *zk.Stat, error) {
	n, err := Do(ctx, p, GetData(path).Wake(wake))
	return n.Data, n.Stat, err
}

// Exists returns a znode's Stat. It needs no permission on the znode.
func (p *Pinned) Exists(ctx context.Context, path string) (*zk.Stat, error) {
	return Do(ctx, p, Exists(path))
}

// Unwatch removes the channel wake from the watches on path, so that wake receives no more events
// from them. The watches stay on the server until they fire.
func (p *Pinned) Unwatch(path string, wake chan<- zk.EventType) {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	for _, kind := range []watchKind{dataWatch, existWatch, childWatch} {
		p.l.watches.drop(watchKey{kind, p.l.root.server(path)}, wake)
	}
}

// Guard guards the session until release is called: if the server stops answering, the session
// leaves that server. The holder of a lock needs this, because it must release the lock in time.
// zksh notices a silent server only while a request or a ping is unanswered, so the caller must
// send requests often. Leaving a server is like a connection loss: Changed is closed, and requests
// in flight have an unknown outcome.
func (p *Pinned) Guard() (release func()) { return p.l.wire.Guard() }

// A Snapshot describes a session and its connection at one moment.
type Snapshot struct {
	ID        int64
	Timeout   time.Duration // negotiated session timeout
	Connected bool          // whether the session has a connection to a server

	// Begun is the time just before the connect request of the current connection was sent. It is
	// zero without a connection.
	Begun time.Time

	// Sent is the time just before a request or ping was sent on this connection. Came is a time at
	// which its answer had certainly arrived. It is the latest request that was answered before the
	// moment that was passed to State.
	Sent, Came time.Time

	// EndsWithConnection reports whether the session is known to end when its connection is lost. It
	// is known only after a call of CreateAndList or Standalone.
	EndsWithConnection bool

	// Changed is closed at the next change of the connection or the session.
	Changed <-chan struct{}
}

// State returns a snapshot of the session and its connection. The fields Sent and Came describe the
// latest request that was answered before the given moment.
func (p *Pinned) State(moment time.Time) Snapshot {
	now := p.l.wire.Status()
	st := Snapshot{ID: p.id, Timeout: p.timeout, Changed: now.Changed}
	if now.Epoch == p.in {
		st.Timeout = now.Timeout
		if k := now.Conn; k != nil {
			st.Connected, st.Begun = true, k.Asked
			st.Sent, st.Came = k.AnsweredBy(moment)
		}
	}
	st.EndsWithConnection = p.l.wire.Tied()
	return st
}
