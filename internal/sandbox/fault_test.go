package sandbox

import (
	"encoding/binary"

	"github.com/zksh/zksh/internal/jute"
)

// An Action is the effect of a Fault on a request.
type Action int

// The possible actions.
const (
	_         Action = iota
	DropReply        // execute the request, but never answer it
	Hang             // ignore this request and all later ones on its connection
	CutBefore        // close the connection without executing the request
	CutAfter         // execute the request, then close the connection without a reply
)

// A Fault makes the server mishandle one request, for tests.
type Fault struct {
	Op     int32 // opcode of the request; 0 means any but ping
	Skip   int   // number of matching requests to handle normally first
	Action Action
}

// Inject adds a fault, which happens once. If several faults match a request, the one
// that was injected last happens.
func (s *Server) Inject(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	armed, hung, next := true, map[*conn]bool{}, s.handler
	s.handler = func(c *conn, b []byte) verdict {
		struck := armed && f.matches(b)
		if struck {
			f.Skip--
			struck = f.Skip < 0
			armed = !struck
		}
		switch {
		case hung[c], struck && f.Action == Hang:
			hung[c] = true // the session's deadline is not extended either
			return keepOpen
		case !struck:
			return next(c, b)
		case f.Action == CutBefore:
			return closeNow
		}
		c.gone = true // makes send drop the reply
		v := next(c, b)
		c.gone = false
		if f.Action == CutAfter {
			return closeNow
		}
		return v
	}
}

// matches reports whether the fault applies to a request.
func (f *Fault) matches(b []byte) bool {
	if len(b) < 8 {
		return false
	}
	op := int32(binary.BigEndian.Uint32(b[4:]))
	return op == f.Op || f.Op == 0 && op != jute.OpPing
}
