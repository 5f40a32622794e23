package sandbox

import "github.com/zksh/zksh/internal/jute"

// Quirks make a server misbehave, as others have been seen to do, for tests of clients.
type Quirks struct {
	NewSessions bool // a reconnect gets another session; the old one ends with its connection
	OldStay     bool // with NewSessions: it ends by its timeout instead
	Deny        bool // a reconnect is answered with its session's id and the timeout -1: it has expired
	MovedParts  bool // a multi fails with SessionMoved in its parts, and the connection stays (ZOOKEEPER-2886)

	// React says what to do with a request, before anything else is. It is called with the
	// server locked.
	React func(op int32) Reaction
}

// Reaction is what becomes of a request: one of these, or the negative code of an error to
// answer with.
type Reaction int32

// Reactions.
const (
	Serve  Reaction = iota
	HangUp          // close the connection without an answer
	Ignore          // never answer
)

// codeMoved is SessionMoved.
const codeMoved code = -118

// react carries out a reaction. It returns false if the request is to be served.
func (s *Server) react(c *conn, xid, op int32) (verdict, bool) {
	if s.opt.React == nil {
		return stay, false
	}
	switch r := s.opt.React(op); {
	case r == HangUp:
		return leave, true
	case r == Ignore:
		return stay, true
	case r < 0:
		c.send(finish(frame(xid, s.zxid, code(r))))
		return stay, true
	}
	return stay, false
}

// newSessions reports whether a reconnect gets another session.
func (s *Server) newSessions() bool {
	p, _ := s.opt.As.product()
	return p.newSessions || s.opt.NewSessions
}

// moved answers the parts of a multi whose session has moved: the first one is to blame.
func moved(e *jute.Encoder, parts int) {
	for i := range parts {
		if i == 0 {
			writeError(e, codeMoved)
		} else {
			writeError(e, codeRuntimeInconsistency)
		}
	}
	e.MultiHeader(-1, true, -1)
}
