package zktest

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox"
)

// Faulty starts a sandbox that misbehaves. The mode determines how:
//
//	newid       gives a client that reconnects a new session; the old one ends with its connection
//	newidkeep   the same, but the old session and its ephemerals remain until the session timeout
//	expired     replies to a reconnect with timeout -1 and the requested session id
//	leaderless  replies to each connect request with protocol version 42
//	moved       fails each multi with SessionMoved in its results; the connection stays open
//	hangop:N,N  closes the connection instead of replying to requests with these opcodes
//	ignore:N,N  never replies to requests with these opcodes
//	code:N      replies with this error code to each request except pings and closeSession
//	silent      replies only to connect requests
//	pings       replies only to connect requests and pings
//	clickhouse, raftkeeper   imitates that product
//
// The sandbox has the same tick and session timeouts as one that Sandbox starts.
func Faulty(tb testing.TB, mode string) *Box {
	tb.Helper()
	var opt sandbox.Options
	kind, list, _ := strings.Cut(mode, ":")
	var numbers []int32
	for s := range strings.SplitSeq(list, ",") {
		if n, err := strconv.ParseInt(s, 10, 32); err == nil {
			numbers = append(numbers, int32(n))
		}
	}
	onNumbers := func(r sandbox.Reaction) func(int32) sandbox.Reaction {
		return func(op int32) sandbox.Reaction {
			if slices.Contains(numbers, op) {
				return r
			}
			return sandbox.Serve
		}
	}
	switch kind {
	case "newid", "newidkeep":
		opt.NewSessions, opt.OldSessionsStay = true, kind == "newidkeep"
	case "expired":
		opt.RejectReconnects = true
	case "leaderless", "clickhouse":
		opt.Product = sandbox.ClickHouse
	case "raftkeeper":
		opt.Product = sandbox.RaftKeeper
	case "moved":
		opt.MultiSessionMoved = true
	case "hangop":
		opt.React = onNumbers(sandbox.HangUp)
	case "ignore":
		opt.React = onNumbers(sandbox.Ignore)
	case "silent":
		opt.React = func(int32) sandbox.Reaction { return sandbox.Ignore }
	case "pings", "code":
		opt.React = func(op int32) sandbox.Reaction {
			switch {
			case op == jute.OpPing || kind == "code" && op == jute.OpCloseSession:
				return sandbox.Serve
			case kind == "pings":
				return sandbox.Ignore
			}
			return sandbox.Reaction(numbers[0])
		}
	default:
		tb.Fatalf("zktest: unknown mode %q", mode)
	}
	if (kind == "hangop" || kind == "ignore" || kind == "code") && numbers == nil {
		tb.Fatalf("zktest: the mode %q requires a number", mode)
	}
	box := Sandbox(tb, opt)
	box.SetLeaderless(kind == "leaderless")
	return box
}

// Cut closes all connections to the sandbox. Clients can connect again at once.
func (b *Box) Cut() {
	b.Pause()
	b.Resume()
}
