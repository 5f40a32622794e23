package zktree

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
)

// A Source provides the znodes of a tree on a server. It is an interface for tests.
type Source interface {
	// Ask requests the znodes at paths without waiting for them. There may be at most Batch paths.
	// The answer has one Entry for each path.
	Ask(paths []string, want Want) Answer
	// Batch returns the maximum number of paths for one call of Ask. It is also the most efficient
	// number.
	Batch(want Want) int
}

// An Answer is the result of Source.Ask. It may still be in flight.
type Answer interface {
	// Ready reports whether Wait would return without waiting. If the answer requires a second
	// request, Ready sends it as soon as the reply to the first has arrived.
	Ready() bool
	// Wait waits for the entries and returns them. room contains the entries of an older answer
	// that the caller no longer needs. To save memory, Wait may reuse it.
	Wait(ctx context.Context, room []Entry) ([]Entry, error)
	// Slowed reports whether the source was overloaded and rejected the request at first. Call it
	// only after Wait.
	Slowed() bool
}

// Want selects the fields of an Entry that the caller needs.
type Want struct {
	Names bool // whether to return the names of the children
	Stat  bool
	Data  bool // whether to return data and Stat; cannot be combined with Names or ACL
	Small bool // whether all data fits into one answer; only together with Data
	ACL   bool // whether to return ACL and Stat; alone or together with Names
}

// An Entry is the part of an Answer about one znode.
type Entry struct {
	Names []string // names of the children, in any order
	Stat  *zk.Stat
	Data  []byte
	ACL   []zk.ACL
	Kind  dump.Kind // set with Data or ACL; a server reveals only whether a znode is ephemeral
	Err   error     // NoNode, or the reason why the znode is unreadable; Stat may then still be set
}

// Limits on requests in flight. A batch consists of one multiRead or of several single requests.
const (
	listBatch    = 256       // paths in one multiRead
	singleBatch  = 512       // single requests that share an Answer
	window       = 8         // batches in flight
	singleWindow = 512       // single requests in flight
	batchBytes   = 256 << 10 // size of the paths in one request; far below the frame limit of 1 MiB
)

// Server is a Source that reads from a ZooKeeper server.
type Server struct {
	ctx   context.Context
	p     *zkconn.Pipe
	c     zkconn.Client
	root  string // for error messages
	watch bool
	lost  int       // lost connections since the last answer
	spare [][]Entry // memory that later folderAnswers can reuse for their entries
}

// OnServer returns a Source that reads from the server of c. If watch is true, each request that
// lists children also sets a watch. After ctx has ended, the Source sends no more requests.
//
// If the connection is lost, the Source asks again on the next connection, unless it sets watches.
func OnServer(ctx context.Context, c zkconn.Client, root string, watch bool) (*Server, error) {
	p, err := c.Pipe(ctx, root)
	if err != nil {
		return nil, err
	}
	return &Server{ctx: ctx, p: p, c: c, root: root, watch: watch}, nil
}

var _ Source = (*Server)(nil)

// Batch implements Source.
func (s *Server) Batch(want Want) int {
	if s.watch || want.Stat || want.ACL {
		return singleBatch
	}
	return listBatch
}

// Ask implements Source.
func (s *Server) Ask(paths []string, want Want) Answer {
	return &lastingAnswer{s.ask(paths, want), s, s.p, paths, want}
}

// A lastingAnswer is an Answer that asks again after a lost connection.
type lastingAnswer struct {
	Answer
	s     *Server
	p     *zkconn.Pipe // pipe on which the Server asked
	paths []string
	want  Want
}

