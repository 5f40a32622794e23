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

// moved ends the connection after the answer r to the pending request req has reported
// SessionMoved. A single request ends with that code. A Request that consists of several reads
// still lacks some answers, so all of its reads fail with the connection. The connection ends
// before req.End is called, so that the caller can send nothing else on it.
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
