package zkconn

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn/wire"
)

// Credential authenticates a session by one of ZooKeeper's schemes.
type Credential struct {
	Scheme string
	Auth   []byte // nil: none given
}

func (c Credential) is(o Credential) bool { return o.Scheme == c.Scheme && bytes.Equal(o.Auth, c.Auth) }

// refused is the error of a credential that the server did not accept, which ends
// the session. What was asked for behind the credential was not carried out.
func refused(scheme string) error {
	return fmt.Errorf("%w: the server rejected the credentials of scheme %q and ended the session; to start another session, run: connect",
		AuthFailed, scheme)
}

// addAuth authenticates the session. A credential that was accepted is kept for
// the next connection.
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
			end := wire.Ending{AuthFailed: true} // a server that rejects credentials drops the connection, and would again
			if known {                           // sent by restore, so that nobody has its answer
				end.Why = refused(c.Scheme)
			}
			l.wire.Fail(end)
		},
	}
}
