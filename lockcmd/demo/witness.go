package demo

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"github.com/zksh/zksh/internal/zkconn"
)

// ledger is what the contenders' servers say of themselves, added up.
type ledger struct {
	received    int // frames of anybody, this question among them
	connections int // of anybody, this one among them
}

var ledgerLines = regexp.MustCompile(`(?m)^(Received|Connections): (\d+)$`)

// readLedger asks the servers by srvr, which they allow by default. It is nil if
// one of them does not tell.
func readLedger(ctx context.Context, s *zkconn.Session, servers []string) *ledger {
	var sum ledger
	for _, addr := range servers {
		text, err := s.FourLetter(ctx, addr, "srvr")
		found := ledgerLines.FindAllStringSubmatch(text, -1)
		if err != nil || len(found) != 2 {
			return nil
		}
		for _, line := range found {
			n, _ := strconv.Atoi(line[2]) // digits they are
			if line[1] == "Received" {
				sum.received += n
			} else {
				sum.connections += n
			}
		}
	}
	return &sum
}

// audit holds the frames on the wire against the servers' own counters.
type audit struct {
	wire      int // frames sent by us from one cut to the other
	server    int // frames received, without the questions for that
	told      bool
	disturbed bool // by others, as far as the two differ
}

// newAudit compares. idle is what a ledger showed a moment before the first: with
// more between them than the question, others are at work. They may be as well
// where more than ours are connected, and where neither was seen, but more has come in
// than the shell itself may have pinged: they came and went in between.
// A frame of a client that died may have come in or not.
func newAudit(ours traffic, connections, pings int, servers []string, idle, before, after *ledger) audit {
	wire := ours.sent
	if idle == nil || before == nil || after == nil {
		return audit{wire: wire}
	}
	questions := len(servers)
	others := before.received - idle.received - questions
	strangers := max(before.connections, after.connections) - connections - questions
	a := audit{wire: wire, server: after.received - before.received - questions, told: true}
	switch surplus := a.server - wire; {
	case surplus < 0 && -surplus <= ours.unheard:
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

// agrees reports whether the two do not contradict each other.
func (a audit) agrees() bool { return !a.told || a.server == a.wire || a.disturbed }

func (a audit) String() string {
	switch {
	case !a.told:
		return "not reported"
	case a.disturbed:
		return fmt.Sprintf("disturbed by %d", a.server-a.wire)
	case a.server == a.wire:
		return "= server"
	}
	return fmt.Sprintf("NOT server (%+d)", a.server-a.wire)
}

// formula is what the recipe alone says of handing the lock through n contenders.
type formula struct {
	text  string
	holds func(n int, t traffic) bool
}

// chain is the formula of whoever watches the one before: each release is a delete,
// a notification and a list.
var chain = &formula{"= 2N+1", func(n int, t traffic) bool {
	return t.requests == 2*n+1 && t.notifications == n
}}

// leased is that of the recipe whose only waiter behind a holder need not list again.
// The starter, who has not waited, looks at its own znode once, perhaps after the
// clock has started.
var leased = &formula{"= 2N (+2)", func(n int, t traffic) bool {
	return t.requests >= 2*n && t.requests <= 2*n+2 && t.notifications == n
}}

// herd is that of whoever watches the folder: all that wait are notified, the holder
// with them, and those that wait list again. One that is late misses some.
var herd = &formula{"≤ N²/2+3N/2+1", func(n int, t traffic) bool {
	return t.requests >= 2*n+1 && t.requests <= n*(n+3)/2+1 && t.notifications >= n && t.notifications <= n*(n+3)/2
}}

// silence is that of whoever does not watch.
var silence = &formula{"none notified", func(n int, t traffic) bool {
	return t.requests >= 2*n+1 && t.notifications == 0
}}
