package zktree

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
)

// A kind is the kind of a request: the part of each znode that it reads.
type kind int

// The kinds of requests. Those from askData on are for znodes whose children are known already.
const (
	askNothing kind = iota
	askNames        // names of the children
	askList         // names of the children, and the Stat
	askStat         // the Stat; newer servers return it only with read permission
	askAccess       // ACL and Stat, before the names of the children
	askData         // data and Stat
	askACL          // ACL, after everything else
)

func (k kind) isLate() bool { return k >= askData }

// firstRequest returns the kind of the first request for a znode at the given depth below the root.
func (w *walk) firstRequest(depth int) kind {
	switch wantsNames := w.wantsNames(depth); {
	case w.o.ACL && w.o.Select == nil:
		return askAccess
	case wantsNames && w.o.Stat:
		return askList
	case wantsNames:
		return askNames
	case w.o.Stat:
		return askStat
	}
	return askNothing
}

// secondRequest returns the kind of the request for known znodes.
func (w *walk) secondRequest() kind {
	if w.o.Data {
		return askData
	}
	return askACL
}

// A request asks for several items at once: in a multiRead, or in single requests that are sent
// together.
type request struct {
	kind  kind
	items []*item // items whose answers have not been read yet
	reply arrival
	wait  func(context.Context) error // waits for the reply, and stores the answers in the items

	following []*item // answered items that need another request
}

// An arrival is the reply to a request, which may still be in flight.
type arrival interface {
	Ready() bool  // whether it has arrived
	Slowed() bool // whether the server was overloaded and rejected a request at first
}

// send sends a request for some items.
func (w *walk) send(k kind, items ...*item) {
	r := &request{kind: k, items: items}
	w.start(r)
	w.sent = append(w.sent, r)
}

// follow makes the walk send another request for an item of r.
func (r *request) follow(i *item) { r.following = append(r.following, i) }

// nextKind is the kind of the request that follows a request.
var nextKind = map[kind]kind{askList: askStat, askAccess: askNames, askData: askACL}

// transmit sends the request r, or sends it again on another connection.
func (w *walk) transmit(r *request) {
	switch r.kind {
	case askNames:
		if w.multiRead && len(r.items) > 1 {
			together(w, r, zkconn.MultiGetChildren, func(i *item, l zkconn.Listing) { w.putNames(i, l.Names, l.Err) })
			return
		}
	case askData:
		if w.multiRead && len(r.items) > 1 {
			together(w, r, zkconn.MultiGetData, func(i *item, n zkconn.Reading) { w.putData(r, i, n.Node, n.Err) })
			return
		}
	}
	w.transmitEach(r)
}

// transmitEach sends a request for each item of r.
func (w *walk) transmitEach(r *request) {
	switch r.kind {
	case askNames:
		ask := func(path string) zkconn.Op[[]string] { return zkconn.GetChildren(path).Watch(w.o.Watch) }
		each(w, r, ask, w.putNames)
	case askList:
		each(w, r, zkconn.List, func(i *item, l zkconn.Listed, err error) { w.putListed(r, i, l, err) })
	case askStat:
		each(w, r, zkconn.Exists, w.putStat)
	case askAccess:
		each(w, r, zkconn.GetACL, func(i *item, a zkconn.Access, err error) { w.putAccess(r, i, a, err) })
	case askData:
		each(w, r, zkconn.GetData, func(i *item, n zkconn.Node, err error) { w.putData(r, i, n, err) })
	case askACL:
		each(w, r, zkconn.GetACL, w.putACL)
	}
}

// each sends a request for each item of r. put stores an answer.
func each[T any](w *walk, r *request, ask func(string) zkconn.Op[T], put func(*item, T, error)) {
	s := zkconn.AddEach(w.p, r.paths(), ask)
	r.reply = s
	r.wait = func(ctx context.Context) error {
		return s.Each(ctx, func(v T, refusal error) { put(r.take(), v, refusal) })
	}
}

// together sends a multiRead for all items of r. If the server rejects it because the reply would be
// too long, it sends a request for each item.
func together[T any](w *walk, r *request, ask func([]string) zkconn.Op[[]T], put func(*item, T)) {
	p := zkconn.Add(w.p, ask(r.paths()))
	r.reply = p
	r.wait = func(ctx context.Context) error {
		answers, err := p.Wait(ctx)
		if errors.As(err, new(*zkconn.Error)) {
			w.transmitEach(r)
			return r.wait(ctx)
		}
		for _, v := range answers {
			put(r.take(), v)
		}
		return err
	}
}

func (r *request) paths() []string {
	paths := make([]string, len(r.items))
	for n, i := range r.items {
		paths[n] = i.Path
	}
	return paths
}

// take removes and returns the next item to be answered.
func (r *request) take() *item {
	i := r.items[0]
	r.items = r.items[1:]
	return i
}

func (w *walk) putNames(i *item, list []string, err error) {
	if err != nil { // the descendants are unknown, so the ACL alone must not look like the whole answer
		i.Znode = dump.Znode{Path: i.Path, Stat: i.Stat, Kind: i.Kind}
	}
	w.addChildren(i, list)
	w.learned(i, err)
}

func (w *walk) putListed(r *request, i *item, l zkconn.Listed, err error) {
	if errors.Is(err, zkconn.NoAuth) {
		i.err = err
		r.follow(i)
		return
	}
	i.Stat, i.Kind = l.Stat, dump.KindOf(l.Stat)
	w.putNames(i, l.Names, err)
}

func (w *walk) putStat(i *item, st *zk.Stat, err error) {
	i.Stat, i.Kind = st, dump.KindOf(st)
	w.learned(i, err)
}

func (w *walk) putAccess(r *request, i *item, a zkconn.Access, err error) {
	i.ACL, i.Stat, i.Kind = a.ACL, a.Stat, dump.KindOf(a.Stat)
	if err == nil && a.Stat.NumChildren > 0 && w.wantsNames(i.depth()) {
		r.follow(i)
		return
	}
	w.learned(i, err)
}

// putData stores the data of an item. If the ACL has changed since it was read, or was not read yet, it
// is requested next.
func (w *walk) putData(r *request, i *item, n zkconn.Node, err error) {
	old := i.Stat
	if w.refuse(i, err); err != nil {
		w.advance(i, ready)
		return
	}
	i.Data, i.Stat, i.Kind = n.Data, n.Stat, dump.KindOf(n.Stat)
	if w.o.ACL && (i.ACL == nil || old.Aversion != n.Stat.Aversion) {
		r.follow(i)
		return
	}
	w.advance(i, ready)
}

func (w *walk) putACL(i *item, a zkconn.Access, err error) {
	if w.refuse(i, err); err == nil {
		i.ACL = a.ACL
	}
	w.advance(i, ready)
}

// maxLosses is the maximum number of lost connections without an answer in between.
const maxLosses = 5

// mayGoOn reports whether requests that failed with err may be sent again on the next connection.
// lost is the number of lost connections since the last answer. A server that is faulty is not asked
// again, because the command would take several times as long to fail.
func mayGoOn(ctx context.Context, err error, lost int) bool {
	if e, is := errors.AsType[*zkconn.LostError](err); is && e.Faulty() {
		return false
	}
	wasLost := errors.Is(err, zkconn.ConnectionLoss) && !errors.As(err, new(*zkconn.NoServerError))
	return wasLost && ctx.Err() == nil && lost < maxLosses
}
