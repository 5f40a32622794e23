package zktest

import "encoding/binary"

// Forget makes the proxy change each later connect request so that it asks for a new session. A
// client that tries to resume its session gets a new one, as if the server could not resume
// sessions. The old session expires after its timeout.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newSessions = true
}

// Position of the session id in a connect request: it follows the length of the frame, the
// protocol version, the zxid and the timeout.
const (
	sessionIDStart = 4 + 4 + 8 + 4
	sessionIDEnd   = sessionIDStart + 8
)

// clearSession sets the session id in a connect request to 0 if Forget has been called. The
// argument first is the first data of a connection. If it is not a complete frame, such as a
// four-letter command, clearSession does not change it.
func (p *Proxy) clearSession(first []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.newSessions && len(first) >= sessionIDEnd && int(binary.BigEndian.Uint32(first)) == len(first)-4 {
		clear(first[sessionIDStart:sessionIDEnd])
	}
}
