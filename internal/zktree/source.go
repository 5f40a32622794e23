package zktree

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
)

// Source is where a tree is read from: a server, or whatever else has znodes.
type Source interface {
	// Ask asks for znodes and does not wait. The answer has an Entry for each path.
	// Of those the caller asks for at once there are at most Batch.
	Ask(paths []string, want Want) Answer
	// Batch is how many paths are best asked for at once.
	Batch(want Want) int
}

// Answer is what a Source says, which may still be to come.
type Answer interface {
	// Ready tells that Wait would not wait. An answer that takes a second question asks it
	// as soon as it can.
	Ready() bool
	// Wait may put the entries where those of an answer were that nobody needs any more.
	Wait(ctx context.Context, room []Entry) ([]Entry, error)
	// Slowed tells of an answer that is there whether the source had too much to do at
	// first.
	Slowed() bool
}

// Want is what a walk needs to know of each znode.
type Want struct {
	Names bool // of its children
	Stat  bool
	Data  bool // alone, with the Stat
	Small bool // of Data: there is little of it, so that all may come in one answer
	ACL   bool // alone or with the Names, with the Stat
}

// Entry is a znode as a Source has it.
type Entry struct {
	Names []string // of its children, in any order
	Stat  *zk.Stat
	Data  []byte
	ACL   []zk.ACL
	Kind  dump.Kind     // if the Stat is known; of servers only that it is ephemeral
	TTL   time.Duration // of that Kind
	Err   error         // NoNode, or why it may not be read; of the latter older servers tell the Stat nevertheless
}

// Bounds of what is in flight. A batch is one multiRead, or single requests.
const (
	listBatch    = 256       // paths in one multiRead
	singleBatch  = 512       // single requests that are waited for together
	window       = 8         // batches in flight
	singleWindow = 512       // single requests in flight
	batchBytes   = 256 << 10 // of paths in one request, well below a server's frame limit of 1 MiB
)

// Server is the Source that a server is.
type Server struct {
	ctx   context.Context
	p     *zkconn.Pipe
	watch bool
	spare [][]Entry // memory for the entries of the next answers of folders
}

// OnServer reads from the server that c is connected to. With watch, each list of
// children leaves a watch. Nothing is sent any more once ctx has ended.
func OnServer(ctx context.Context, c zkconn.Client, root string, watch bool) (*Server, error) {
	p, err := c.Pipe(ctx, root)
	if err != nil {
		return nil, err
	}
	return &Server{ctx: ctx, p: p, watch: watch}, nil
}

// Batch is part of Source.
func (s *Server) Batch(want Want) int {
	if s.watch || want.Stat || want.ACL {
		return singleBatch
	}
	return listBatch
}

// Ask is part of Source. A multiRead leaves no watches and has no Stats.
func (s *Server) Ask(paths []string, want Want) Answer {
	switch {
	case want.Names && want.ACL:
		return &folders{s: s, paths: paths, first: s.Ask(paths, Want{ACL: true})}
	case want.Names && want.Stat:
		return &group[zkconn.Listed]{s: s, paths: paths, stat: true, reply: zkconn.AddEach(s.p, paths, zkconn.List), entry: func(l zkconn.Listed, err error) Entry {
			return Entry{Names: l.Names, Stat: l.Stat, Err: err}
		}}
	case want.Stat:
		return s.stats(paths)
	case want.Small && len(paths) > 1 && s.p.HasMultiRead(s.ctx):
		return &together[zkconn.Reading]{zkconn.Add(s.p, zkconn.MultiGetData(paths)), func() Answer { return s.data(paths) }, func(r zkconn.Reading) Entry {
			return dataEntry(r.Node, r.Err)
		}}
	case want.Data:
		return s.data(paths)
	case want.ACL:
		return &group[zkconn.Access]{reply: zkconn.AddEach(s.p, paths, zkconn.GetACL), entry: func(a zkconn.Access, err error) Entry {
			return Entry{ACL: a.ACL, Stat: a.Stat, Kind: dump.KindOf(a.Stat), Err: err}
		}}
	case len(paths) > 1 && !s.watch && s.p.HasMultiRead(s.ctx):
		return &together[zkconn.Listing]{zkconn.Add(s.p, zkconn.MultiGetChildren(paths)), func() Answer { return s.lists(paths) }, func(l zkconn.Listing) Entry {
			return Entry{Names: l.Names, Err: l.Err}
		}}
	}
	return s.lists(paths)
}

// lists asks for the children of each of the paths.
func (s *Server) lists(paths []string) Answer {
	list := func(path string) zkconn.Op[[]string] { return zkconn.GetChildren(path).Watch(s.watch) }
	return &group[[]string]{reply: zkconn.AddEach(s.p, paths, list), entry: func(names []string, err error) Entry {
		return Entry{Names: names, Err: err}
	}}
}

