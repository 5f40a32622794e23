package demo

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"github.com/zksh/zksh/internal/zkconn"
)

// serverCounters contains traffic counters, summed over all servers that the contenders use.
type serverCounters struct {
	received    int // frames that the servers received, including the queries for these counters
	connections int // open client connections, including those of the queries
}

var counterLines = regexp.MustCompile(`(?m)^(Received|Connections): (\d+)$`)

// readServerCounters reads the counters of all servers with the four-letter command srvr, which
// servers allow by default, and returns the sums. It returns nil if a server does not answer.
func readServerCounters(ctx context.Context, s *zkconn.Session, servers []string) *serverCounters {
	var sum serverCounters
	for _, addr := range servers {
		text, err := s.FourLetter(ctx, addr, "srvr")
		found := counterLines.FindAllStringSubmatch(text, -1)
		if err != nil || len(found) != 2 {
			return nil
		}
		for _, line := range found {
			n, _ := strconv.Atoi(line[2]) // cannot fail, because counterLines matches only digits
			if line[1] == "Received" {
				sum.received += n
			} else {
				sum.connections += n
			}
		}
	}
	return &sum
}

// An audit compares the number of frames that lockdemo counted with the servers' own counters.
type audit struct {
	wire      int  // frames that lockdemo sent to the servers during the measurement
	server    int  // frames that the servers received during the measurement, except queries for their counters
	reported  bool // whether the servers reported their counters
	disturbed bool // whether traffic of other clients may explain a difference
}

// newAudit compares counted, the contenders' traffic, with the increase of the servers' counters
// from start to end. The counters earlier were read immediately before those in start.
//
// Traffic of other clients can explain a difference. There are other clients if the servers
// received more than one query between earlier and start, or if they have more connections than
// lockdemo and the shell. A further sign of other clients is that the servers received more frames
// than the contenders and the shell can have sent. A frame that a killed client sent may or may not
// have reached the server.
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

// agrees reports whether the servers' counters are consistent with lockdemo's count of frames, or
// are unknown.
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

// A formula predicts how many requests and notifications are needed to pass the lock through n
// contenders.
type formula struct {
	text    string
	matches func(n int, t traffic) bool
}

// chainFormula is for recipes in which each client watches its predecessor. Each release costs
// one delete request, one notification and one list request.
var chainFormula = &formula{"= 2N+1", func(n int, t traffic) bool {
	return t.requests == 2*n+1 && t.notifications == n
}}

// leaseFormula is for zksh's own recipe, which costs one request less if only one contender
// waits. The first holder, which did not have to wait, reads its own znode once. That request may
// fall into the measured period.
var leaseFormula = &formula{"= 2N (+2)", func(n int, t traffic) bool {
	return t.requests >= 2*n && t.requests <= 2*n+2 && t.notifications == n
}}

// herdFormula is for recipes in which all clients watch the folder. Each change notifies the
// holder and all waiters, and the waiters list the folder again. It is an upper bound, because
// slow clients miss some notifications.
var herdFormula = &formula{"≤ N²/2+3N/2+1", func(n int, t traffic) bool {
	return t.requests >= 2*n+1 && t.requests <= n*(n+3)/2+1 && t.notifications >= n && t.notifications <= n*(n+3)/2
}}

// pollFormula is for recipes that poll. They use no watches, so they get no notifications.
var pollFormula = &formula{"none notified", func(n int, t traffic) bool {
	return t.requests >= 2*n+1 && t.notifications == 0
}}
