package zkconn

import "github.com/zksh/zksh/internal/jute"

// Some refusals are the last that a server says on a connection: it hangs up over a
// request that it does not know, and over one from whom it wants credentials of. But
// not each such refusal ends that way. What is sent meanwhile would be lost, and its
// outcome unknown, so after such an answer nothing is sent but a ping: its answer
// tells that the connection stays, else its end lets the requests go elsewhere.

// doubtful holds requests back if an answer may be the connection's last. Called with
// mu held.
func (k *frameConn) doubtful(code Code) {
	switch {
	case code != Unimplemented && code != sessionNoAuth:
		return
	case !k.doubt:
		k.doubt, k.probe = true, true
		k.flush()
	}
	k.barred = k.barred || code == sessionNoAuth
}

// refused is doubtful for who does not have mu.
func (k *frameConn) refused(code Code) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.doubtful(code)
}

// sound takes note of the answer to a ping. It is true if requests may go on with it.
// Called with mu held.
func (k *frameConn) sound() bool {
	if k.until == 0 {
		return false
	}
	if k.until--; k.until > 0 {
		return false
	}
	k.doubt = false
	k.flush()
	return true
}

// ping is the frame that asks whether the connection stays. Called with mu held.
func (k *frameConn) ping() []byte {
	k.probe = false
	k.until = len(k.pings)
	var e jute.Encoder
	e.Int(8, jute.XidPing, jute.OpPing)
	return e.B
}
