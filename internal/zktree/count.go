package zktree

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zkconn"
)

// maxStats bounds what Stats returns, in bytes: about 300,000 znodes.
const maxStats = 64 << 20

// Stats is the Stat of every znode of a subtree by its path, but for what may not be
// seen. Without a root there are none. A subtree with more than maxStats is an error.
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
			if size += len(path) + entryCost/2 + nameCost; size > maxStats {
				return nil, fmt.Errorf("%s has more than %d znodes, and their metadata needs more than %d MiB of memory; choose a smaller subtree", root, len(stats), maxStats>>20)
			}
			stats[path] = s.Stat
		}
	}
	return stats, nil
}

// CountEphemerals returns how many znodes of a subtree are ephemeral, and of how many
// that may not be known. Only those without children are looked at: no others can be.
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
	air := inFlight(ctx, atOnce, singleWindow, func(_ struct{}, st *zk.Stat, err error) error {
		switch {
		case err == nil && st.EphemeralOwner != 0:
			found++
		case errors.Is(err, zkconn.NoAuth): // from 3.9.2 on, and 3.8.4
			hidden++
		case err != nil && !errors.Is(err, zkconn.NoNode):
			return err
		}
		return nil
	})
	defer air.close()
	for s, err := range w.Steps() {
		if err == nil && s.Kind == Enter && len(s.Names) == 0 {
			err = air.add(struct{}{}, zkconn.Add(p, zkconn.Exists(s.Path())))
		}
		if err != nil {
			return found, hidden, err
		}
	}
	return found, hidden, air.rest()
}

// Counts are how many znodes were written, by what was done.
type Counts struct {
	Created, Skipped, Changed, Deleted int
}

// Total is how many were seen to.
func (c Counts) Total() int { return c.Created + c.Skipped + c.Changed + c.Deleted }
