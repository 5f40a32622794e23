package sandbox

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// The compatible servers that a sandbox can imitate.
const (
	ClickHouse Version = "clickhouse"
	RaftKeeper Version = "raftkeeper"
)

// Products returns the servers of other projects that speak ZooKeeper's protocol and that a
// sandbox can imitate.
func Products() []Version { return []Version{ClickHouse, RaftKeeper} }

// A product describes how a compatible server differs from ZooKeeper 3.4. In all else the
// sandbox imitates 3.4 for it. The facts are from the products' sources as of November 2026.
type product struct {
	name    string // in the first line of srvr (FourLetterCommand.cpp of both)
	release string

	// opcodes lists the known opcodes that are newer than 3.4. The server closes the connection
	// on any other newer opcode, without an answer. In ClickHouse,
	// KeeperTCPHandler::receiveRequest throws, and runImpl ends. Its OpNum got 15, 17 to 19, 21,
	// 101, 105 and 106 only recently; the sandbox imitates an older Keeper. For RaftKeeper, see
	// OpNum in ZooKeeperConstants.h; in its releases, ConnectionHandler.cpp logs the exception
	// and never answers the request.
	opcodes     []int32
	unsupported []int32 // opcodes of 3.4 that the server does not know

	// newSessions means that each connection has its own session. A client that reconnects
	// gets a new session (KeeperTCPHandler::receiveHandshake: "We don't support session
	// restore"), and the old one ends with its connection (finishSession at the end of runImpl).
	newSessions bool

	decimal bool   // srvr prints the zxid in decimal (RaftKeeper; ClickHouse before formatZxid)
	sent    string // label of the packets sent, in srvr
}

var products = map[Version]product{
	ClickHouse: {
		name: "ClickHouse Keeper", release: "v24.3.1.1-zksh-sandbox",
		opcodes:     []int32{jute.OpReconfig, jute.OpMultiRead},
		unsupported: []int32{jute.OpSASL, jute.OpSetWatches}, newSessions: true, sent: "Sent",
	},
	RaftKeeper: {
		name: "RaftKeeper", release: "RaftKeeper 2.1.0-zksh-sandbox",
		opcodes:     []int32{jute.OpRemoveWatches, jute.OpMultiRead, jute.OpAddWatch},
		unsupported: []int32{jute.OpSASL}, decimal: true, sent: "Sent ", // RaftKeeper prints the space
	},
}

// product returns the differences from ZooKeeper 3.4, or false if v is a version of
// ZooKeeper.
func (v Version) product() (product, bool) {
	p, ok := products[v]
	return p, ok
}

func (p product) knows(op int32) bool {
	_, newer := opSince[op]
	return !slices.Contains(p.unsupported, op) && (!newer || slices.Contains(p.opcodes, op))
}

const (
	// productMinTimeout is the products' shortest session timeout (DEFAULT_MIN_SESSION_TIMEOUT_MS).
	productMinTimeout = 10 * time.Second
	// rejected is the protocol version of a connect reply without a session
	// (KEEPER_PROTOCOL_VERSION_CONNECTION_REJECT).
	rejected = 42

	keeperPath     = "/keeper"
	apiVersionPath = "/keeper/api_version"
	apiVersion     = "2" // WITH_MULTI_READ (KeeperConstants.h, KeeperCommon.h)
)

// systemNodes returns the znodes of an empty tree and their data. Both products have
// /keeper and no /zookeeper (keeper_api_version_path).
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

// reserved reports whether no client may create or delete the znode path. The products
// reserve /keeper and its descendants (KeeperStorage: "Trying to create a node inside the
// internal Keeper path").
func (v Version) reserved(path string) bool {
	_, ok := v.product()
	return ok && (path == keeperPath || strings.HasPrefix(path, keeperPath+"/"))
}

// SetLeaderless makes the server reject connect requests like an ensemble member without a
// leader, until it is called with false. ZooKeeper closes the connection; the products
// first answer with protocol version 42.
func (s *Server) SetLeaderless(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaderless = on
}

// reject rejects a connect request. ZooKeeper closes the connection; the products answer
// with version 42. RaftKeeper rejects an expired session with its old id, and any session
// with id -1 if there is no leader, both with timeout -1 (handleHandshake, sendHandshake).
// ClickHouse resumes no sessions, so it reports none as expired; it returns the negotiated
// timeout (sendHandshake).
func (s *Server) reject(c *conn, sid int64, timeout time.Duration) verdict {
	if _, ok := s.opt.As.product(); !ok {
		return closeNow
	}
	if s.opt.As == RaftKeeper {
		timeout = -time.Millisecond
	}
	return s.withoutSession(c, rejected, sid, timeout)
}

// withoutSession sends a connect reply that starts no session, and closes the connection.
func (s *Server) withoutSession(c *conn, version int32, sid int64, timeout time.Duration) verdict {
	e := &jute.Encoder{B: make([]byte, 4, 64)}
	e.Int(version, int32(timeout.Milliseconds()))
	e.Long(sid)
	e.Buffer(make([]byte, 16))
	s.stats.reply(c, len(e.B)-4, s.zxid, s.now())
	c.send(finish(e))
	return closeAfterFlush
}

// noSession returns the session id in the connect reply of a product without a leader.
func (v Version) noSession() int64 {
	if v == RaftKeeper {
		return -1
	}
	return 0
}

// endWithConnection ends the session of a closed connection if sessions do not outlive
// their connections.
func (s *Server) endWithConnection(n *session) {
	if s.newSessions() && !s.opt.OldSessionsStay && s.sessions[n.id] == n {
		s.closeSession(n)
	}
}

// writeReadError writes the result of a failed operation of a multiRead. The products keep
// the operation's type and put the error into the header, without a body
// (ZooKeeperMultiResponse::writeImpl; ClickHouse#58747).
func (s *Server) writeReadError(e *jute.Encoder, op int32, err code) {
	if _, ok := s.opt.As.product(); ok {
		e.MultiHeader(op, false, int32(err))
		return
	}
	writeError(e, err)
}

// summary returns the output of srvr after the version line (ServerStatCommand::run).
func (p product) summary(s *Server) string {
	zxid := fmt.Sprintf("0x%x", uint64(s.zxid))
	if p.decimal {
		zxid = fmt.Sprint(s.zxid)
	}
	return fmt.Sprintf("Latency min/avg/max: 0/0/0\nReceived: %d\n%s: %d\nConnections: %d\nOutstanding: 0\nZxid: %s\nMode: standalone\nNode count: %d\n",
		s.stats.received, p.sent, s.stats.sent, len(s.conns), zxid, len(s.tree.nodes)-1)
}

// dump returns the output of dump, which is the same for both products
// (KeeperStorage::dumpSessionsAndEphemerals).
func (p product) dump(s *Server) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Sessions dump (%d):\n", len(s.sessions))
	for _, id := range s.sessionIDs() {
		fmt.Fprintf(&b, "0x%x\n", uint64(id))
	}
	s.ephemeralsDump(&b)
	return b.String()
}

// fixACL returns the list to store for the list of a request. The products accept an empty
// list (KeeperStorage::fixupACL checks only its entries).
func (v Version) fixACL(list []acl, caller []id) ([]acl, code) {
	if _, ok := v.product(); ok && len(list) == 0 {
		return nil, codeOK
	}
	return fixACL(list, caller)
}

// knownOp reports whether any version has a request with this opcode.
func knownOp(op int32) bool {
	_, ok := opNames[op]
	return ok || op == jute.OpAuth || op == jute.OpDeleteContainer || op == jute.OpSASL
}
