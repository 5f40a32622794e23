package wire

import "github.com/zksh/zksh/internal/jute"

// A server may close the connection after it has rejected a request, either because it does not
// know the request or because it demands credentials. Requests sent in the meantime would be
// lost, with an unknown outcome. So after such a rejection zksh sends only a ping, the probe.
// Once the probe is answered, zksh sends the waiting requests. If the connection ends instead,
// the waiting requests fail as not sent.

// pauseAfter stops the sending of requests, and sends a probe, if the server may close the
// connection after an answer with this error code. The caller must hold mu.
func (k *Conn) pauseAfter(code int32) {
	switch {
	case code != Unimplemented && code != SessionNoAuth:
		return
	case !k.doubt:
		k.doubt, k.probe = true, true
		k.flush()
	}
	k.barred = k.barred || code == SessionNoAuth
}

// pauseAfterPing is like pauseAfter, but for an answer to a ping. The caller must not hold mu.
func (k *Conn) pauseAfterPing(code int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pauseAfter(code)
}

// probeAnswered is called for each answer to a ping. If the ping was the probe, it resumes the
// sending of requests and returns true. The caller must hold mu.
func (k *Conn) probeAnswered() bool {
	if k.probePings == 0 {
		return false
	}
	if k.probePings--; k.probePings > 0 {
		return false
	}
	k.doubt = false
	k.flush()
	return true
}

// probeFrame returns the frame of the probe, which is a ping. The caller must hold mu.
func (k *Conn) probeFrame() []byte {
	k.probe = false
	k.probePings = len(k.pings)
	var e jute.Encoder
	e.Int(8, jute.XidPing, jute.OpPing)
	return e.B
}
