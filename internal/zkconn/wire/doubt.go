package wire

import "github.com/zksh/zksh/internal/jute"

// A server may close the connection after it has rejected a request that it does not know, or one
// for which it demands credentials. Requests sent in the meantime would be lost, with an unknown
// outcome. So after such a rejection the connection sends only a ping. Once the ping is answered,
// it sends the waiting requests. If the connection ends instead, they end as not sent.

// doubtful holds requests back if the server may close the connection after an answer with this
// code. Called with mu held.
func (k *Conn) doubtful(code int32) {
	switch {
	case code != Unimplemented && code != SessionNoAuth:
		return
	case !k.doubt:
		k.doubt, k.probe = true, true
		k.flush()
	}
	k.barred = k.barred || code == SessionNoAuth
}

// refused is doubtful for callers that do not hold mu.
func (k *Conn) refused(code int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.doubtful(code)
}

// probeAnswered counts the answer to a ping. It reports whether it was the probe's, so that
// requests are sent again. Called with mu held.
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

// ping returns the frame of the probe. Called with mu held.
func (k *Conn) ping() []byte {
	k.probe = false
	k.probePings = len(k.pings)
	var e jute.Encoder
	e.Int(8, jute.XidPing, jute.OpPing)
	return e.B
}
