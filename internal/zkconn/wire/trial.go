package wire

import (
	"errors"
	"io"

	"github.com/zksh/zksh/internal/peer"
)

// Some servers other than ZooKeeper close the connection, without an answer, over a request that
// they do not know. Some of them also end the session; others never answer. So the first request
// of each kind that is newer than ZooKeeper 3.4 is a trial: a connection sends it when all earlier
// requests have been answered, and sends nothing more until it is answered, too. If the connection
// ends then, no other request is lost, and it is clear which one caused the hang-up.

// sendable returns how many requests of the queue can be sent now: those before a trial, or the
// trial alone. Called with mu held.
func (k *Conn) sendable() int {
	if k.trial != nil {
		return 0
	}
	for i, req := range k.queue {
		switch {
		case req.Newer == 0 || k.passed[req.Newer]:
		case i == 0 && len(k.pending) == 0:
			return 1
		default:
			return i
		}
	}
	return len(k.queue)
}

// noteTrial records a request that is about to be sent, if it is a trial. Called with mu held.
func (k *Conn) noteTrial(req *Request) {
	if req.Newer != 0 && !k.passed[req.Newer] {
		k.trial = req
	}
}

// endTrial records the answer to a request, if it is the trial, and sends the waiting requests.
func (k *Conn) endTrial(req *Request, code int32) {
	k.mu.Lock()
	passed := req == k.trial && code != Unimplemented
	if req == k.trial {
		k.trial = nil
	}
	if passed {
		k.passed[req.Newer] = true
	}
	k.flush()
	k.mu.Unlock()
	if passed {
		k.l.handler.Passed(req.Newer)
	}
}

// Passed reports whether the server has answered a request with this opcode with anything but
// Unimplemented.
func (k *Conn) Passed(op int32) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.passed[op]
}

// lostTrial returns the trial if it is the only request without an answer, and the server hung up
// or answered only pings until the connection was given up. Otherwise it returns nil. Called with
// mu held.
func (k *Conn) lostTrial(cause error) *Request {
	fault, _ := errors.AsType[Fault](cause)
	hungUp := errors.Is(cause, io.EOF) || errors.Is(cause, io.ErrUnexpectedEOF) || peer.Cut(cause) || fault.Silent
	if k.trial == nil || k.barred || !hungUp || len(k.pending) != 1 || k.pending[0] != k.trial {
		return nil
	}
	return k.trial
}
