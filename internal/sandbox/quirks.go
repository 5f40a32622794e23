package sandbox

import "github.com/zksh/zksh/internal/jute"

// Quirks make a server misbehave, for tests of clients. Each has been seen in another server.
type Quirks struct {
	NewSessions       bool // a client that reconnects gets a new session; the old one ends with its connection
	OldSessionsStay   bool // with NewSessions: the old session ends only after its timeout
	RejectReconnects  bool // reply to a reconnect with its session id and timeout -1: the session has expired
	MultiSessionMoved bool // each multi fails with SessionMoved in its results; the connection stays open (ZOOKEEPER-2886)

	// React decides whether a request is executed. It is called with the opcode before
	// anything else happens, with the server locked. It may be nil.
	React func(op int32) Reaction
}

// A Reaction is the handling of a request: one of the constants below, or the negative code
// of the error to answer with.
type Reaction int32

// Values of Reaction.
const (
	Serve  Reaction = iota
	HangUp          // close the connection without an answer
	Ignore          // never answer
)

// codeMoved is the error SessionMoved.
const codeMoved code = -118

// react calls Quirks.React and does what it returns. The result is false if the request
// should be executed normally.
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

// newSessions reports whether a client that reconnects gets a new session.
func (s *Server) newSessions() bool {
	p, _ := s.opt.As.product()
	return p.newSessions || s.opt.NewSessions
}

// writeMovedResults writes the results of a multi whose session has moved: SessionMoved for
// the first operation, RuntimeInconsistency for the others.
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
