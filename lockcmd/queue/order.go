package queue

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/zksh/zksh/lockcmd/zklock"
)

// inOrder sorts contenders as they came: by their sequence numbers, or by the
// transactions that made them where the numbers do not tell, since the counter
// has overflowed or there is none.
func inOrder(nodes []*node) []*node {
	byNumber := !slices.ContainsFunc(nodes, func(n *node) bool { return n.Number < 0 || n.Number == math.MaxInt32 })
	slices.SortFunc(nodes, func(a, b *node) int {
		if byNumber && a.Number != b.Number {
			return cmp.Compare(a.Number, b.Number)
		}
		return cmp.Or(cmp.Compare(a.Stat.Czxid, b.Stat.Czxid), cmp.Compare(a.Number, b.Number), strings.Compare(a.path, b.path))
	})
	return nodes
}

// asOne reports whether b is another name of the contender a: one transaction made
// both, for clients of another family to see.
func asOne(a, b *node) bool {
	if a.Stat.Czxid == 0 { // all that is known are the names
		return zklock.SameOwner(a.path, b.path)
	}
	return a.Stat.Czxid == b.Stat.Czxid && a.Stat.EphemeralOwner == b.Stat.EphemeralOwner &&
		a.Mode == b.Mode && a.Kind != b.Kind && b.Number == a.Number+1
}

// contenders makes a list of who contends for a path, with their states.
func contenders(nodes []*node) []*Contender {
	var list []*Contender
	exclusive, some := false, false // is there one ahead?
	for i, n := range nodes {
		if i > 0 && asOne(nodes[i-1], n) {
			list[len(list)-1].add(n)
			continue
		}
		c := newContender(n)
		switch {
		case n.Mode == zklock.Counted:
			c.State = holds
		case n.Mode == zklock.Exclusive && some, n.Mode == zklock.Shared && exclusive:
			c.State = waits
		default:
			c.State = holds
		}
		if n.Mode != zklock.Counted {
			some = true
			exclusive = exclusive || n.Mode == zklock.Exclusive
		}
		list = append(list, c)
	}
	return list
}

// semaphore lists a semaphore's leases, and behind them who waits for one. A
// client takes the guard's lock, makes a lease, and lets the guard go when it has
// it: Curator's waits for room with the lease made, kazoo's before.
func semaphore(leases, guard []*node) []*Contender {
	list := contenders(leases)
	if len(guard) > 0 && len(list) > 0 {
		head, last := guard[0], list[len(list)-1]
		if last.stat.EphemeralOwner == head.Stat.EphemeralOwner && last.stat.Czxid > head.Stat.Czxid {
			guard = guard[1:]
			if last.Kind == curatorSemaphore {
				last.State = waits
			}
		}
	}
	for _, n := range guard {
		c := newContender(n)
		c.State, c.Mode, c.Kind = waits, zklock.Counted, "semaphore's guard"
		c.groups = []*lockGroup{nil}
		list = append(list, c)
	}
	return list
}
