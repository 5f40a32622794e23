package sandbox

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// fourLetterCommands maps each four-letter command to a function that returns its output. It contains
// the commands that zksh, its tests and other clients send. The output has ZooKeeper's format, but
// contains the sandbox's own values. The caller of the function must hold Server.mu.
var fourLetterCommands = map[string]func(*Server) string{
	"ruok": func(*Server) string { return "imok" },
	"isro": func(*Server) string { return "rw" },
	"srvr": func(s *Server) string { return s.versionLine() + s.summary() },
	"stat": func(s *Server) string {
		return s.versionLine() + "Clients:\n" + s.connLines(false) + "\n" + s.summary() + "\n"
	},
	"cons": func(s *Server) string { return s.connLines(true) + "\n" },
	"dump": (*Server).dump,
	"wchp": (*Server).watchesByPath,
	"mntr": (*Server).monitor,
	"envi": (*Server).environment,
}

// namingCommands are the four-letter commands whose output contains paths.
var namingCommands = []string{"dump", "wchp"}

// fourLetterCommand sends the output of the four-letter command in b to the client, and closes
// the connection.
func (s *Server) fourLetterCommand(c *conn, b []byte) verdict {
	s.stats.received++
	c.stats.received++
	word := string(b)
	text := ""
	if s.opt.OnlySuperuser && slices.Contains(namingCommands, word) {
		text = word + " is not executed because it is not in the whitelist.\n" // as ZooKeeper says it
	} else {
		text = fourLetterCommands[word](s)
	}
	s.stats.sent++
	c.send([]byte(text))
	return closeAfterFlush
}

func (s *Server) versionLine() string {
	name, release := "Zookeeper", s.opt.As.versionText()
	if p, ok := s.opt.product(); ok {
		name, release = p.name, p.release
	}
	return name + " version: " + release + "\n"
}

func (s *Server) summary() string {
	return fmt.Sprintf("Latency min/avg/max: 0/0.0/0\nReceived: %d\nSent: %d\nConnections: %d\nOutstanding: 0\n"+
		"Zxid: 0x%x\nMode: standalone\nNode count: %d\n",
		s.stats.received, s.stats.sent, len(s.conns), uint64(s.zxid), len(s.tree.nodes))
}

// sortedConns returns the connections in conns, sorted by session id.
func sortedConns[V any](conns map[*conn]V) []*conn {
	return slices.SortedFunc(maps.Keys(conns), func(a, b *conn) int {
		return cmp.Or(cmp.Compare(a.sessionID(), b.sessionID()), strings.Compare(a.peer(), b.peer()))
	})
}

func (c *conn) sessionID() int64 {
	if c.sess == nil {
		return 0
	}
	return c.sess.id
}

// peer returns the client's address in Java's format, such as "/127.0.0.1:50000".
func (c *conn) peer() string { return "/" + c.nc.RemoteAddr().String() }

func (c *conn) queued() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return min(len(c.out), 1)
}

func (s *Server) connLines(full bool) string {
	var b strings.Builder
	for _, c := range sortedConns(s.conns) {
		st := &c.stats
		fmt.Fprintf(&b, " %s[%d](queued=%d,recved=%d,sent=%d",
			c.peer(), min(c.sessionID(), 1), c.queued(), st.received, st.sent)
		if full && c.sess != nil {
			fmt.Fprintf(&b, ",sid=0x%x,lop=%s,est=%d,to=%d", uint64(c.sess.id), cmp.Or(st.lastOp, "SESS"),
				st.since.UnixMilli(), c.sess.timeout.Milliseconds())
			fmt.Fprintf(&b, ",lcxid=0x%x,lzxid=0x%x,lresp=%d,llat=0,minlat=0,avglat=0,maxlat=0",
				uint32(st.lastXid), uint64(st.lastZxid), max(st.lastReply.Sub(s.started).Milliseconds(), 0))
		}
		b.WriteString(")\n")
	}
	return b.String()
}

// javaDate is the layout of dates in the output of dump. It is the format of Java's
// Date.toString.
const javaDate = "Mon Jan 02 15:04:05 MST 2006"

func (s *Server) dump() string {
	if p, ok := s.opt.product(); ok {
		return p.dump(s)
	}
	var b strings.Builder
	byEnd := map[time.Time][]int64{}
	for _, id := range s.sessionIDs() {
		end := s.sessions[id].deadline
		byEnd[end] = append(byEnd[end], id)
	}
	fmt.Fprintf(&b, "SessionTracker dump:\nSession Sets (%d)/(%d):\n", len(byEnd), len(s.sessions))
	for _, end := range slices.SortedFunc(maps.Keys(byEnd), time.Time.Compare) {
		fmt.Fprintf(&b, "%d expire at %s:\n", len(byEnd[end]), end.Format(javaDate))
		for _, id := range byEnd[end] {
			fmt.Fprintf(&b, "\t0x%x\n", uint64(id))
		}
	}
	b.WriteString("ephemeral nodes dump:\n")
	s.ephemeralsDump(&b)
	fmt.Fprintf(&b, "Connections dump:\nConnections Sets (%d)/(%d):\n", min(len(s.conns), 1), len(s.conns))
	for _, c := range sortedConns(s.conns) {
		fmt.Fprintf(&b, "\tip: %s sessionId: 0x%x\n", c.peer(), uint64(c.sessionID()))
	}
	return b.String()
}

