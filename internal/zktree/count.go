package zktree

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zkconn"
)

// maxStats is the maximum size of the map that Stats returns, in bytes of memory. It suffices for
// about 300,000 znodes.
const maxStats = 64 << 20

// Stats returns the Stat of each readable znode in a subtree, by path. The map is empty if the root
// does not exist. Stats fails if the map would need more than maxStats bytes.
func Stats(ctx context.Context, c zkconn.Client, root string) (map[string]*zk.Stat, error) {
	src, err := OnServer(ctx, c, root, false)
	if err != nil {
		return nil, err
	}
	w, err := Begin(ctx, src, root, Options{Stat: true, Shut: true})
	stats, size := map[string]*zk.Stat{}, 0
	if errors.Is(err, zkconn.NoNode) {
		return stats, nil
	}
	if err != nil {
		return nil, err
	}
	for s, err := range w.Steps() {
		if err != nil {
			return nil, err
		}
		if s.Kind == Enter && s.Stat != nil {
			path := s.Path()
			if size += len(path) + entryOverhead/2 + nameOverhead; size > maxStats {
				return nil, fmt.Errorf("%s has more than %d znodes, and their metadata needs more than %d MiB of memory; choose a smaller subtree", root, len(stats), maxStats>>20)
			}
			stats[path] = s.Stat
		}
	}
	return stats, nil
}

// CountEphemerals returns the number of ephemeral znodes in a subtree. hidden is the number of
// znodes whose Stat the session may not read. CountEphemerals requests only the Stats of leaves,
// because ephemeral znodes cannot have children.
func CountEphemerals(ctx context.Context, c zkconn.Client, root string, progress Progress) (found, hidden int, err error) {
	src, err := OnServer(ctx, c, root, false)
	if err != nil {
		return 0, 0, err
	}
	w, err := Begin(ctx, src, root, Options{Shut: true, Progress: progress})
	if err != nil {
		return 0, 0, err
	}
	p, err := c.Pipe(ctx, root)
	if err != nil {
		return 0, 0, err
	}
	pending := newFlights(ctx, noGrace, singleWindow, func(_ struct{}, st *zk.Stat, err error) error {
		switch {
		case err == nil && st.EphemeralOwner != 0:
			found++
		case errors.Is(err, zkconn.NoAuth): // servers 3.8.4, 3.9.2 and later check permission
			hidden++
		case err != nil && !errors.Is(err, zkconn.NoNode):
			return err
		}
		return nil
	})
	defer pending.close()
	for s, err := range w.Steps() {
		if err == nil && s.Kind == Enter && len(s.Names) == 0 {
			err = pending.add(struct{}{}, zkconn.Add(p, zkconn.Exists(s.Path())))
		}
		if err != nil {
			return found, hidden, err
		}
	}
	return found, hidden, pending.drain()
}

// Counts holds the number of znodes that Apply created, skipped, changed and deleted.
type Counts struct {
	Created, Skipped, Changed, Deleted int
}

// Total returns the sum of the four counts.
func (c Counts) Total() int { return c.Created + c.Skipped + c.Changed + c.Deleted }
