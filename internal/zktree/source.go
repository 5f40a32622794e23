package zktree

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

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
	// Ready tells that Wait would not wait.
	Ready() bool
	Wait(ctx context.Context) ([]Entry, error)
	// Slowed tells of an answer that is there whether the source had too much to do at
	// first.
	Slowed() bool
}

// Want is what a walk needs to know of each znode.
type Want struct {
	Names bool // of its children
	Stat  bool
	Data  bool // alone
	ACL   bool // alone
}

// Entry is a znode as a Source has it.
type Entry struct {
	Names []string // of its children, in any order
	Stat  *zk.Stat
	Data  []byte
	ACL   []zk.ACL
	Err   error // NoNode, or why it may not be read; of the latter older servers tell the Stat nevertheless
}

// Bounds of what is in flight. A batch is one multiRead, or single requests.
const (
	listBatch    = 256       // paths in one multiRead
	singleBatch  = 64        // single requests that are waited for together
	window       = 8         // batches in flight
	singleWindow = 512       // single requests in flight
	batchBytes   = 256 << 10 // of paths in one request, well below a server's frame limit of 1 MiB
)

// Server is the Source that a server is.
type Server struct {
	ctx   context.Context
	p     *zkconn.Pipe
	watch bool
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
	if s.watch || want.Stat {
		return singleBatch
	}
	return listBatch
}

// Ask is part of Source. A multiRead leaves no watches and has no Stats.
func (s *Server) Ask(paths []string, want Want) Answer {
	switch {
	case want.Names && want.Stat:
		return &group[zkconn.Listed]{s: s, paths: paths, stat: true, replies: each(s, paths, s.p.List), entry: func(l zkconn.Listed, err error) Entry {
			return Entry{Names: l.Names, Stat: l.Stat, Err: err}
		}}
	case want.Stat:
		return s.stats(paths)
	case want.Data:
		return &group[zkconn.Node]{replies: each(s, paths, s.p.Get), entry: func(n zkconn.Node, err error) Entry {
			return Entry{Data: n.Data, Stat: n.Stat, Err: err}
		}}
	case want.ACL:
		return &group[[]zk.ACL]{replies: each(s, paths, s.p.ACL), entry: func(acl []zk.ACL, err error) Entry {
			return Entry{ACL: acl, Err: err}
		}}
	case len(paths) > 1 && !s.watch && s.p.HasMultiRead(s.ctx):
		return &listings{s, paths, s.p.MultiChildren(paths)}
	}
	return s.lists(paths)
}

// lists asks for the children of each of the paths.
func (s *Server) lists(paths []string) Answer {
	ask := func(path string) *zkconn.Pending[[]string] { return s.p.Children(path, s.watch) }
	return &group[[]string]{replies: each(s, paths, ask), entry: func(names []string, err error) Entry {
		return Entry{Names: names, Err: err}
	}}
}

// stats asks for the Stat of each of the paths. Newer servers tell it to whoever may
// read, older ones to all.
func (s *Server) stats(paths []string) Answer {
	return &group[*zk.Stat]{replies: each(s, paths, s.p.Exists), entry: func(st *zk.Stat, err error) Entry {
		return Entry{Stat: st, Err: err}
	}}
}

// listings is the answer to a multiRead.
type listings struct {
	s     *Server
	paths []string
	reply *zkconn.Pending[[]zkconn.Listing]
}

// Ready is part of Answer.
func (l *listings) Ready() bool { return l.reply.Ready() }

// Slowed is part of Answer.
func (l *listings) Slowed() bool { return l.reply.Slowed() }

// Wait is part of Answer. A server may refuse a multiRead whose answer gets too long;
// then each list has an answer of its own.
func (l *listings) Wait(ctx context.Context) ([]Entry, error) {
	got, err := l.reply.Wait(ctx)
	if errors.As(err, new(*zkconn.Error)) {
		return l.s.lists(l.paths).Wait(ctx)
	}
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(got))
	for i, g := range got {
		entries[i] = Entry{Names: g.Names, Err: g.Err}
	}
	return entries, nil
}

// group is the answer to single requests.
type group[T any] struct {
	s       *Server
	paths   []string
	replies []*zkconn.Pending[T]
	entry   func(T, error) Entry
	stat    bool // it is wished, and only who may read gets it
}

func each[T any](s *Server, paths []string, ask func(string) *zkconn.Pending[T]) []*zkconn.Pending[T] {
	replies := make([]*zkconn.Pending[T], len(paths))
	s.p.Together(func() {
		for i, path := range paths {
			replies[i] = ask(path)
		}
	})
	return replies
}

// Ready is part of Answer: a connection's answers come in order.
func (g *group[T]) Ready() bool { return g.replies[len(g.replies)-1].Ready() }

// Slowed is part of Answer.
func (g *group[T]) Slowed() bool {
	return slices.ContainsFunc(g.replies, (*zkconn.Pending[T]).Slowed)
}

// Wait is part of Answer. The Stats of znodes that may not be listed come in a second
// flight.
func (g *group[T]) Wait(ctx context.Context) ([]Entry, error) {
	entries := make([]Entry, len(g.replies))
	var shut []int
	for i, reply := range g.replies {
		v, err := reply.Wait(ctx)
		if err != nil && !errors.As(err, new(*zkconn.Error)) {
			return nil, err
		}
		if entries[i] = g.entry(v, err); g.stat && errors.Is(err, zkconn.NoAuth) {
			shut = append(shut, i)
		}
	}
	if shut == nil {
		return entries, nil
	}
	paths := make([]string, len(shut))
	for i, at := range shut {
		paths[i] = g.paths[at]
	}
	stats, err := g.s.stats(paths).Wait(ctx)
	for i, st := range stats {
		if entries[shut[i]].Stat = st.Stat; st.Err != nil {
			entries[shut[i]].Err = st.Err
		}
	}
	return entries, err
}
