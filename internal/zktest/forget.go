package zktest

import "encoding/binary"

// Forget makes each later connect request ask for a new session, as if the server could not
// resume any: a client that asks for its session gets another one. The server ends the old
// session after its timeout.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newSessions = true
}

// Position of the session id in a connect request: after its length, the protocol version,
// the zxid and the timeout.
const (
	sessionIDStart = 4 + 4 + 8 + 4
	sessionIDEnd   = sessionIDStart + 8
)

// clearSession clears the session id of a connect request after Forget has been called. It
// ignores bytes that are not a complete frame, such as a four-letter command.
func (p *Proxy) clearSession(first []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.newSessions && len(first) >= sessionIDEnd && int(binary.BigEndian.Uint32(first)) == len(first)-4 {
		clear(first[sessionIDStart:sessionIDEnd])
	}
}
