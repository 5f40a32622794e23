package wire

import (
	"errors"
	"io"

	"github.com/zksh/zksh/internal/peer"
)

// Some servers that are not ZooKeeper close the connection over a request that they do not
// know, without an answer, and some end the session with it; others never answer it. So the
// first request of each kind that is newer than ZooKeeper 3.4 is a trial: a connection sends
// it when all requests before it have been answered, and sends nothing more until it is
// answered, too. If the connection ends then, no other request is lost, and it is clear over
// which one the server hung up.

// sendable is how many requests of the queue can be sent now: those before a trial, or the
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

// begins takes note of a request that is being sent, in case it is a trial. Called with mu held.
func (k *Conn) noteTrial(req *Request) {
	if req.Newer != 0 && !k.passed[req.Newer] {
		k.trial = req
	}
}

// tried takes note of a request that was answered, and sends what has waited for that.
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

// Passed reports whether the server has carried out a request of this kind, or refused it
// without hanging up.
func (k *Conn) Passed(op int32) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.passed[op]
}

// lostTrial is the one request without an answer, if that is a trial and the server hung up
// over it, or answered pings alone until the connection was given up; else nil. Called with
// mu held.
func (k *Conn) lostTrial(cause error) *Request {
	fault, _ := errors.AsType[Fault](cause)
	hungUp := errors.Is(cause, io.EOF) || errors.Is(cause, io.ErrUnexpectedEOF) || peer.Cut(cause) || fault.Silent
	if k.trial == nil || k.barred || !hungUp || len(k.pending) != 1 || k.pending[0] != k.trial {
		return nil
	}
	return k.trial
}
