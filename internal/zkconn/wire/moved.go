package wire

import (
	"slices"

	"github.com/zksh/zksh/internal/jute"
)

// A server answers SessionMoved once the session is attached to another server: it will
// reject every write on this connection. Such a server should close the connection.
// ZooKeeper 3.4 and 3.5 keep it open if a multi was rejected, and write the code into the
// answers to its parts (ZOOKEEPER-2886). So zksh ends the connection by itself; the
// session goes on with the next one.

var errMoved = Fault{Text: "the session has moved to another server"}

// multiError stands for the operation of a part of a multi that was rejected.
const multiError = -1

// movedAway reports whether an answer rejects its request because the session has moved. A
// multi that was rejected has an error for the answer to each part.
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

// moved ends the connection over an answer to req, which is pending still. A single request
// was rejected as a whole, whatever its parts say; of several, which are reads, some
// answers are missing. Whoever gets the answer finds the connection gone, so that they
// send nothing else on it.
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
