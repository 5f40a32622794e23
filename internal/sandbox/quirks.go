package sandbox

import "github.com/zksh/zksh/internal/jute"

// Quirks contains ways in which a sandbox deviates from ZooKeeper, to test clients. Each deviation
// occurs in a real server.
type Quirks struct {
	// Product makes the server behave like a product other than ZooKeeper. Options.As then has no
	// effect.
	Product Product
	// NewSessions gives a new session to a client that reconnects. Its old session ends together
	// with the old connection.
	NewSessions bool
	// OldSessionsStay, together with NewSessions, keeps the old session until its timeout.
	OldSessionsStay bool
	// RejectReconnects replies to a reconnect with the session id and timeout -1, as if the session
	// had expired.
	RejectReconnects bool
	// MultiSessionMoved makes each multi fail with SessionMoved in its results, but keeps the
	// connection open (ZOOKEEPER-2886).
	MultiSessionMoved bool

	// React decides how the server handles a request with the given opcode. The server calls it
	// with mu held, before it executes the request. If React is nil, the server executes all
	// requests normally.
	React func(op int32) Reaction
}

// A Reaction is how the server handles a request. It is one of the constants below, or a negative
// error code for the reply.
type Reaction int32

// Reactions of the server to a request.
const (
	Serve  Reaction = iota
	HangUp          // close the connection without a reply
	Ignore          // never reply, but keep the connection open
)

// codeMoved is the error code of SessionMoved: the client has resumed the session on another
// connection.
const codeMoved code = -118

// react applies the Reaction that Quirks.React returns for a request. It returns false if the
// server should execute the request normally.
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

// newSessions reports whether a client that reconnects gets a new session instead of its old one.
func (s *Server) newSessions() bool {
	p, _ := s.opt.product()
	return p.newSessions || s.opt.NewSessions
}

// writeMovedResults writes the results of a multi that failed because its session has moved to
// another connection. The first operation gets SessionMoved, and the others get
// RuntimeInconsistency.
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
