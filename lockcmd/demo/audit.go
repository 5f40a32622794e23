package demo

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"github.com/zksh/zksh/internal/zkconn"
)

// serverCounters contains the sums of counters over all servers to which contenders are
// connected.
type serverCounters struct {
	received    int // frames received from all clients, including the query for the counters
	connections int // connections of all clients, including the one for the query
}

var counterLines = regexp.MustCompile(`(?m)^(Received|Connections): (\d+)$`)

// readServerCounters reads the counters with the four-letter command srvr, which servers allow
// by default. It returns nil if any of the servers does not answer.
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

// audit compares the number of frames that lockdemo sent with the servers' counters.
type audit struct {
	wire      int  // frames that lockdemo sent in the measured period
	server    int  // frames that the servers received in that period, without the queries for the counters
	reported  bool // the servers reported their counters
	disturbed bool // other clients may explain the difference
}

// newAudit compares the contenders' traffic with the increase of the servers' counters from
// start to end. earlier was read immediately before start. If the servers received more than the
// query for the counters between these two, other clients are active. Other clients may also be
// active if the servers have more connections than lockdemo and the shell. If neither is the
// case, but the servers received more frames than the contenders' traffic and the shell's pings
// explain, other clients connected and disconnected in the meantime. A frame of a client that
// was killed may or may not have reached the server.
func newAudit(counted traffic, connections, pings int, servers []string, earlier, start, end *serverCounters) audit {
	wire := counted.sent
	if earlier == nil || start == nil || end == nil {
		return audit{wire: wire}
	}
	questions := len(servers)
	others := start.received - earlier.received - questions
	strangers := max(start.connections, end.connections) - connections - questions
	a := audit{wire: wire, server: end.received - start.received - questions, reported: true}
	switch surplus := a.server - wire; {
	case surplus < 0 && -surplus <= counted.unanswered:
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

// agrees reports whether the number of frames sent does not contradict the servers' counters.
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

// formula predicts the number of requests and notifications for passing the lock through n
// contenders.
type formula struct {
	text    string
	matches func(n int, t traffic) bool
}

// chainFormula applies to recipes in which each client watches its predecessor. Each release
// costs a delete request, a notification and a list request.
var chainFormula = &formula{"= 2N+1", func(n int, t traffic) bool {
	return t.requests == 2*n+1 && t.notifications == n
}}

// leaseFormula applies to zksh's own recipe. There, a waiter need not list again if it is the
// only one after the holder. The starter, which has not waited, reads its own znode once,
// perhaps during the measured period.
var leaseFormula = &formula{"= 2N (+2)", func(n int, t traffic) bool {
	return t.requests >= 2*n && t.requests <= 2*n+2 && t.notifications == n
}}

// herdFormula applies to recipes in which all clients watch the folder. Each change notifies all
// waiters and the holder, and the waiters list the folder again. A slow client misses some
// notifications.
var herdFormula = &formula{"≤ N²/2+3N/2+1", func(n int, t traffic) bool {
	return t.requests >= 2*n+1 && t.requests <= n*(n+3)/2+1 && t.notifications >= n && t.notifications <= n*(n+3)/2
}}

// pollFormula applies to recipes without watches.
var pollFormula = &formula{"none notified", func(n int, t traffic) bool {
	return t.requests >= 2*n+1 && t.notifications == 0
}}
