package transfer

import (
	"context"
	"errors"

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
	var all dump.Znodes
	if s.tree != nil {
		all = s.tree.Znodes(s.Path)
	} else {
		if err := zkconn.Exec(ctx, s.session, zkconn.Sync(s.Path)); err != nil && !errors.Is(err, zkconn.NoNode) {
			return zktree.Tree{}, s.wrap(err)
		}
		all = zktree.ServerTree(ctx, s.session.Client, s.Path, progress).Nodes
	}
	return zktree.Tree{Root: s.Path, Nodes: func(yield func(*dump.Znode, error) bool) {
		for z, err := range all {
			switch {
			case z == nil:
				err = s.wrap(err)
			case s.isReserved(z.Path):
				continue
			}
			if !yield(z, err) {
				return
			}
		}
	}}, nil
}

// differences returns the differences between two endpoints, except for those in a subtree of a that is
// reserved for the server. The sequence adds the znodes that could not be read to unread.
func differences(
	ctx context.Context, a, b *endpoint, progress zktree.Progress, unread *zktree.UnreadError, mayBeMissing bool,
) (zktree.Differences, error) {
	from, err := a.subtree(ctx, progress)
	if err != nil {
		return nil, err
	}
	to, err := b.subtree(ctx, nil)
	if err != nil {
		return nil, err
	}
	if mayBeMissing {
		from = from.OrEmpty()
	}
	return func(yield func(zktree.Difference, error) bool) {
		for d, err := range zktree.Compare(from, to) {
			switch {
			case err != nil:
			case a.isReserved(d.Path):
				continue
			case d.Err != nil:
				unread.Add(d.Err)
			}
			if !yield(d, err) {
				return
			}
		}
	}, nil
}
