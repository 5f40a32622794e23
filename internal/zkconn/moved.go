package zkconn

import (
	"slices"

	"github.com/zksh/zksh/internal/jute"
)

// A server answers SessionMoved once the session is attached to another server: it will
// reject every write on this connection. Such a server should close the connection.
// ZooKeeper 3.4 and 3.5 keep it open if a multi was rejected, and write the code into the
// answers to its parts (ZOOKEEPER-2886). So zksh ends the connection by itself; the
// session goes on with the next one.

const errMoved = fault("the session has moved to another server")

// movedAway reports whether an answer rejects its request because the session has moved. A
// multi that was rejected has an error for the answer to each part.
func movedAway(op int32, r reply) bool {
	if r.code != codeOK || op != jute.OpMulti {
		return r.code == SessionMoved
	}
	a := r.answer("")
	for {
		part, last := a.MultiHeader()
		if part != opError || last || a.Err() != nil {
			return false
		}
		if Code(a.Int()) == SessionMoved {
			return true
		}
	}
}

// moved ends the connection over an answer to c, which is pending still. A single request
// was rejected as a whole, whatever its parts say; of several, which are reads, some
// answers are missing. Whoever gets the answer finds the connection gone, so that they
// send nothing else on it.
func (k *frameConn) moved(c *call, r reply) error {
	if c.parts == nil {
		k.mu.Lock()
		if i := slices.Index(k.pending, c); i >= 0 {
			k.pending = slices.Delete(k.pending, i, i+1)
			defer c.end(reply{zxid: r.zxid, code: SessionMoved})
		}
		k.mu.Unlock()
	}
	k.die(errMoved)
	return errMoved
}
