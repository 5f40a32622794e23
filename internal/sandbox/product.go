package sandbox

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// The servers of others that speak ZooKeeper's protocol and that a sandbox can answer as.
const (
	ClickHouse Version = "clickhouse"
	RaftKeeper Version = "raftkeeper"
)

// Products lists the servers of others that a sandbox can answer as.
func Products() []Version { return []Version{ClickHouse, RaftKeeper} }

// product is where a compatible server differs from ZooKeeper 3.4, which it follows
// otherwise. The sources are the products' own, as read in November 2026.
type product struct {
	name    string // in the first line of srvr (FourLetterCommand.cpp of both)
	release string

	// opcodes are those newer than 3.4 that it knows. It closes the connection on any other
	// without an answer (KeeperTCPHandler::receiveRequest throws, and runImpl ends; ClickHouse's
	// OpNum got 15, 17 to 19, 21, 101, 105 and 106 only lately, so this is a Keeper of before.
	// RaftKeeper: OpNum in ZooKeeperConstants.h; the releases of which ConnectionHandler.cpp was
	// read log the exception and leave the request without an answer).
	opcodes []int32
	lacks   []int32 // opcodes of 3.4 that it does not know either

	// newSessions: each connection has a session of its own. A reconnect gets another one
	// (KeeperTCPHandler::receiveHandshake: "We don't support session restore"), and the
	// old session ends with its connection (finishSession at the end of runImpl).
	newSessions bool

	decimal bool // srvr has the zxid in decimals (RaftKeeper; ClickHouse before formatZxid)
	sent    string
}

var products = map[Version]product{
	ClickHouse: {
		name: "ClickHouse Keeper", release: "v24.3.1.1-zksh-sandbox",
		opcodes: []int32{jute.OpReconfig, jute.OpMultiRead},
		lacks:   []int32{jute.OpSASL, jute.OpSetWatches}, newSessions: true, sent: "Sent",
	},
	RaftKeeper: {
		name: "RaftKeeper", release: "RaftKeeper 2.1.0-zksh-sandbox",
		opcodes: []int32{jute.OpRemoveWatches, jute.OpMultiRead, jute.OpAddWatch},
		lacks:   []int32{jute.OpSASL}, decimal: true, sent: "Sent ", // with that space
	},
}

// product is what differs if this is no ZooKeeper.
func (v Version) product() (product, bool) {
	p, ok := products[v]
	return p, ok
}

func (p product) knows(op int32) bool {
	_, newer := opSince[op]
	return !slices.Contains(p.lacks, op) && (!newer || slices.Contains(p.opcodes, op))
}

const (
	// productMinTimeout is the shortest session timeout (DEFAULT_MIN_SESSION_TIMEOUT_MS).
	productMinTimeout = 10 * time.Second
	// rejected is the protocol version of a connect reply without a session
	// (KEEPER_PROTOCOL_VERSION_CONNECTION_REJECT).
	rejected = 42

	keeperPath     = "/keeper"
	apiVersionPath = "/keeper/api_version"
	apiVersion     = "2" // WITH_MULTI_READ (KeeperConstants.h, KeeperCommon.h)
)

// systemNodes are the znodes that there are from the beginning, with their data. Both
// products have /keeper and no /zookeeper (keeper_api_version_path).
func (v Version) systemNodes() (paths []string, data map[string]string) {
	if _, ok := v.product(); ok {
		return []string{keeperPath, apiVersionPath}, map[string]string{apiVersionPath: apiVersion}
	}
	paths = []string{zkPath, quotaPath}
	if v.has(configNode) {
		paths = append(paths, configPath)
	}
	return paths, nil
}

// reserved reports whether nobody may create or delete a znode here: /keeper and below
// (KeeperStorage: "Trying to create a node inside the internal Keeper path").
func (v Version) reserved(path string) bool {
	_, ok := v.product()
	return ok && (path == keeperPath || strings.HasPrefix(path, keeperPath+"/"))
}

// SetLeaderless makes the server reject connect requests as a member without a leader
// does, until it is called with false. ZooKeeper hangs up; the products answer with
// protocol version 42 first.
func (s *Server) SetLeaderless(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaderless = on
}

// reject answers a connect request of a product without a session. RaftKeeper answers
// both an expired session, with its old id, and a missing leader, with id -1, by version
// 42 and timeout -1 (handleHandshake, sendHandshake); ClickHouse has no session to report
// as expired, and leaves the timeout as it is (sendHandshake).
func (s *Server) reject(c *conn, sid int64, timeout time.Duration) verdict {
	if _, ok := s.opt.As.product(); !ok {
		return cut
	}
	if s.opt.As == RaftKeeper {
		timeout = -time.Millisecond
	}
	return s.withoutSession(c, rejected, sid, timeout)
}

// withoutSession sends a connect reply that begins no session, and hangs up.
func (s *Server) withoutSession(c *conn, version int32, sid int64, timeout time.Duration) verdict {
	e := &jute.Encoder{B: make([]byte, 4, 64)}
	e.Int(version, int32(timeout.Milliseconds()))
	e.Long(sid)
	e.Buffer(make([]byte, 16))
	s.stats.reply(c, len(e.B)-4, s.zxid, s.now())
	c.send(finish(e))
	return leave
}

// noSession is the id in the connect reply of a product without a leader.
func (v Version) noSession() int64 {
	if v == RaftKeeper {
		return -1
	}
	return 0
}

// endWithConnection ends the session of a connection that is over, where it has no other.
func (s *Server) endWithConnection(n *session) {
	if s.newSessions() && !s.opt.OldStay && s.sessions[n.id] == n {
		s.closeSession(n)
	}
}

// writeReadError is a failed part of a multiRead: the products keep its type, and put the
// error into the header, with nothing behind it (ZooKeeperMultiResponse::writeImpl;
// ClickHouse#58747).
func (s *Server) writeReadError(e *jute.Encoder, op int32, err code) {
	if _, ok := s.opt.As.product(); ok {
		e.MultiHeader(op, false, int32(err))
		return
	}
	writeError(e, err)
}

// summary is srvr behind the version line (ServerStatCommand::run).
func (p product) summary(s *Server) string {
	zxid := fmt.Sprintf("0x%x", uint64(s.zxid))
	if p.decimal {
		zxid = fmt.Sprint(s.zxid)
	}
	return fmt.Sprintf("Latency min/avg/max: 0/0/0\nReceived: %d\n%s: %d\nConnections: %d\nOutstanding: 0\nZxid: %s\nMode: standalone\nNode count: %d\n",
		s.stats.received, p.sent, s.stats.sent, len(s.conns), zxid, len(s.tree.nodes)-1)
}

// dump is that of both products (KeeperStorage::dumpSessionsAndEphemerals).
func (p product) dump(s *Server) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Sessions dump (%d):\n", len(s.sessions))
	for _, id := range s.sessionIDs() {
		fmt.Fprintf(&b, "0x%x\n", uint64(id))
	}
	s.ephemeralsDump(&b)
	return b.String()
}

// fixACL is the list to store. The products take an empty one as it is
// (KeeperStorage::fixupACL checks entries, of which there are none).
func (v Version) fixACL(list []acl, caller []id) ([]acl, code) {
	if _, ok := v.product(); ok && len(list) == 0 {
		return nil, codeOK
	}
	return fixACL(list, caller)
}

// knownOp reports whether there is a request with this opcode.
func knownOp(op int32) bool {
	_, ok := opNames[op]
	return ok || op == jute.OpAuth || op == jute.OpDeleteContainer || op == jute.OpSASL
}