// ephemeralsDump writes the last part of the output of dump: the ephemeral nodes of each session.
func (s *Server) ephemeralsDump(b *strings.Builder) {
	fmt.Fprintf(b, "Sessions with Ephemerals (%d):\n", len(s.tree.ephemerals))
	for _, id := range slices.Sorted(maps.Keys(s.tree.ephemerals)) {
		fmt.Fprintf(b, "0x%x:\n", uint64(id))
		for _, path := range sortedKeys(s.tree.ephemerals[id]) {
			fmt.Fprintf(b, "\t%s\n", path)
		}
	}
}

// sessionIDs returns the ids of all open sessions, oldest first.
func (s *Server) sessionIDs() []int64 { return slices.Sorted(maps.Keys(s.sessions)) }

// watchesByPath returns the output of the four-letter command wchp. As in ZooKeeper, it contains
// only data watches.
func (s *Server) watchesByPath() string {
	var b strings.Builder
	paths := s.tree.watches[dataWatches].paths
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		fmt.Fprintf(&b, "%s\n", path)
		for _, c := range sortedConns(paths[path]) {
			fmt.Fprintf(&b, "\t0x%x\n", uint64(c.sessionID()))
		}
	}
	return b.String() + "\n"
}

func (s *Server) monitor() string {
	var b strings.Builder
	line := func(key string, value any) { fmt.Fprintf(&b, "zk_%s\t%v\n", key, value) }
	ephemerals := 0
	for _, set := range s.tree.ephemerals {
		ephemerals += len(set)
	}
	line("version", s.opt.As.versionText())
	line("server_state", "standalone")
	line("ephemerals_count", ephemerals)
	line("num_alive_connections", len(s.conns))
	line("avg_latency", "0.0")
	line("min_latency", 0)
	line("max_latency", 0)
	line("outstanding_requests", 0)
	line("znode_count", len(s.tree.nodes))
	line("global_sessions", len(s.sessions))
	line("packets_received", s.stats.received)
	line("packets_sent", s.stats.sent)
	line("watch_count", s.tree.watches[dataWatches].total+s.tree.watches[childWatches].total)
	line("approximate_data_size", s.tree.dataBytes)
	line("uptime", s.now().Sub(s.started).Milliseconds())
	return b.String()
}

func (s *Server) environment() string {
	host, _ := os.Hostname()
	dir, _ := os.Getwd()
	return "Environment:\nzookeeper.version=" + s.opt.As.versionText() + "\nhost.name=" + host +
		"\ngo.version=" + runtime.Version() + "\nos.name=" + runtime.GOOS + "\nos.arch=" + runtime.GOARCH +
		"\nuser.dir=" + dir + "\n"
}

// connStats contains the statistics of one connection for the four-letter command cons.
type connStats struct {
	received, sent   int64
	lastOp           string
	lastXid          int32
	lastZxid         int64
	lastReply, since time.Time
}

// serverStats contains the statistics of the whole server for the four-letter commands srvr, stat
// and mntr.
type serverStats struct{ received, sent int64 }

// opNames maps opcodes to the names of requests in the output of cons. It must contain the
// opcodes of all ZooKeeper versions, because knownOp looks them up here.
var opNames = map[int32]string{
	jute.OpCreate: "CREA", jute.OpCreate2: "CREA", jute.OpCreateTTL: "CREA", jute.OpCreateContainer: "CREA",
	jute.OpDelete: "DELE", jute.OpExists: "EXIS", jute.OpGetData: "GETD", jute.OpSetData: "SETD",
	jute.OpGetACL: "GETA", jute.OpSetACL: "SETA", jute.OpGetChildren: "GETC", jute.OpGetChildren2: "GETC",
	jute.OpSync: "SYNC", jute.OpPing: "PING", jute.OpCheck: "CHEC", jute.OpMulti: "MULT", jute.OpMultiRead: "MLTR",
	jute.OpReconfig: "RECO", jute.OpCheckWatches: "CHKW", jute.OpRemoveWatches: "REMW",
	jute.OpSetWatches: "SETW", jute.OpSetWatches2: "STW2", jute.OpAddWatch: "ADDW", jute.OpWhoAmI: "HOMI",
	jute.OpGetEphemerals: "GETE", jute.OpGetAllChildrenNumber: "GETACN", jute.OpCloseSession: "CLOS",
}

// request counts a request from the client c in the statistics of the server and of the connection.
func (st *serverStats) request(c *conn, op, xid int32) {
	st.received++
	c.stats.received++
	if name, ok := opNames[op]; ok {
		c.stats.lastOp = name
		if xid >= 0 {
			c.stats.lastXid = xid
		}
	}
}

// reply counts a reply to the client c in the statistics of the server and of the connection.
func (st *serverStats) reply(c *conn, zxid int64, now time.Time) {
	st.sent++
	c.stats.sent++
	c.stats.lastZxid = zxid
	c.stats.lastReply = now
}
