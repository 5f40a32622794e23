package sandbox

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// The servers compatible with ZooKeeper that a sandbox can imitate.
const (
	ClickHouse Version = "clickhouse"
	RaftKeeper Version = "raftkeeper"
)

// Products returns the servers of other projects that a sandbox can imitate. They speak
// ZooKeeper's protocol.
func Products() []Version { return []Version{ClickHouse, RaftKeeper} }

// A product describes how a compatible server differs from ZooKeeper 3.4. In all other respects,
// the sandbox behaves like 3.4. The facts are from the products' sources as of November 2026.
type product struct {
	name    string // in the first line of the output of srvr (FourLetterCommand.cpp of both)
	release string // version in the output of srvr

	// opcodes lists the opcodes newer than 3.4 that the server supports. On any other newer
	// opcode, it closes the connection without a reply. In ClickHouse,
	// KeeperTCPHandler::receiveRequest throws, and runImpl ends. ClickHouse added the opcodes
	// 15, 17 to 19, 21, 101, 105 and 106 to its OpNum only recently; the sandbox imitates an
	// older release. For RaftKeeper, see OpNum in ZooKeeperConstants.h; in its releases,
	// ConnectionHandler.cpp logs the exception and never replies to the request.
	opcodes     []int32
	unsupported []int32 // opcodes of ZooKeeper 3.4 that the server does not support

	// newSessions means that every connection gets a new session. A client that reconnects
	// cannot resume its old session (KeeperTCPHandler::receiveHandshake: "We don't support
	// session restore"), which ends with its connection (finishSession at the end of runImpl).
	newSessions bool

	decimal bool   // srvr prints the zxid in decimal (RaftKeeper; ClickHouse before formatZxid)
	sent    string // label of the number of sent packets in the output of srvr
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

// product returns the description of the product v, or false if v is a version of ZooKeeper.
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
	// rejected is the protocol version in the products' reply to a connect request that they
	// reject (KEEPER_PROTOCOL_VERSION_CONNECTION_REJECT).
	rejected = 42

	keeperPath     = "/keeper"
	apiVersionPath = "/keeper/api_version"
	apiVersion     = "2" // WITH_MULTI_READ (KeeperConstants.h, KeeperCommon.h)
)

// systemNodes returns the paths of the znodes in an empty tree, and the data of those that have
// any. Both products have /keeper instead of /zookeeper (keeper_api_version_path).
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

// reserved reports whether clients are forbidden to create or delete the znode at path. In the
// products, this holds for /keeper and its descendants (KeeperStorage: "Trying to create a node
// inside the internal Keeper path").
func (v Version) reserved(path string) bool {
	_, ok := v.product()
	return ok && (path == keeperPath || strings.HasPrefix(path, keeperPath+"/"))
}

// SetLeaderless sets whether the server rejects connect requests, like an ensemble member that
// knows no leader. ZooKeeper then closes the connection. The products first send a reply with
// protocol version 42.
func (s *Server) SetLeaderless(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaderless = on
}

// reject rejects a connect request. ZooKeeper closes the connection; the products first reply
// with protocol version 42 and the session id sid. In RaftKeeper's reply, the session id is that
// of the expired session, or -1 if there is no leader, and the timeout is always -1
// (handleHandshake, sendHandshake). ClickHouse never resumes a session and hence never reports
// one as expired; its reply contains the negotiated timeout (sendHandshake).
func (s *Server) reject(c *conn, sid int64, timeout time.Duration) verdict {
	if _, ok := s.opt.As.product(); !ok {
		return closeNow
	}
	if s.opt.As == RaftKeeper {
		timeout = -time.Millisecond
	}
	return s.withoutSession(c, rejected, sid, timeout)
}

// withoutSession answers a connect request without creating a session, then closes the
// connection.
func (s *Server) withoutSession(c *conn, version int32, sid int64, timeout time.Duration) verdict {
	e := &jute.Encoder{B: make([]byte, 4, 64)}
	e.Int(version, int32(timeout.Milliseconds()))
	e.Long(sid)
	e.Buffer(make([]byte, 16))
	s.stats.reply(c, len(e.B)-4, s.zxid, s.now())
	c.send(finish(e))
	return closeAfterFlush
}

// noSession returns the session id in the reply to a connect request while the product has no
// leader.
func (v Version) noSession() int64 {
	if v == RaftKeeper {
		return -1
	}
	return 0
}

// endWithConnection ends the session of a closed connection if the imitated server ends sessions
// together with their connections.
func (s *Server) endWithConnection(n *session) {
	if s.newSessions() && !s.opt.OldSessionsStay && s.sessions[n.id] == n {
		s.closeSession(n)
	}
}

// writeReadError writes the result of a failed operation of a multiRead. In the products, the
// result has no body, and its header contains the opcode and the error
// (ZooKeeperMultiResponse::writeImpl; ClickHouse#58747).
func (s *Server) writeReadError(e *jute.Encoder, op int32, err code) {
	if _, ok := s.opt.As.product(); ok {
		e.MultiHeader(op, false, int32(err))
		return
	}
	writeError(e, err)
}

// summary returns the output of srvr except its first line, which is the version
// (ServerStatCommand::run).
func (p product) summary(s *Server) string {
	zxid := fmt.Sprintf("0x%x", uint64(s.zxid))
	if p.decimal {
		zxid = fmt.Sprint(s.zxid)
	}
	return fmt.Sprintf("Latency min/avg/max: 0/0/0\nReceived: %d\n%s: %d\nConnections: %d\nOutstanding: 0\nZxid: %s\nMode: standalone\nNode count: %d\n",
		s.stats.received, p.sent, s.stats.sent, len(s.conns), zxid, len(s.tree.nodes)-1)
}

// dump returns the output of the four-letter command dump, which has the same format in both
// products (KeeperStorage::dumpSessionsAndEphemerals).
func (p product) dump(s *Server) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Sessions dump (%d):\n", len(s.sessions))
	for _, id := range s.sessionIDs() {
		fmt.Fprintf(&b, "0x%x\n", uint64(id))
	}
	s.ephemeralsDump(&b)
	return b.String()
}

// fixACL converts the ACL of a request to the ACL that the server stores. Unlike ZooKeeper, the
// products accept an empty ACL (KeeperStorage::fixupACL checks only its entries).
func (v Version) fixACL(list []acl, caller []id) ([]acl, code) {
	if _, ok := v.product(); ok && len(list) == 0 {
		return nil, codeOK
	}
	return fixACL(list, caller)
}

// knownOp reports whether any version of ZooKeeper has a request with this opcode.
func knownOp(op int32) bool {
	_, ok := opNames[op]
	return ok || op == jute.OpAuth || op == jute.OpDeleteContainer || op == jute.OpSASL
}
