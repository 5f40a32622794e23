package zklock

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/go-zookeeper/zk"
)

// rank is a contender's place in the line. The order is that of the numbers until
// the server's counter has overflowed: then it sticks at its last value, and
// numbers repeat, or turn negative for a moment. All of those come last, in the
// order of the transactions that made them.
type rank struct {
	name   string
	number int64 // sticks for all that cannot be trusted
	czxid  int64 // 0 where it does not matter
}

// sticks is the first number that is given again and again.
const sticks = math.MaxInt32

func trusted(number int64) bool { return number >= 0 && number < sticks }

func newRank(name string, number int64) rank {
	if !trusted(number) {
		number = sticks
	}
	return rank{name: name, number: number}
}

func (a rank) compare(b rank) int {
	return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.czxid, b.czxid))
}

// ahead lists the contenders that are waited for, the nearest last.
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

// ownRank finds the own znodes among the children; of several, the first counts:
// they were made at once.
func (e *entry) ownRank(children []string) (rank, error) {
	own := rank{number: sticks}
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

// rivals are the contenders that conflict with us.
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

// czxidOf asks for the transaction that made a child; one that has gone meanwhile
// is as if it were behind everybody.
func (e *entry) czxidOf(ctx context.Context, name string) (int64, error) {
	var st *zk.Stat
	err := insist(ctx, e.s, func() (err error) {
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

// owners counts the contenders behind a list of znodes; one may have several.
func owners(names []string) int {
	seen := map[string]bool{}
	for _, name := range names {
		seen[cmp.Or(owner(name), name)] = true
	}
	return len(seen)
}
