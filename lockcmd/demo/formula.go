package demo

import (
	"fmt"
	"math"
)

// A bounds is a range of expected counts.
type bounds struct{ min, max int }

// unlimited is the maximum of bounds that have none.
const unlimited = math.MaxInt

func exactly(n int) bounds { return bounds{n, n} }

func (b bounds) contains(n int) bool { return b.min <= n && n <= b.max }

func (b bounds) String() string {
	switch b.max {
	case b.min:
		return fmt.Sprint(b.min)
	case unlimited:
		return fmt.Sprintf("≥ %d", b.min)
	}
	return fmt.Sprintf("%d–%d", b.min, b.max)
}

// A formula predicts how many requests and notifications are needed to pass the lock through n
// contenders.
type formula func(n int) (requests, notifications bounds)

// chainFormula is for recipes in which each client watches its predecessor. Each release costs
// one delete request, one notification and one list request.
func chainFormula(n int) (requests, notifications bounds) { return exactly(2*n + 1), exactly(n) }

// leaseFormula is for zksh's own recipe, which costs one request less if only one contender
// waits. The first holder, which did not have to wait, reads its own znode once. That request may
// fall into the measured period.
func leaseFormula(n int) (requests, notifications bounds) {
	return bounds{2 * n, 2*n + 2}, exactly(n)
}

// herdFormula is for recipes in which all clients watch the folder. Each change notifies the
// holder and all waiters, and the waiters list the folder again. It is an upper bound, because
// slow clients miss some notifications.
func herdFormula(n int) (requests, notifications bounds) {
	return bounds{2*n + 1, n*(n+3)/2 + 1}, bounds{n, n * (n + 3) / 2}
}

// pollFormula is for recipes that poll. They use no watches, so they get no notifications.
func pollFormula(n int) (requests, notifications bounds) {
	return bounds{2*n + 1, unlimited}, exactly(0)
}
