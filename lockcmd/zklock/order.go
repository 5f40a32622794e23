package zklock

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/go-zookeeper/zk"
)

// A rank determines a contender's place in the queue. Contenders are ordered by their sequence
// numbers until the server's counter overflows. After that, numbers repeat or are negative.
// Contenders with such numbers come last, in the order of the transactions that created them.
type rank struct {
	name   string
	number int64 // sequence number; firstUntrusted if it does not show the order of creation
	czxid  int64 // orders contenders with equal numbers; 0 if it has not been read
}

// firstUntrusted is the sequence number at which the server's counter stays after an overflow.
// Many znodes can have this number, so it does not show the order of their creation.
const firstUntrusted = math.MaxInt32

// trusted reports whether a sequence number shows the order in which znodes were created. It
// does not after the server's counter has overflowed.
func trusted(number int64) bool { return number >= 0 && number < firstUntrusted }

func newRank(name string, number int64) rank {
	if !trusted(number) {
		number = firstUntrusted
	}
	return rank{name: name, number: number}
}

func (a rank) compare(b rank) int {
	return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.czxid, b.czxid))
}

// ahead returns the names of the znodes that this entry must wait for. The last one is the
// nearest. children contains the names of all children of the lock's path.
func (e *entry) ahead(ctx context.Context, children []string) ([]string, error) {
	own, err := e.ownRank(children)
	if err != nil {
		return nil, err
	}
	var ahead []rank
	for _, r := range e.rivals(children) {
		if r.number == own.number {
			if r.czxid, err = e.czxidOf(ctx, r.name); err != nil {
				return nil, err
			}
		}
		if r.compare(own) < 0 {
			ahead = append(ahead, r)
		}
	}
	slices.SortFunc(ahead, rank.compare)
	names := make([]string, len(ahead))
	for i, r := range ahead {
		names[i] = r.name
	}
	return names, nil
}

// ownRank returns the rank of the entry's own znode, or errPlaceLost if children does not contain it.
func (e *entry) ownRank(children []string) (rank, error) {
	if !slices.Contains(children, e.name) {
		return rank{}, errPlaceLost
	}
	n, _ := ParseName(e.name)
	own := newRank(e.name, n.Number)
	own.czxid = e.czxid
	return own, nil
}

// rivals returns the contenders among the children that conflict with this entry, whether they
// are ahead of it or behind it.
func (e *entry) rivals(children []string) []rank {
	var list []rank
	for _, name := range children {
		n, ok := ParseName(name)
		if ok && n.Number != NoNumber && e.conflictsWith(n) && name != e.name {
			list = append(list, newRank(name, n.Number))
		}
	}
	return list
}

// conflictsWith reports whether this entry must wait for a contender with this name if it is
// ahead. In an owned lock, contenders of the same owner conflict even if both are shared. Only
// the first of them may acquire the lock, so that the owner never has two places in the queue.
func (e *entry) conflictsWith(n Name) bool {
	return Conflicts(e.mode, n.Mode) || e.l.ownedBySame(n)
}

// czxidOf reads the czxid of a child from the server. If the child has been deleted meanwhile,
// czxidOf returns the greatest possible czxid, which sorts the child last.
func (e *entry) czxidOf(ctx context.Context, name string) (int64, error) {
	var st *zk.Stat
	err := retry(ctx, e.s, func() (err error) {
		st, err = e.s.Exists(ctx, e.l.child(name))
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return math.MaxInt64, nil
	case err != nil:
		return 0, err
	}
	return st.Czxid, nil
}
