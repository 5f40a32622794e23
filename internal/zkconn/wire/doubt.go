package wire

import "github.com/zksh/zksh/internal/jute"

// A server may close the connection after it has rejected a request: one that it does not
// know, or one of a client from which it wants credentials. Requests that are sent meanwhile
// would be lost, and their outcome unknown. So after such a rejection the connection sends a
// ping and nothing else. With the answer to the ping it goes on; if the connection ends, the
// requests that wait go to another one.

// doubtful holds requests back if an answer may be the connection's last. Called with
// mu held.
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

// refused is doubtful for who does not have mu.
func (k *Conn) refused(code int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.doubtful(code)
}

// sound takes note of the answer to a ping. It is true if requests may go on with it.
// Called with mu held.
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

// ping is the frame that asks whether the connection stays. Called with mu held.
func (k *Conn) ping() []byte {
	k.probe = false
	k.probePings = len(k.pings)
	var e jute.Encoder
	e.Int(8, jute.XidPing, jute.OpPing)
	return e.B
}
