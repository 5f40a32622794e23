package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A SessionTable lists all sessions of the ensemble, as its leader knows them.
type SessionTable struct {
	Ephemerals map[int64][]string // server paths of the ephemeral znodes that the leader stores, by session ID
	sessions   map[int64]bool
	local      bool // the servers also have local sessions, which only the client's own server knows
}

// Has reports whether the session exists. A session that owns an ephemeral znode is never local,
// so the leader knows it.
func (t *SessionTable) Has(session int64) bool { return t.sessions[session] }

// LeaderSessions returns the leader's session table. A stand-alone server counts as a leader.
//
// The table contains every session that existed before the call and still exists. LeaderSessions
// therefore returns an error if another server may be the leader. This is the case if
//   - a server does not answer,
//   - the servers do not report the same, single leader before and after the request, or
//   - the table lacks the client's own session.
func LeaderSessions(ctx context.Context, e Ensemble) (*SessionTable, error) {
	ctx, cancel := context.WithTimeout(ctx, serversLimit)
	defer cancel()
	leader, err := findLeader(ctx, e)
	if err != nil {
		return nil, err
	}
	text, err := ask(ctx, e, leader, "dump")
	if err != nil {
		return nil, err
	}
	t, err := parseSessionTable(text)
	if err != nil {
		return nil, err
	}
	switch after, err := findLeader(ctx, e); {
	case err != nil:
		return nil, err
	case after != leader:
		return nil, errors.New("the leader of the ensemble has changed")
	}
	if own, _ := e.Self(); !t.local && !t.Has(own) {
		return nil, fmt.Errorf("%s does not list the session of this client", leader)
	}
	return t, nil
}

// findLeader returns the address of the leader. It asks all servers of the ensemble, because a
// server that has lost its followers calls itself the leader for a while.
func findLeader(ctx context.Context, e Ensemble) (string, error) {
	addrs, _, _ := findMembers(ctx, e)
	texts, problems := askEach(ctx, e, addrs, "srvr")
	if len(problems) > 0 {
		return "", errors.New(problems[0])
	}
	var leaders []string
	for i, text := range texts {
		if leads(parsePairs(text, ": ")["Mode"]) {
			leaders = append(leaders, addrs[i])
		}
	}
	switch len(leaders) {
	case 0:
		return "", errors.New("no server is the leader; to see the state of each server, run: servers")
	case 1:
		return leaders[0], nil
	}
	return "", fmt.Errorf("%s all report that they are the leader", strings.Join(leaders, ", "))
}

// parseSessionTable parses a leader's reply to the four-letter command dump. The sessions are
// listed before the ephemeral znodes.
func parseSessionTable(dump string) (*SessionTable, error) {
	owned, err := ephemerals(dump)
	if err != nil {
		return nil, err
	}
	sessions, _, _ := strings.Cut(dump, "Sessions with Ephemerals (")
	// a follower's list has another heading
	if !strings.Contains(sessions, "Session Sets (") && !strings.Contains(sessions, "Sessions dump (") {
		return nil, errors.New("cannot parse the leader's reply to the four-letter command dump")
	}
	t := &SessionTable{Ephemerals: owned, sessions: map[int64]bool{},
		local: strings.Contains(sessions, "Local Session")}
	for l := range strings.Lines(sessions) {
		id, ok := strings.CutPrefix(strings.TrimSpace(l), "0x")
		if n, err := strconv.ParseUint(id, 16, 64); ok && err == nil {
			t.sessions[int64(n)] = true
		}
	}
	return t, nil
}
