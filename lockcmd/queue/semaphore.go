package queue

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/zksh/zksh/lockcmd/zklock"
)

// recordedLeases returns the number of leases of a semaphore. zksh records it in its notes, and
// Curator does not. The notes of leases take precedence over those of waiters. If they contain
// different numbers, recordedLeases returns the smallest. If there is none, it returns 0.
func recordedLeases(leases, guard []*node) int {
	for _, nodes := range [][]*node{leases, guard} {
		if numbers := leaseNumbers(nodes, func(n *node) int { return noteIn(n.Data).Leases }); len(numbers) > 0 {
			return numbers[0]
		}
	}
	return 0
}

// leaseNumbers returns the different numbers, except 0, that number returns for the elements of
// list, in ascending order.
func leaseNumbers[T any](list []T, number func(T) int) (numbers []int) {
	for _, each := range list {
		if n := number(each); n > 0 {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// OfSemaphore reports whether a contender of the queue has or wants a lease of a semaphore, and
// not the lock at the path itself.
func (q *Queue) OfSemaphore(c *Contender) bool {
	return c.Mode == zklock.Counted || path.Dir(c.node.path) != q.Path
}

// OtherLeases returns the holders whose notes say that the semaphore does not have n leases.
func (q *Queue) OtherLeases(n int) []*Contender {
	return slices.DeleteFunc(q.holders(), func(c *Contender) bool { return c.Leases == 0 || c.Leases == n })
}

// leaseWarnings returns a warning if clients assume different numbers of leases.
func leaseWarnings(list []*Contender) []string {
	numbers := leaseNumbers(list, func(c *Contender) int { return c.Leases })
	if len(numbers) < 2 {
		return nil
	}
	var words []string
	for _, n := range numbers {
		words = append(words, strconv.Itoa(n))
	}
	last := len(words) - 1
	return []string{fmt.Sprintf("clients of the semaphore assume different numbers of leases, %s and %s: up to %s clients can hold one at the same time",
		strings.Join(words[:last], ", "), words[last], words[last])}
}
