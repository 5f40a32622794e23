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
	all, err := Walk(ctx, c, root, Options{Stat: true, Shut: true})
	stats, size := map[string]*zk.Stat{}, 0
	if errors.Is(err, zkconn.NoNode) {
		return stats, nil
	}
	if err != nil {
		return nil, err
	}
	for z, err := range all {
		switch {
		case z == nil:
			return nil, err
		case z.Stat == nil:
			continue
		}
		if size += len(z.Path) + entryOverhead/2 + nameOverhead; size > maxStats {
			return nil, fmt.Errorf("%s has more than %d znodes, and their metadata needs more than %d MiB of memory; "+
				"choose a smaller subtree", root, len(stats), maxStats>>20)
		}
		stats[z.Path] = z.Stat
	}
	return stats, nil
}

// CountEphemerals returns the number of ephemeral znodes in a subtree. hidden is the number of
// znodes whose Stat the session may not read.
func CountEphemerals(
	ctx context.Context, c zkconn.Client, root string, progress Progress,
) (found, hidden int, err error) {
	all, err := Walk(ctx, c, root, Options{Stat: true, Shut: true, Progress: progress})
	if err != nil {
		return 0, 0, err
	}
	for z, err := range all {
		switch {
		case z == nil:
			return found, hidden, err
		case z.Stat == nil: // servers 3.8.4, 3.9.2 and later check the permission
			hidden++
		case z.Stat.EphemeralOwner != 0:
			found++
		}
	}
	return found, hidden, nil
}

// Counts holds the number of znodes that Apply created, skipped, changed and deleted.
type Counts struct {
	Created, Skipped, Changed, Deleted int
}

// Total returns the sum of the four counts.
func (c Counts) Total() int { return c.Created + c.Skipped + c.Changed + c.Deleted }
