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
	Auth   []byte // nil is sent as null
}

func (c Credential) is(o Credential) bool { return o.Scheme == c.Scheme && bytes.Equal(o.Auth, c.Auth) }

// refused returns the error of a credential that the server rejected, which ended the session.
// Later requests were not carried out.
func refused(scheme string) error {
	return fmt.Errorf("%w: the server rejected the credentials of scheme %q and ended the session; to start another session, run: connect",
		AuthFailed, scheme)
}

// addAuth authenticates the session. It keeps an accepted credential for the next connection.
func addAuth(c Credential) Op[struct{}] {
	return Op[struct{}]{
		code: jute.OpAuth, decode: (*answer).nothing,
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
			end := wire.Ending{AuthFailed: true} // the server drops the connection, and would do so again
			if known {                           // sent by restore, so no caller gets the error
				end.Why = refused(c.Scheme)
			}
			l.wire.Fail(end)
		},
	}
}
