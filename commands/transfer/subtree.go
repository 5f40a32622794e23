package transfer

import (
	"context"
	"errors"
	"iter"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// reserved is the root of the subtree in which a server stores its own znodes. No command copies or
// deletes it.
const reserved = "/zookeeper"

// isReserved reports whether commands skip the znode at path, because the server uses it. This is
// possible only if the endpoint is the server's root.
func (s *endpoint) isReserved(path string) bool {
	whole := s.Path == "/" && (s.session == nil || s.session.ServerPath("/") == "/")
	return whole && dump.Within(path, reserved)
}

// subtree returns the znodes of an endpoint, except for those that are reserved for the server. For
// a subtree on a server, it first waits until the server has caught up with the leader. Recent
// writes of other clients are then visible.
func (s *endpoint) subtree(ctx context.Context, progress zktree.Progress) (zktree.Tree, error) {
	t := zktree.Tree{Root: s.Path}
	if s.tree != nil {
		t.Nodes = s.tree.Znodes(s.Path)
	} else {
		if err := zkconn.Exec(ctx, s.session, zkconn.Sync(s.Path)); err != nil && !errors.Is(err, zkconn.NoNode) {
			return t, s.wrap(err)
		}
		t.Nodes = s.wrapLast(zktree.ServerTree(ctx, s.session.Client, s.Path, progress).Nodes)
	}
	return t.Without(func(z *dump.Znode, _ error) (bool, error) { return s.isReserved(z.Path), nil }), nil
}

// wrapLast yields the znodes unchanged. If the sequence ends with an error, wrapLast adds the name
// of the endpoint's ensemble to that error.
func (s *endpoint) wrapLast(nodes iter.Seq2[*dump.Znode, error]) iter.Seq2[*dump.Znode, error] {
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
