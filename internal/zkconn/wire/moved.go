package wire

import (
	"slices"

	"github.com/zksh/zksh/internal/jute"
)

// errMoved ends a connection whose session has moved to another server. In this state, the server
// rejects every write with the code SessionMoved. It should also close the connection. But after a
// multi, ZooKeeper 3.4 and 3.5 keep the connection open, and return the code in the answer to each
// operation (ZOOKEEPER-2886). Therefore zksh ends the connection itself.
var errMoved = Fault{Text: "the session has moved to another server"}

// multiError takes the place of the opcode in the answer to a rejected operation of a multi.
const multiError = -1

// movedAway reports whether the reply r rejects a request because the session has moved. The
// reply to a rejected multi contains an error code for each operation.
func movedAway(op int32, r Reply) bool {
	if r.Code != OK || op != jute.OpMulti {
		return r.Code == SessionMoved
	}
	a := jute.NewDecoder(r.Body)
	for {
		part, last := a.MultiHeader()
		if part != multiError || last || a.Err() != nil {
			return false
		}
		if a.Int() == SessionMoved {
			return true
		}
	}
}

// moved ends the connection because the answer r to the pending request req has the code
// SessionMoved. A single request gets that code as its reply. If req consists of several requests,
// which are always reads, all of them fail with the connection, because some answers are still
// missing. The connection ends before the caller gets the reply, so that nothing else is sent on
// it.
func (k *Conn) moved(req *Request, r Reply) error {
	if req.parts == nil {
		k.mu.Lock()
		if i := slices.Index(k.pending, req); i >= 0 {
			k.pending = slices.Delete(k.pending, i, i+1)
			defer req.End(Reply{Zxid: r.Zxid, Code: SessionMoved})
		}
		k.mu.Unlock()
	}
	k.die(errMoved)
	return errMoved
}
