package transfer

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

// spares reports whether a znode is the server's own, and so left out of a side that begins at
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
		if err := zkconn.Exec(ctx, s.session, zkconn.Sync(s.Path)); err != nil && !errors.Is(err, zkconn.NoNode) {
			return t, s.wrap(err)
		}
		t.Nodes = s.wrapped(zktree.ServerTree(ctx, s.session.Client, s.Path, progress).Nodes)
	}
	return t.Without(func(z *dump.Znode, _ error) (bool, error) { return s.spares(z.Path), nil }), nil
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
