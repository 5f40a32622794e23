package cluster

import (
	"context"
	"strings"
	"syscall"
	"testing"
)

// dumps are replies of leaders to dump: sessions 1 and 2 exist, and session 3 does not, but owns
// a znode.
var dumps = map[string]string{
	"3.4":            "SessionTracker dump:\nSession Sets (2):\n1 expire at Thu Nov 26 04:34:42 UTC 2026:\n\t0x1\n1 expire at Thu Nov 26 04:34:44 UTC 2026:\n\t0x2\nephemeral nodes dump:\nSessions with Ephemerals (1):\n0x3:\n\t/q/a\n",
	"3.8":            "SessionTracker dump:\nSession Sets (1)/(2):\n2 expire at Thu Nov 26 04:34:42 UTC 2026:\n\t0x1\n\t0x2\nephemeral nodes dump:\nSessions with Ephemerals (1):\n0x3:\n\t/q/a\nConnections dump:\nConnections Sets (1)/(1):\n1 expire at Thu Nov 26 04:34:42 UTC 2026:\n\tip: /127.0.0.1:1 sessionId: 0x3\n",
	"local sessions": "SessionTracker dump:\nLocal Session Sets (0)/(0):\nGlobal Session Sets (1)/(1):\n1 expire at Thu Nov 26 04:34:42 UTC 2026:\n\t0x2\nephemeral nodes dump:\nSessions with Ephemerals (1):\n0x3:\n\t/q/a\n",
	"ClickHouse":     "Sessions dump (2):\n0x1\n0x2\nSessions with Ephemerals (1):\n0x3:\n\t/q/a\n",
}

func TestSessionTable(t *testing.T) {
	for name, dump := range dumps {
		f := &fake{hosts: []string{"a:1"}, word: func(_ context.Context, _, word string) (string, error) {
			if word == "srvr" {
				return "Mode: standalone\n", nil
			}
			return dump, nil
		}}
		table, err := LeaderSessions(t.Context(), f)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if table.Has(1) == (name == "local sessions") || !table.Has(2) || table.Has(3) || strings.Join(table.Ephemerals[3], " ") != "/q/a" {
			t.Errorf("%s: %+v", name, table)
		}
	}
}

// A session table is used only if it is certain that the server that listed it is the leader.
func TestLeaderSessions(t *testing.T) {
	roles := func(list ...string) map[string]string {
		return map[string]string{"a:1 srvr": list[0], "b:1 srvr": list[1], "c:1 srvr": list[2], "b:1 dump": dumps["3.8"]}
	}
	with := func(replies map[string]string, request, reply string) map[string]string {
		replies[request] = reply
		return replies
	}
	usual := func() map[string]string { return roles("follower", "leader", "follower") }
	for name, test := range map[string]struct {
		replies map[string]string
		then    map[string]string // replies after dump
		err     string            // expected part of the error; empty for none
	}{
		"usual":         {usual(), nil, ""},
		"a server down": {roles("refused", "leader", "follower"), nil, ""},
		"no leader":     {roles("follower", "follower", "follower"), nil, "no server is the leader"},
		"two leaders":   {roles("leader", "leader", "follower"), nil, "a:1, b:1 all report"},
		"no reply":      {roles("silent", "leader", "follower"), nil, "timed out"},
		"a new leader":  {usual(), roles("leader", "follower", "follower"), "has changed"},
		"a lost leader": {usual(), roles("follower", "follower", "follower"), "no server is the leader"},
		"not allowed":   {with(usual(), "b:1 dump", "dump "+notAllowed), nil, "add it to 4lw.commands.whitelist"},
		"a follower's list": {with(usual(), "b:1 dump", "SessionTracker dump:\nGlobal Sessions(1):\n0x1\t30000ms\nephemeral nodes dump:\nSessions with Ephemerals (0):\n"),
			nil, "cannot parse"},
		"not running":         {with(usual(), "b:1 dump", "This ZooKeeper instance is not currently serving requests\n"), nil, "cannot parse"},
		"not the own session": {with(usual(), "b:1 dump", strings.Replace(dumps["3.8"], "\t0x1\n", "", 1)), nil, "b:1 does not list the session of this client"},
	} {
		replies := test.replies
		f := &fake{hosts: []string{"a:1", "b:1", "c:1"}}
		f.word = func(_ context.Context, addr, word string) (string, error) {
			reply := replies[addr+" "+word]
			switch {
			case reply == "refused":
				return "", syscall.ECONNREFUSED
			case reply == "silent":
				return "", syscall.ETIMEDOUT
			case word == "srvr":
				return "Zookeeper version: 3.8.0\nMode: " + reply + "\n", nil
			}
			return reply, nil
		}
		asked := f.word
		f.word = func(ctx context.Context, addr, word string) (string, error) {
			reply, err := asked(ctx, addr, word)
			if word == "dump" && test.then != nil {
				replies = test.then
			}
			return reply, err
		}
		_, err := LeaderSessions(t.Context(), f)
		if err == nil && test.err != "" || err != nil && (test.err == "" || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: %v, want %q", name, err, test.err)
		}
	}
}
