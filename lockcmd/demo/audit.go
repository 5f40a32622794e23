package demo

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"github.com/zksh/zksh/internal/zkconn"
)

// serverCounters are counters of the contenders' servers, added up.
type serverCounters struct {
	received    int // frames received from all clients, including this query
	connections int // connections of all clients, including this one
}

var counterLines = regexp.MustCompile(`(?m)^(Received|Connections): (\d+)$`)

// readServerCounters reads the counters with the four-letter command srvr, which servers allow
// by default. It returns nil if any server does not answer.
func readServerCounters(ctx context.Context, s *zkconn.Session, servers []string) *serverCounters {
	var sum serverCounters
	for _, addr := range servers {
		text, err := s.FourLetter(ctx, addr, "srvr")
		found := counterLines.FindAllStringSubmatch(text, -1)
		if err != nil || len(found) != 2 {
			return nil
		}
		for _, line := range found {
			n, _ := strconv.Atoi(line[2]) // counterLines matches only digits
			if line[1] == "Received" {
				sum.received += n
			} else {
				sum.connections += n
			}
		}
	}
	return &sum
}

// audit compares the frames on the wire with the servers' counters.
type audit struct {
	wire      int  // frames that lockdemo sent in the measured period
	server    int  // frames that the servers received, without the queries for the counters
	reported  bool // the servers reported their counters
	disturbed bool // other clients may explain the difference
}

// newAudit compares our traffic with the servers' counters. idle was read immediately before
// before. If more than the query came in between, other clients are active. They may also be
// active if there are more connections than ours. If neither is the case, but the servers
// received more than our frames and the shell's pings, other clients connected and
// disconnected in the meantime. A frame of a client that was killed may or may not have
// reached the server.
func newAudit(ours traffic, connections, pings int, servers []string, idle, before, after *serverCounters) audit {
	wire := ours.sent
	if idle == nil || before == nil || after == nil {
		return audit{wire: wire}
	}
	questions := len(servers)
	others := before.received - idle.received - questions
	strangers := max(before.connections, after.connections) - connections - questions
	a := audit{wire: wire, server: after.received - before.received - questions, reported: true}
	switch surplus := a.server - wire; {
	case surplus < 0 && -surplus <= ours.unanswered:
		a.server = wire
	case surplus <= 0:
	case others > 0 || strangers > 0:
		a.disturbed = true
	case surplus <= pings:
		a.server = wire
	default:
		a.disturbed = true
	}
	return a
}

// agrees reports whether the counts do not contradict each other.
func (a audit) agrees() bool { return !a.reported || a.server == a.wire || a.disturbed }

func (a audit) String() string {
	switch {
	case !a.reported:
		return "not reported"
	case a.disturbed:
		return fmt.Sprintf("disturbed by %d", a.server-a.wire)
	case a.server == a.wire:
		return "= server"
	}
	return fmt.Sprintf("NOT server (%+d)", a.server-a.wire)
}

// formula predicts the cost of passing the lock through n contenders.
type formula struct {
	text    string
	matches func(n int, t traffic) bool
}

// chainFormula applies to recipes in which each client watches its predecessor. Each release
// costs a delete, a notification and a list.
var chainFormula = &formula{"= 2N+1", func(n int, t traffic) bool {
	return t.requests == 2*n+1 && t.notifications == n
}}

// leaseFormula applies to zksh's recipe, in which the only waiter after a holder need not list
// again. The starter, which has not waited, reads its own znode once, perhaps within the
// measured period.
var leaseFormula = &formula{"= 2N (+2)", func(n int, t traffic) bool {
	return t.requests >= 2*n && t.requests <= 2*n+2 && t.notifications == n
}}

// herdFormula applies to recipes in which all clients watch the folder. A change notifies all
// waiters and the holder, and the waiters list again. A slow client misses some notifications.
var herdFormula = &formula{"≤ N²/2+3N/2+1", func(n int, t traffic) bool {
	return t.requests >= 2*n+1 && t.requests <= n*(n+3)/2+1 && t.notifications >= n && t.notifications <= n*(n+3)/2
}}

// pollFormula applies to recipes without watches.
var pollFormula = &formula{"none notified", func(n int, t traffic) bool {
	return t.requests >= 2*n+1 && t.notifications == 0
}}
