package queue

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/zksh/zksh/lockcmd/zklock"
)

// sortByArrival sorts znodes in the order of their creation. It compares their sequence numbers
// or, if any of them has overflowed or is missing, the zxids of their creation.
func sortByArrival(nodes []*node) []*node {
	byNumber := !slices.ContainsFunc(nodes, func(n *node) bool { return n.Number < 0 || n.Number == math.MaxInt32 })
	slices.SortFunc(nodes, func(a, b *node) int {
		if byNumber && a.Number != b.Number {
			return cmp.Compare(a.Number, b.Number)
		}
		return cmp.Or(cmp.Compare(a.Stat.Czxid, b.Stat.Czxid), cmp.Compare(a.Number, b.Number), strings.Compare(a.path, b.path))
	})
	return nodes
}

// contenders returns the contenders to which the znodes belong, and determines whether each of them
// holds the lock or waits.
func contenders(nodes []*node) []*Contender {
	var list []*Contender
	exclusive, some := false, false // whether an exclusive contender is ahead, and whether any contender is ahead
	for _, n := range nodes {
		c := newContender(n)
		switch {
		case n.Owner != "" && !n.Permanent: // an owner holds a lock only with a persistent znode
			c.State = waits
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

// semaphore returns the contenders of a semaphore: first the owners of leases, then the waiters.
// A client acquires the guard lock, creates a lease, and releases the guard lock. While all
// leases are taken, a Curator client waits after it has created its lease, but a kazoo client
// waits before it creates one. maxLeases is the number of leases, or 0 if it is unknown.
func semaphore(leases, guard []*node, maxLeases int) []*Contender {
	list := contenders(leases)
	if len(guard) > 0 && len(list) > 0 {
		head, last := guard[0], list[len(list)-1]
		if last.stat.EphemeralOwner == head.Stat.EphemeralOwner && last.stat.Czxid > head.Stat.Czxid {
			guard = guard[1:]
			if last.Kind == curatorSemaphore && (maxLeases == 0 || len(list) > maxLeases) {
				last.State = waits
			}
		}
	}
	for _, n := range guard {
		c := newContender(n)
		c.State, c.Mode, c.Kind = waits, zklock.Counted, "semaphore's guard"
		c.group = nil
		list = append(list, c)
	}
	return list
}
