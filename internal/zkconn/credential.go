package zkconn

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn/wire"
)

// A Credential authenticates a session in one of ZooKeeper's schemes.
type Credential struct {
	Scheme string
	Auth   []byte // secret, in the format of the scheme; nil is sent as a null value
}

func (c Credential) is(o Credential) bool { return o.Scheme == c.Scheme && bytes.Equal(o.Auth, c.Auth) }

// refused returns the error for a credential of the given scheme that the server rejected. The
// rejection ended the session, and the server did not carry out any later request.
func refused(scheme string) error {
	return fmt.Errorf("%w: the server rejected the credentials of scheme %q and ended the session; to start another session, run: connect",
		AuthFailed, scheme)
}

// addAuth returns the operation that authenticates the session with c. If the server accepts c,
// the link saves it and sends it again on each new connection.
func addAuth(c Credential) Op[struct{}] {
	return Op[struct{}]{decode: (*answer).nothing, operation: operation{
		code: jute.OpAuth,
		encode: func(e *jute.Encoder, _ chroot) {
			e.Int(0)
			e.String(c.Scheme)
			e.Buffer(c.Auth)
		},
		effect: func(l *link, a *answer) {
			l.mu.Lock()
			known := slices.ContainsFunc(l.creds, c.is)
			if a.code == codeOK && !known {
				l.creds = append(l.creds, c)
			}
			l.mu.Unlock()
			if a.code == codeOK {
				return
			}
			end := wire.Ending{AuthFailed: true} // the server closes this connection, and would also close the next one
			if known {                           // the request was sent by restore, so no caller gets the error
				end.Why = refused(c.Scheme)
			}
			l.wire.Fail(end)
		},
	}}
}
