package sandbox

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// A Product is a server other than ZooKeeper that speaks ZooKeeper's protocol. Tests make a sandbox
// imitate it; see Quirks.Product.
type Product string

// The products that a sandbox can imitate.
const (
	ClickHouse Product = "clickhouse"
	RaftKeeper Product = "raftkeeper"
)

// Products returns the products that a sandbox can imitate.
func Products() []Product { return []Product{ClickHouse, RaftKeeper} }

// A product describes those differences between a product and ZooKeeper 3.4 that a client must
// survive. In all other respects, the sandbox behaves like ZooKeeper 3.4. The facts are from the
// source code of ClickHouse and RaftKeeper as of November 2026.
type product struct {
	name    string // name in the first line of srvr's output; see FourLetterCommand.cpp
	release string // version in the first line of srvr's output

	// opcodes lists the opcodes newer than ZooKeeper 3.4 that the product supports. After a request
	// with any other newer opcode, it closes the connection without a reply.
	//
	// In ClickHouse, KeeperTCPHandler::receiveRequest throws an exception, which ends runImpl.
	// ClickHouse supports the opcodes 15, 17 to 19, 21, 101, 105 and 106 only since recently, and
	// the sandbox imitates an older release. RaftKeeper lists its opcodes in OpNum
	// (ZooKeeperConstants.h). In its releases, ConnectionHandler.cpp logs the exception and never
	// replies.
	opcodes     []int32
	unsupported []int32 // opcodes of ZooKeeper 3.4 that the product does not support

	// newSessions means that a client gets a new session on every connection. A session ends
	// together with its connection, so a client cannot resume it after a reconnect. See
	// KeeperTCPHandler::receiveHandshake ("We don't support session restore") and finishSession in
	// ClickHouse.
	newSessions bool
}

// productBase is the version of ZooKeeper from which the products differ.
const productBase Version = "3.4"

var products = map[Product]product{
	ClickHouse: {
		name: "ClickHouse Keeper", release: "v24.3.1.1-zksh-sandbox",
		opcodes:     []int32{jute.OpReconfig, jute.OpMultiRead},
		unsupported: []int32{jute.OpSASL, jute.OpSetWatches}, newSessions: true,
	},
	RaftKeeper: {
		name: "RaftKeeper", release: "RaftKeeper 2.1.0-zksh-sandbox",
		opcodes:     []int32{jute.OpRemoveWatches, jute.OpMultiRead, jute.OpAddWatch},
		unsupported: []int32{jute.OpSASL},
	},
}

// product returns the description of the product that the server imitates. It returns false if the
// server imitates ZooKeeper.
func (o *Options) product() (product, bool) {
	p, ok := products[o.Product]
	return p, ok
}

func (p product) knows(op int32) bool {
	_, newer := opSince[op]
	return !slices.Contains(p.unsupported, op) && (!newer || slices.Contains(p.opcodes, op))
}

const (
	// rejected is the protocol version with which ClickHouse and RaftKeeper reject a connect
	// request (KEEPER_PROTOCOL_VERSION_CONNECTION_REJECT).
	rejected = 42

	keeperPath     = "/keeper"
	apiVersionPath = "/keeper/api_version"
	apiVersion     = "2" // means WITH_MULTI_READ; see KeeperConstants.h and KeeperCommon.h
)

// systemNodes returns the paths of the znodes that exist before clients create any. data contains
// the data of those that have data. Instead of /zookeeper, ClickHouse and RaftKeeper have the
// system node /keeper. See keeper_api_version_path.
func (o *Options) systemNodes() (paths []string, data map[string]string) {
	if _, ok := o.product(); ok {
		return []string{keeperPath, apiVersionPath}, map[string]string{apiVersionPath: apiVersion}
	}
	paths = []string{zkPath, quotaPath}
	if o.As.has(configNode) {
		paths = append(paths, configPath)
	}
	return paths, nil
}

// reserved reports whether clients must not create or delete the znode at path. ClickHouse and
// RaftKeeper reserve /keeper and its descendants. See KeeperStorage in ClickHouse.
func (o *Options) reserved(path string) bool {
	_, ok := o.product()
	return ok && (path == keeperPath || strings.HasPrefix(path, keeperPath+"/"))
}

// SetLeaderless sets whether the server behaves like an ensemble member that knows no leader: it
// rejects connect requests. ZooKeeper closes the connection without a reply. ClickHouse and
// RaftKeeper first reply with protocol version 42.
func (s *Server) SetLeaderless(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaderless = on
}

// reject rejects a connect request. ZooKeeper closes the connection without a reply. ClickHouse
// and RaftKeeper first reply with protocol version 42.
//
// In RaftKeeper's reply, the session id is that of the expired session, or -1 if there is no
// leader, and the timeout is always -1. ClickHouse never resumes sessions, so it never reports
// that one has expired. Its reply contains the negotiated timeout. See handleHandshake and
// sendHandshake.
func (s *Server) reject(c *conn, sid int64, timeout time.Duration) verdict {
	if _, ok := s.opt.product(); !ok {
		return closeNow
	}
	if s.opt.Product == RaftKeeper {
		timeout = -time.Millisecond
	}
	return s.withoutSession(c, rejected, sid, timeout)
}

// withoutSession replies to a connect request without creating a session, and closes the
// connection.
func (s *Server) withoutSession(c *conn, version int32, sid int64, timeout time.Duration) verdict {
	e := &jute.Encoder{B: make([]byte, 4, 64)}
	e.Int(version, int32(timeout.Milliseconds()))
	e.Long(sid)
	e.Buffer(make([]byte, 16))
	s.stats.reply(c, s.zxid, s.now())
	c.send(finish(e))
	return closeAfterFlush
}

// noSession returns the session id in connect replies of a product that has no leader.
func (o *Options) noSession() int64 {
	if o.Product == RaftKeeper {
		return -1
	}
	return 0
}

// endWithConnection is called when the connection of session n has been closed. It ends the
// session if the imitated server ends sessions together with their connections.
func (s *Server) endWithConnection(n *session) {
	if s.newSessions() && !s.opt.OldSessionsStay && s.sessions[n.id] == n {
		s.closeSession(n)
	}
}

// writeReadError writes the result of a failed operation in a multiRead. In ClickHouse and
// RaftKeeper, such a result has no body, and its header contains the opcode and the error. See
// ZooKeeperMultiResponse::writeImpl, and issue 58747 of ClickHouse.
func (s *Server) writeReadError(e *jute.Encoder, op int32, err code) {
	if _, ok := s.opt.product(); ok {
		e.MultiHeader(op, false, int32(err))
		return
	}
	writeError(e, err)
}

// dump returns the output of the four-letter command dump. Its format is the same in ClickHouse and
// RaftKeeper. See KeeperStorage::dumpSessionsAndEphemerals.
func (p product) dump(s *Server) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Sessions dump (%d):\n", len(s.sessions))
	for _, id := range s.sessionIDs() {
		fmt.Fprintf(&b, "0x%x\n", uint64(id))
	}
	s.ephemeralsDump(&b)
	return b.String()
}

// knownOp reports whether this opcode exists in any version of ZooKeeper.
func knownOp(op int32) bool {
	_, ok := opNames[op]
	return ok || op == jute.OpAuth || op == jute.OpDeleteContainer || op == jute.OpSASL
}
