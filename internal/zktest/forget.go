package zktest

import "encoding/binary"

// Forget makes the proxy change all later connect requests so that they ask for a new session. A
// client that reconnects then gets a new session, and its old session expires after its timeout.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newSessions = true
}

// Position of the session id in a connect request. It follows the length of the frame, the
// protocol version, the zxid and the timeout.
const (
	sessionIDStart = 4 + 4 + 8 + 4
	sessionIDEnd   = sessionIDStart + 8
)

// clearSession sets the session id in a connect request to 0 if Forget has been called. first
// contains the first bytes from a client. If they are not a complete frame, clearSession does not
// change them, because they may be a four-letter command.
func (p *Proxy) clearSession(first []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.newSessions && len(first) >= sessionIDEnd && int(binary.BigEndian.Uint32(first)) == len(first)-4 {
		clear(first[sessionIDStart:sessionIDEnd])
	}
}
