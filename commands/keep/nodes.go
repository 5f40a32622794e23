package keep

import (
	"context"
	"errors"
	"iter"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// reserved is where a server keeps what is its own: nobody's to copy or to delete.
const reserved = "/zookeeper"

// spares tells whether a znode is the server's own, and so left out of a side that begins at
// the server's root.
func (s *side) spares(path string) bool {
	whole := s.Path == "/" && (s.session == nil || s.session.ServerPath("/") == "/")
	return whole && dump.Within(path, reserved)
}

// nodes are the znodes of a side, but for those that are the server's own. Of a server it
// waits until that has caught up with the leader, for what was written by another
// connection.
func (s *side) nodes(ctx context.Context, progress zktree.Progress) (zktree.Tree, error) {
	t := zktree.Tree{Root: s.Path}
	if s.tree != nil {
		t.Nodes = s.tree.Znodes(s.Path)
	} else {
		if err := s.session.Sync(ctx, s.Path); err != nil && !errors.Is(err, zkconn.NoNode) {
			return t, s.wrap(err)
		}
		t.Nodes = s.wrapped(onServer(ctx, s.session, s.Path, progress))
	}
	return with(t, func(z *dump.Znode, _ error) (bool, error) { return s.spares(z.Path), nil }), nil
}

// wrapped has the failure that comes last say of which ensemble it is.
func (s *side) wrapped(nodes iter.Seq2[*dump.Znode, error]) iter.Seq2[*dump.Znode, error] {
	return func(yield func(*dump.Znode, error) bool) {
		for z, err := range nodes {
			if z == nil {
				err = s.wrap(err)
			}
			if !yield(z, err) {
				return
			}
		}
	}
}

// onServer gives the znodes of a subtree of a server, as zktree.Nodes does.
func onServer(ctx context.Context, s *zkconn.Session, root string, progress zktree.Progress) iter.Seq2[*dump.Znode, error] {
	return func(yield func(*dump.Znode, error) bool) {
		src, err := zktree.OnServer(ctx, s.Client, root, false)
		if err != nil {
			yield(nil, err)
			return
		}
		zktree.Nodes(ctx, src, root, progress)(yield)
	}
}

// lookFunc drops a znode, or breaks off what goes over a tree. refusal is why the znode may not
// be read.
type lookFunc func(z *dump.Znode, refusal error) (drop bool, err error)

// with is a tree whose znodes each go through look first.
func with(t zktree.Tree, look lookFunc) zktree.Tree {
	nodes := t.Nodes
	t.Nodes = func(yield func(*dump.Znode, error) bool) {
		for z, refusal := range nodes {
			if z == nil {
				yield(nil, refusal)
				return
			}
			drop, err := look(z, refusal)
			switch {
			case err != nil:
				yield(nil, err)
				return
			case !drop && !yield(z, refusal):
				return
			}
		}
	}
	return t
}