// stats asks for the Stat of each of the paths. Newer servers tell it to whoever may
// read, older ones to all.
func (s *Server) stats(paths []string) Answer {
	return &group[*zk.Stat]{reply: zkconn.AddEach(s.p, paths, zkconn.Exists), entry: func(st *zk.Stat, err error) Entry {
		return Entry{Stat: st, Err: err}
	}}
}

// data asks for the data of each of the paths.
func (s *Server) data(paths []string) Answer {
	return &group[zkconn.Node]{reply: zkconn.AddEach(s.p, paths, zkconn.GetData), entry: dataEntry}
}

func dataEntry(n zkconn.Node, err error) Entry {
	return Entry{Data: n.Data, Stat: n.Stat, Kind: dump.KindOf(n.Stat), Err: err}
}

// together is the answer to a multiRead.
type together[T any] struct {
	reply  *zkconn.Pending[[]T]
	singly func() Answer
	entry  func(T) Entry
}

// Ready is part of Answer.
func (t *together[T]) Ready() bool { return t.reply.Ready() }

// Slowed is part of Answer.
func (t *together[T]) Slowed() bool { return t.reply.Slowed() }

// Wait is part of Answer. A server may refuse a multiRead whose answer gets too long;
// then each znode has an answer of its own.
func (t *together[T]) Wait(ctx context.Context, room []Entry) ([]Entry, error) {
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

// group is the answer to single requests.
type group[T any] struct {
	s     *Server
	paths []string
	reply *zkconn.Several[T]
	entry func(T, error) Entry
	stat  bool // it is wished, and only who may read gets it
}

// Ready is part of Answer.
func (g *group[T]) Ready() bool { return g.reply.Ready() }

// Slowed is part of Answer.
func (g *group[T]) Slowed() bool { return g.reply.Slowed() }

// Wait is part of Answer. The Stats of znodes that may not be listed come in a second
// flight.
func (g *group[T]) Wait(ctx context.Context, room []Entry) ([]Entry, error) {
	entries := slices.Grow(room[:0], g.reply.Len())
	var shut []int
	err := g.reply.Each(ctx, func(v T, refusal error) {
		if g.stat && errors.Is(refusal, zkconn.NoAuth) {
			shut = append(shut, len(entries))
		}
		entries = append(entries, g.entry(v, refusal))
	})
	if err != nil {
		return nil, err
	}
	if shut == nil {
		return entries, nil
	}
	paths := make([]string, len(shut))
	for i, at := range shut {
		paths[i] = g.paths[at]
	}
	stats, err := g.s.stats(paths).Wait(ctx, nil)
	for i, st := range stats {
		if entries[shut[i]].Stat = st.Stat; st.Err != nil {
			entries[shut[i]].Err = st.Err
		}
	}
	return entries, err
}

// folders is the answer about ACLs and about the names of children, for which those are
// asked that have any: the Stat that comes with an ACL tells.
type folders struct {
	s       *Server
	paths   []string
	first   Answer
	entries []Entry // nil until they are there
	err     error
	at      []int // of those with children
	names   Answer
}

// Ready is part of Answer.
func (f *folders) Ready() bool {
	if !f.first.Ready() {
		return false
	}
	f.ask(f.s.ctx)
	return f.names == nil || f.names.Ready()
}

// Slowed is part of Answer.
func (f *folders) Slowed() bool { return f.first.Slowed() || f.names != nil && f.names.Slowed() }

// Wait is part of Answer. Its entries are there already, so an answer to come gets the room.
func (f *folders) Wait(ctx context.Context, room []Entry) ([]Entry, error) {
	f.s.spare = append(f.s.spare, room)
	if f.ask(ctx); f.err != nil || f.names == nil {
		return f.entries, f.err
	}
	names, err := f.names.Wait(ctx, nil)
	for i, e := range names {
		if e.Err != nil { // nothing is said of a subtree that may not be seen
			f.entries[f.at[i]] = e
		} else {
			f.entries[f.at[i]].Names = e.Names
		}
	}
	return f.entries, err
}

// ask takes the first answer and asks for the names.
func (f *folders) ask(ctx context.Context) {
	if f.entries != nil || f.err != nil {
		return
	}
	var room []Entry
	if n := len(f.s.spare); n > 0 {
		room, f.s.spare = f.s.spare[n-1], f.s.spare[:n-1]
	}
	f.entries, f.err = f.first.Wait(ctx, room)
	var paths []string
	for i, e := range f.entries {
		if e.Err == nil && e.Stat.NumChildren > 0 {
			f.at, paths = append(f.at, i), append(paths, f.paths[i])
		}
	}
	if paths != nil {
		f.names = f.s.Ask(paths, Want{Names: true})
	}
}
