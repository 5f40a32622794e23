package zktest

import "encoding/binary"

// Forget makes the proxy change all later connect requests so that they ask for a new session.
// Hence a client that reconnects gets a new session instead of its old one, which expires after
// its timeout.
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
// contains the first bytes from a client. If they are not a complete frame, but for example a
// four-letter command, clearSession does not change them.
func (p *Proxy) clearSession(first []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.newSessions && len(first) >= sessionIDEnd && int(binary.BigEndian.Uint32(first)) == len(first)-4 {
		clear(first[sessionIDStart:sessionIDEnd])
	}
}
