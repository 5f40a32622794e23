package sandbox

import (
	"encoding/binary"

	"github.com/zksh/zksh/internal/jute"
)

// Action is what a Fault does to a request.
type Action int

// The faults a server can be made to show.
const (
	_         Action = iota
	DropReply        // carry the request out, but never answer it
	Hang             // ignore this request and all that follow on its connection
	CutBefore        // cut the connection, the request not carried out
	CutAfter         // carry the request out, then cut the connection without an answer
)

// Fault spoils one request, for tests of how clients and the server bear it.
type Fault struct {
	Op     int32 // the opcode it waits for; 0 is any but ping
	Skip   int   // let so many of them pass first
	Action Action
}

// Inject arms a fault. It strikes once; several may be armed, the latest that
// fits strikes.
func (s *Server) Inject(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	armed, hung, others := true, map[*conn]bool{}, s.carryOut
	s.carryOut = func(c *conn, b []byte) verdict {
		struck := armed && f.fits(b)
		if struck {
			f.Skip--
			struck = f.Skip < 0
			armed = !struck
		}
		switch {
		case hung[c], struck && f.Action == Hang:
			hung[c] = true // not even the session's clock hears of it
			return stay
		case !struck:
			return others(c, b)
		case f.Action == CutBefore:
			return cut
		}
		c.gone = true // nothing is sent
		v := others(c, b)
		c.gone = false
		if f.Action == CutAfter {
			return cut
		}
		return v
	}
}

// fits reports whether a request is one that the fault waits for.
func (f *Fault) fits(b []byte) bool {
	if len(b) < 8 {
		return false
	}
	op := int32(binary.BigEndian.Uint32(b[4:]))
	return op == f.Op || f.Op == 0 && op != jute.OpPing
}
