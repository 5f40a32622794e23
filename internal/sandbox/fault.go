package sandbox

import (
	"slices"

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

// Fault spoils one request, for tests of how clients bear it.
type Fault struct {
	Op     int32 // the opcode it waits for; 0 is any but ping
	Skip   int   // let so many of them pass first
	Action Action
}

// Inject arms a fault. It strikes once; several may be armed, the first that
// fits strikes.
func (s *Server) Inject(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// fault says what is to be done to a request, 0 for nothing.
func (s *Server) fault(op int32) Action {
	for i, f := range s.faults {
		if f.Op != op && (f.Op != 0 || op == jute.OpPing) {
			continue
		}
		if f.Skip--; f.Skip >= 0 {
			continue
		}
		s.faults = slices.Delete(s.faults, i, i+1)
		return f.Action
	}
	return 0
}

// SetSequence makes the next sequential child of a znode carry a number, as if so
// many children had been made. It tells whether there is such a znode.
func (s *Server) SetSequence(path string, number int32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.tree.nodes[path]
	if n != nil {
		n.creates = number
	}
	return n != nil
}
