package zktest

import "encoding/binary"

// Forget makes each later connect request ask for a new session, as if the server restored
// none: the client asks for its session and is answered with another one. The server ends
// the old session when its timeout is over.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgets = true
}

// Where a connect request has the session's id: behind its length, the version, the zxid
// and the timeout.
const (
	idBegin = 4 + 4 + 8 + 4
	idEnd   = idBegin + 8
)

// forgetSession changes a connect request if it is to ask for a new session. What is not a
// frame of its length, as a four-letter command, stays as it is.
func (p *Proxy) forgetSession(first []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.forgets && len(first) >= idEnd && int(binary.BigEndian.Uint32(first)) == len(first)-4 {
		clear(first[idBegin:idEnd])
	}
}
