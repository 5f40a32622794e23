package zklock

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/go-zookeeper/zk"
)

// A rank determines a contender's place in the queue. Contenders are ordered by their
// sequence numbers until the server's counter overflows. After that, the counter stays at its
// last value, so that numbers repeat, or are negative for a moment. All contenders with such
// numbers come last, in the order of the transactions that created them.
type rank struct {
	name   string
	number int64 // firstUntrusted stands for all numbers that do not show the order of creation
	czxid  int64 // orders contenders with equal numbers; 0 if no other contender has this number
}

// firstUntrusted is the value at which the server's counter stays after it has overflowed.
// Many znodes can have this number.
const firstUntrusted = math.MaxInt32

// trusted reports whether znodes with such a sequence number are ordered by it.
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

// ahead returns the znode names of the contenders that this entry waits for, with the nearest
// one last. children is the list of all contenders.
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

// ownRank returns the rank of the entry's own znodes among the children. If there are
// several, the smallest number counts, because one transaction created them all.
func (e *entry) ownRank(children []string) (rank, error) {
	own := rank{number: firstUntrusted}
	found := 0
	for _, name := range children {
		if slices.Contains(e.names, name) {
			n, _ := ParseName(name)
			own.number = min(own.number, newRank(name, n.Number).number)
			found++
		}
	}
	own.czxid = e.czxid
	if found < len(e.names) {
		return own, errPlaceLost
	}
	return own, nil
}

// rivals returns the contenders that conflict with this entry, whether they are ahead of it
// or not.
func (e *entry) rivals(children []string) []rank {
	var list []rank
	for _, name := range children {
		n, ok := ParseName(name)
		if ok && n.Number != NoNumber && Conflicts(e.mode, n.Mode) && !slices.Contains(e.names, name) {
			list = append(list, newRank(name, n.Number))
		}
	}
	return list
}

// czxidOf asks the server for the czxid of a child. If the child has been deleted meanwhile,
// czxidOf returns the greatest possible czxid, which places it last.
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

// countOwners returns the number of contenders that own the named znodes; a contender may
// own several.
func countOwners(names []string) int {
	seen := map[string]bool{}
	for _, name := range names {
		seen[cmp.Or(ownerMark(name), name)] = true
	}
	return len(seen)
}