// Wait implements Answer.
func (l *lastingAnswer) Wait(ctx context.Context, room []Entry) ([]Entry, error) {
	for {
		entries, err := l.Answer.Wait(ctx, room)
		if err == nil {
			l.s.lost = 0
			return entries, nil
		}
		if l.s.watch || !mayGoOn(l.s.ctx, err, l.s.lost) {
			return nil, err
		}
		if l.p == l.s.p { // no other answer has connected again
			l.s.lost++
			p, err := l.s.c.Pipe(l.s.ctx, l.s.root)
			if err != nil {
				return nil, err
			}
			l.s.p = p
		}
		l.p, l.Answer = l.s.p, l.s.ask(l.paths, l.want)
	}
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

// ask is like Ask, but the Answer fails if the connection is lost. It uses multiRead where possible.
// But a multiRead cannot set watches, and does not return Stats together with the names of children.
func (s *Server) ask(paths []string, want Want) Answer {
	switch {
	case want.Names && want.ACL:
		return &folderAnswer{s: s, paths: paths, access: s.ask(paths, Want{ACL: true})}
	case want.Names && want.Stat:
		return &singleAnswers[zkconn.Listed]{s: s, paths: paths, wantStat: true, reply: zkconn.AddEach(s.p, paths, zkconn.List), entry: func(l zkconn.Listed, err error) Entry {
			return Entry{Names: l.Names, Stat: l.Stat, Err: err}
		}}
	case want.Stat:
		return s.askStats(paths)
	case want.Small && len(paths) > 1 && s.p.HasMultiRead(s.ctx):
		return &multiAnswer[zkconn.Reading]{zkconn.Add(s.p, zkconn.MultiGetData(paths)), func() Answer { return s.askData(paths) }, func(r zkconn.Reading) Entry {
			return dataEntry(r.Node, r.Err)
		}}
	case want.Data:
		return s.askData(paths)
	case want.ACL:
		return &singleAnswers[zkconn.Access]{reply: zkconn.AddEach(s.p, paths, zkconn.GetACL), entry: func(a zkconn.Access, err error) Entry {
			return Entry{ACL: a.ACL, Stat: a.Stat, Kind: dump.KindOf(a.Stat), Err: err}
		}}
	case len(paths) > 1 && !s.watch && s.p.HasMultiRead(s.ctx):
		return &multiAnswer[zkconn.Listing]{zkconn.Add(s.p, zkconn.MultiGetChildren(paths)), func() Answer { return s.askChildren(paths) }, func(l zkconn.Listing) Entry {
			return Entry{Names: l.Names, Err: l.Err}
		}}
	}
	return s.askChildren(paths)
}

// askChildren requests the children of each path.
func (s *Server) askChildren(paths []string) Answer {
	list := func(path string) zkconn.Op[[]string] { return zkconn.GetChildren(path).Watch(s.watch) }
	return &singleAnswers[[]string]{reply: zkconn.AddEach(s.p, paths, list), entry: func(names []string, err error) Entry {
		return Entry{Names: names, Err: err}
	}}
}

// askStats requests the Stat of each path. Newer servers return it only to clients with read
// permission. Older servers return it to all clients.
func (s *Server) askStats(paths []string) Answer {
	return &singleAnswers[*zk.Stat]{reply: zkconn.AddEach(s.p, paths, zkconn.Exists), entry: func(st *zk.Stat, err error) Entry {
		return Entry{Stat: st, Err: err}
	}}
}

// askData requests the data of each path.
func (s *Server) askData(paths []string) Answer {
	return &singleAnswers[zkconn.Node]{reply: zkconn.AddEach(s.p, paths, zkconn.GetData), entry: dataEntry}
}

func dataEntry(n zkconn.Node, err error) Entry {
	return Entry{Data: n.Data, Stat: n.Stat, Kind: dump.KindOf(n.Stat), Err: err}
}

// A multiAnswer is the answer to a multiRead.
type multiAnswer[T any] struct {
	reply  *zkconn.Pending[[]T]
	singly func() Answer
	entry  func(T) Entry
}

var _ Answer = (*multiAnswer[int])(nil)

// Ready implements Answer.
func (t *multiAnswer[T]) Ready() bool { return t.reply.Ready() }

// Slowed implements Answer.
func (t *multiAnswer[T]) Slowed() bool { return t.reply.Slowed() }

// Wait implements Answer. If the server rejects the multiRead because the reply would be too long,
// Wait requests the znodes one by one.
func (t *multiAnswer[T]) Wait(ctx context.Context, room []Entry) ([]Entry, error) {
	got, err := t.reply.Wait(ctx)
	if errors.As(err, new(*zkconn.Error)) {
		return t.singly().Wait(ctx, room)
	}
	if err != nil {
		return nil, err
	}
	entries := slices.Grow(room[:0], len(got))
	for _, g := range got {
		entries = append(entries, t.entry(g))
	}
	return entries, nil
}

// singleAnswers is the Answer that combines the replies to several single requests.
type singleAnswers[T any] struct {
	s        *Server
	paths    []string
	reply    *zkconn.Several[T]
	entry    func(T, error) Entry
	wantStat bool // whether to request the Stat separately if the session may not list a znode
}

var _ Answer = (*singleAnswers[int])(nil)

// Ready implements Answer.
func (g *singleAnswers[T]) Ready() bool { return g.reply.Ready() }

// Slowed implements Answer.
func (g *singleAnswers[T]) Slowed() bool { return g.reply.Slowed() }

// Wait implements Answer. If wantStat is set, Wait also requests the Stats of znodes whose children
// the session may not list.
func (g *singleAnswers[T]) Wait(ctx context.Context, room []Entry) ([]Entry, error) {
	entries := slices.Grow(room[:0], g.reply.Len())
	var unreadable []int
	err := g.reply.Each(ctx, func(v T, refusal error) {
		if g.wantStat && errors.Is(refusal, zkconn.NoAuth) {
			unreadable = append(unreadable, len(entries))
		}
		entries = append(entries, g.entry(v, refusal))
	})
	if err != nil {
		return nil, err
	}
	if unreadable == nil {
		return entries, nil
	}
	paths := make([]string, len(unreadable))
	for i, at := range unreadable {
		paths[i] = g.paths[at]
	}
	stats, err := g.s.askStats(paths).Wait(ctx, nil)
	for i, st := range stats {
		if entries[unreadable[i]].Stat = st.Stat; st.Err != nil {
			entries[unreadable[i]].Err = st.Err
		}
	}
	return entries, err
}

// A folderAnswer is an Answer with the ACLs of znodes and the names of their children. It requests
// the ACLs first. The Stat in the reply shows whether a znode has children, and only then are their
// names requested.
type folderAnswer struct {
	s            *Server
	paths        []string
	access       Answer
	entries      []Entry // nil until the ACLs have arrived
	err          error
	withChildren []int // indexes of the entries of znodes with children
	names        Answer
}

var _ Answer = (*folderAnswer)(nil)

// Ready implements Answer.
func (f *folderAnswer) Ready() bool {
	if !f.access.Ready() {
		return false
	}
	f.askNames(f.s.ctx)
	return f.names == nil || f.names.Ready()
}

// Slowed implements Answer.
func (f *folderAnswer) Slowed() bool { return f.access.Slowed() || f.names != nil && f.names.Slowed() }

// Wait implements Answer. It does not use room itself, because Ready may already have stored the
// entries in other memory. Instead, it saves room for a later folderAnswer.
func (f *folderAnswer) Wait(ctx context.Context, room []Entry) ([]Entry, error) {
	f.s.spare = append(f.s.spare, room)
	if f.askNames(ctx); f.err != nil || f.names == nil {
		return f.entries, f.err
	}
	names, err := f.names.Wait(ctx, nil)
	for i, e := range names {
		if e.Err != nil { // on an error, the Entry contains nothing but Err
			f.entries[f.withChildren[i]] = e
		} else {
			f.entries[f.withChildren[i]].Names = e.Names
		}
	}
	return f.entries, err
}

// askNames waits for the ACLs and then requests the names of the children. Only the first call has
// an effect.
func (f *folderAnswer) askNames(ctx context.Context) {
	if f.entries != nil || f.err != nil {
		return
	}
	var room []Entry
	if n := len(f.s.spare); n > 0 {
		room, f.s.spare = f.s.spare[n-1], f.s.spare[:n-1]
	}
	f.entries, f.err = f.access.Wait(ctx, room)
	var paths []string
	for i, e := range f.entries {
		if e.Err == nil && e.Stat.NumChildren > 0 {
			f.withChildren, paths = append(f.withChildren, i), append(paths, f.paths[i])
		}
	}
	if paths != nil {
		f.names = f.s.ask(paths, Want{Names: true})
	}
}
