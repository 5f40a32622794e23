package wire

import (
	"slices"

	"github.com/zksh/zksh/internal/jute"
)

// A server answers SessionMoved once the session is attached to another server: it will reject
// every write on this connection. It should close the connection, but ZooKeeper 3.4 and 3.5 keep it
// open if the write was a multi, and return the code in the answers to its parts (ZOOKEEPER-2886).
// So zksh ends the connection by itself, and the session continues on the next one.

var errMoved = Fault{Text: "the session has moved to another server"}

// multiError takes the place of the opcode in the answer to a rejected part of a multi.
const multiError = -1

// movedAway reports whether an answer rejects its request because the session has moved. The answer
// to a rejected multi has an error for each part.
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

// moved ends the connection because of an answer to req, which is still pending. A single request
// was rejected as a whole. Of several requests, which are reads, some answers are missing, so they
// all fail. The connection ends before the caller gets the answer, so that nothing else is sent
// on it.
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
