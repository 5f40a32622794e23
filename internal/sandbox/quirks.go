package sandbox

import "github.com/zksh/zksh/internal/jute"

// Quirks makes a server misbehave, for tests of clients. Each quirk occurs in another server.
type Quirks struct {
	NewSessions       bool // a client that reconnects gets a new session; the old one ends with its connection
	OldSessionsStay   bool // together with NewSessions: the old session ends only after its timeout
	RejectReconnects  bool // a reconnect gets a reply with its session id and timeout -1, as if the session had expired
	MultiSessionMoved bool // each multi fails with SessionMoved in its results; the connection stays open (ZOOKEEPER-2886)

	// React decides how the server handles a request with the given opcode. The server calls
	// it before it executes the request, with mu held. If React is nil, the server executes
	// every request.
	React func(op int32) Reaction
}

// A Reaction says how the server handles a request. It is one of the constants below, or a
// negative error code, with which the server replies.
type Reaction int32

// Values of Reaction.
const (
	Serve  Reaction = iota
	HangUp          // close the connection without a reply
	Ignore          // never reply, but keep the connection open
)

// codeMoved is the code of the error SessionMoved: the session is now on another connection.
const codeMoved code = -118

// react calls Quirks.React and acts on the returned Reaction. It returns false if the server
// should execute the request normally.
func (s *Server) react(c *conn, xid, op int32) (verdict, bool) {
	if s.opt.React == nil {
		return keepOpen, false
	}
	switch r := s.opt.React(op); {
	case r == HangUp:
		return closeAfterFlush, true
	case r == Ignore:
		return keepOpen, true
	case r < 0:
		c.send(finish(frame(xid, s.zxid, code(r))))
		return keepOpen, true
	}
	return keepOpen, false
}

// newSessions reports whether a client that reconnects always gets a new session.
func (s *Server) newSessions() bool {
	p, _ := s.opt.As.product()
	return p.newSessions || s.opt.NewSessions
}

// writeMovedResults writes the results of a multi whose session has moved to another connection:
// SessionMoved for the first operation, and RuntimeInconsistency for the others.
func writeMovedResults(e *jute.Encoder, parts int) {
	for i := range parts {
		if i == 0 {
			writeError(e, codeMoved)
		} else {
			writeError(e, codeRuntimeInconsistency)
		}
	}
	e.MultiHeader(-1, true, -1)
}
