package sandbox

import "time"

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

// opNames are the names cons has for requests.
var opNames = map[int32]string{
	opCreate: "CREA", opCreate2: "CREA", opCreateTTL: "CREA", opCreateContainer: "CREA",
	opDelete: "DELE", opExists: "EXIS", opGetData: "GETD", opSetData: "SETD",
	opGetACL: "GETA", opSetACL: "SETA", opGetChildren: "GETC", opGetChildren2: "GETC",
	opSync: "SYNC", opPing: "PING", opCheck: "CHEC", opMulti: "MULT", opMultiRead: "MLTR",
	opReconfig: "RECO", opCheckWatches: "CHKW", opRemoveWatches: "REMW",
	opSetWatches: "SETW", opSetWatches2: "STW2", opAddWatch: "ADDW", opWhoAmI: "HOMI",
	opGetEphemerals: "GETE", opGetAllChildrenNum: "GETACN", opCloseSession: "CLOS",
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
