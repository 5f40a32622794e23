package sandbox

import (
	"fmt"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// connStats is what cons tells of one connection.
type connStats struct {
	received, sent   int64
	lastOp           string
	lastXid          int32
	lastZxid         int64
	lastReply, since time.Time
}

// serverStats is what srvr, stat and mntr tell of the server.
type serverStats struct {
	received, sent       int64
	bytesIn              int64
	lastReply            int // bytes; -1 before the first
	minReply, maxReply   int
	rejected, authFailed int64
	expired              int64
}

// spread is what mntr tells of a number that was measured again and again.
type spread struct{ count, sum, least, most int }

func (s *spread) add(n int) {
	if s.count == 0 || n < s.least {
		s.least = n
	}
	s.most = max(s.most, n)
	s.count++
	s.sum += n
}

// lines gives the real one's five names for a spread.
func (s spread) lines(name string, line func(key string, value any)) {
	average := 0.0
	if s.count > 0 {
		average = float64(s.sum) / float64(s.count)
	}
	line("avg_"+name, fmt.Sprintf("%.1f", average))
	line("min_"+name, s.least)
	line("max_"+name, s.most)
	line("cnt_"+name, s.count)
	line("sum_"+name, s.sum)
}

// watchCounts are the names of how many watchers an event has had.
var watchCounts = [...]string{
	eventNodeCreated: "node_created_watch_count", eventNodeDeleted: "node_deleted_watch_count",
	eventNodeDataChanged: "node_changed_watch_count", eventNodeChildrenChanged: "node_children_watch_count",
}

// opNames are the names cons has for requests.
var opNames = map[int32]string{
	jute.OpCreate: "CREA", jute.OpCreate2: "CREA", jute.OpCreateTTL: "CREA", jute.OpCreateContainer: "CREA",
	jute.OpDelete: "DELE", jute.OpExists: "EXIS", jute.OpGetData: "GETD", jute.OpSetData: "SETD",
	jute.OpGetACL: "GETA", jute.OpSetACL: "SETA", jute.OpGetChildren: "GETC", jute.OpGetChildren2: "GETC",
	jute.OpSync: "SYNC", jute.OpPing: "PING", jute.OpCheck: "CHEC", jute.OpMulti: "MULT", jute.OpMultiRead: "MLTR",
	jute.OpReconfig: "RECO", jute.OpCheckWatches: "CHKW", jute.OpRemoveWatches: "REMW",
	jute.OpSetWatches: "SETW", jute.OpSetWatches2: "STW2", jute.OpAddWatch: "ADDW", jute.OpWhoAmI: "HOMI",
	jute.OpGetEphemerals: "GETE", jute.OpGetAllChildrenNumber: "GETACN", jute.OpCloseSession: "CLOS",
}

// request counts a request in.
func (st *serverStats) request(c *conn, op, xid int32, size int) {
	st.received++
	st.bytesIn += int64(size)
	c.stats.received++
	if name, ok := opNames[op]; ok {
		c.stats.lastOp = name
		if xid >= 0 {
			c.stats.lastXid = xid
		}
	}
}

// reply counts a reply out.
func (st *serverStats) reply(c *conn, size int, zxid int64, now time.Time) {
	st.sent++
	c.stats.sent++
	c.stats.lastZxid = zxid
	c.stats.lastReply = now
	st.lastReply = size
	st.maxReply = max(st.maxReply, size)
	if st.minReply < 0 || size < st.minReply {
		st.minReply = size
	}
}
