package zkconn

import (
	"bytes"
	"slices"

	"github.com/zksh/zksh/internal/jute"
)

type credential struct {
	scheme string
	auth   []byte // nil: none given
}

// addAuth authenticates the session. A credential that was accepted is kept for
// the next connection.
func addAuth(c credential) op[struct{}] {
	return op[struct{}]{
		code: jute.OpAuth, decode: readNothing,
		encode: func(e *jute.Encoder, _ chroot) {
			e.Int(0)
			e.String(c.scheme)
			e.Buffer(c.auth)
		},
		effect: func(l *link, a *answer) {
			if a.code != OK {
				l.authFailed()
				return
			}
			known := func(o credential) bool { return o.scheme == c.scheme && bytes.Equal(o.auth, c.auth) }
			if !slices.ContainsFunc(l.creds, known) {
				l.creds = append(l.creds, c)
			}
		},
	}
}

// restore makes the requests that give a connection what the one before had:
// credentials, then watches. Called with mu held.
func (l *link) restore() []*call {
	var calls []*call
	for _, c := range l.creds {
		calls = append(calls, bind(l.ctx, l, "", addAuth(c)).call)
	}
	return append(calls, l.watches.with(l.wakes.awaited()).requests(l.ctx, l.lastZxid)...)
}

// authFailed ends the link: a server that refuses credentials drops the
// connection, and would again. Called with mu held.
func (l *link) authFailed() {
	if l.state == StateClosed || l.state == StateAuthFailed {
		return
	}
	l.end(StateAuthFailed)
	l.emit(Event{Type: eventNone, State: eventAuthFailed})
	l.shut()
}
