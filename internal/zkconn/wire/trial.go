package wire

import (
	"errors"
	"io"

	"github.com/zksh/zksh/internal/peer"
)

// When some servers other than ZooKeeper receive a request that they do not know, they close the
// connection without an answer. Some of them also end the session, and others never answer. So
// the first request of each kind that is newer than ZooKeeper 3.4 is a trial. A connection sends
// a trial when all earlier requests have been answered, and sends nothing more until the trial is
// answered. If the connection ends in between, no other request is lost, and it is clear which
// request was the cause.

// sendable returns how many requests at the front of the queue can be sent now. A trial is sent
// alone: after all earlier requests have been answered, and before any later request. The caller
// must hold mu.
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

// noteTrial is called for each request that is about to be sent, and records it if it is a trial.
// The caller must hold mu.
func (k *Conn) noteTrial(req *Request) {
	if req.Newer != 0 && !k.passed[req.Newer] {
		k.trial = req
	}
}

// endTrial is called when the request req has been answered with the error code code. If req is the
// trial, endTrial records the result and sends the waiting requests.
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

// lostTrial returns the trial if the trial probably caused the end of the connection, and nil
// otherwise. A trial is the probable cause if no other request is unanswered, and the server closed
// the connection or answered only pings. cause is the error that ended the connection. The caller
// must hold mu.
func (k *Conn) lostTrial(cause error) *Request {
	fault, _ := errors.AsType[Fault](cause)
	hungUp := errors.Is(cause, io.EOF) || errors.Is(cause, io.ErrUnexpectedEOF) || peer.Cut(cause) || fault.Silent
	if k.trial == nil || k.barred || !hungUp || len(k.pending) != 1 || k.pending[0] != k.trial {
		return nil
	}
	return k.trial
}
