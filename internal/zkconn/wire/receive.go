package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// cutShort returns io.ErrUnexpectedEOF in place of err if the stream ended in the middle of a
// frame, and err otherwise. bytesRead is the number of bytes of the frame that were read before the
// error.
func cutShort(err error, bytesRead int) error {
	if bytesRead > 0 && errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// frame reads one frame and handles it. If the frame is for go-zookeeper, frame returns it together
// with its length prefix. Otherwise, it returns nil.
func (k *Conn) frame() ([]byte, error) {
	peeked, err := k.r.Peek(4)
	if err != nil {
		return nil, cutShort(err, len(peeked))
	}
	head := [4]byte(peeked)
	k.r.Discard(4) // never fails after Peek
	n := int64(binary.BigEndian.Uint32(head[:]))
	switch {
	case !k.live && n > maxConnectReply:
		more, _ := k.r.Peek(min(k.r.Buffered(), 60))
		return nil, notZooKeeper(append(head[:], more...))
	case k.live && n > uncounted:
		if admitted, err := k.admit(int(n)); !admitted {
			return nil, err
		}
	}
	const step = 1 << 20
	f, err := jute.ReadBehind(k.r, append(k.frameBuffer(4+int(min(n, step))), head[:]...), int(n), step)
	if err != nil {
		return nil, err
	}
	if k.live && n > uncounted {
		k.l.cfg.Memory.hold(f)
	}
	k.traceReceived(f[4:])
	if !k.live {
		return f, k.handshake(f[4:])
	}
	return k.demultiplex(f)
}

// Frames of up to shortFrame bytes share buffers of roomBytes bytes each.
const (
	shortFrame = 256
	roomBytes  = 8 << 10
)

// frameBuffer returns an empty buffer with capacity n. Short frames share one allocation, because
// most frames are short.
func (k *Conn) frameBuffer(n int) []byte {
	if n > shortFrame {
		return make([]byte, 0, n)
	}
	if len(k.room) < n {
		k.room = make([]byte, roomBytes)
	}
	f := k.room[:0:n]
	k.room = k.room[n:]
	return f
}

// demultiplex handles the frame f. If f is the answer to a request of zksh, it returns nil.
// Otherwise, f is for go-zookeeper, and demultiplex returns f. Such a frame is an event, or the
// answer to a ping or a request of go-zookeeper.
func (k *Conn) demultiplex(f []byte) ([]byte, error) {
	d := jute.NewDecoder(f[4:])
	xid, zxid, code := d.Int(), d.Long(), d.Int()
	if d.Err() != nil {
		return nil, Fault{Text: "the server sent a truncated reply"}
	}
	switch {
	case xid >= xidBase:
		return nil, k.answered(xid, Reply{Zxid: zxid, Code: code, Body: d.Rest()})
	case xid == jute.XidEvent:
		// Skip the state in the event, which is always SyncConnected.
		typ, _, path := d.Int(), d.Int(), d.String()
		if d.Err() != nil {
			return nil, Fault{Text: "the server sent a truncated event"}
		}
		if len(path) > jute.MaxPath {
			return nil, Fault{Text: fmt.Sprintf("the server sent an event with a path of %d bytes", len(path))}
		}
		if err := k.l.handler.Event(typ, path, zxid); err != nil {
			k.l.Fail(Ending{Why: err})
			return nil, Fault{Text: err.Error()}
		}
	case xid == jute.XidPing && code != OK: // the server demands credentials
		k.pauseAfterPing(code)
		return nil, Fault{Text: "the server rejected a ping: " + k.l.cfg.Refusal(code).Error()}
	case xid == jute.XidPing:
		k.l.contact(k.pinged(), 0)
	case !k.expected(xid):
		return nil, neverAsked(xid)
	}
	return f, k.stalled()
}

func neverAsked(xid int32) error {
	return Fault{Text: fmt.Sprintf("the server sent a reply to a request that zksh never sent (xid %d)", xid)}
}

// answered delivers the reply r to the caller that waits for the request with this xid.
func (k *Conn) answered(xid int32, r Reply) error {
	k.mu.Lock()
	i, index := k.awaited(xid)
	if i < 0 {
		k.mu.Unlock()
		return neverAsked(xid)
	}
	req := k.pending[i]
	k.unansweredSince = k.silentSince // the time when the last part of the answer was read
	k.answers.add(req.sent, k.unansweredSince, k.timeout)
	k.pauseAfter(r.Code)
	req.put(index, r)
	left, moved := req.left, movedAway(req.Op, r)
	if left == 0 && !moved {
		k.pending = slices.Delete(k.pending, i, i+1)
	}
	k.mu.Unlock()
	if moved {
		return k.moved(req, r)
	}
	if req.Answered != nil {
		req.Answered(index, r)
	}
	if r.Code == SessionExpired {
		return k.sessionOver(req, left, r)
	}
	if left > 0 {
		return nil
	}
	k.l.contact(req.sent, r.Zxid)
	k.endTrial(req, r.Code)
	if req.parts != nil {
		r = Reply{Zxid: r.Zxid, Parts: req.parts}
	}
	req.End(r)
	return nil
}

// sessionOver ends the session and the connection after a server has answered req with the code
// SessionExpired. From then on, the server would answer every request with that code, or close the
// connection. left is the number of missing answers to req. If left is 0, req is no longer pending,
// and sessionOver calls req.End with r. Otherwise, die calls req.End.
func (k *Conn) sessionOver(req *Request, left int, r Reply) error {
	why := Fault{Text: "the server reported that the session has expired"}
	current := k.l.current(k) // there can be no newer connection before this goroutine returns
	k.die(why)
	if current {
		k.l.expired()
	}
	if left == 0 {
		req.End(r)
	}
	return why
}

// awaited finds the request that is answered by a reply with this xid. It returns the index of the
// request in pending, which is nearly always 0, and the index of the frame within the request. If
// there is no such request, i is -1. The caller must hold mu.
func (k *Conn) awaited(xid int32) (i, frame int) {
	for i, req := range k.pending {
		if frame, is := req.awaits(xid); is {
			return i, frame
		}
	}
	return -1, 0
}

// pinged records that the oldest unanswered ping was answered, and returns the send time of that
// ping. It returns the zero time if no ping was unanswered.
func (k *Conn) pinged() (sent time.Time) {
	k.mu.Lock()
	if len(k.pings) > 0 {
		sent, k.pings = k.pings[0], k.pings[1:]
		k.answers.add(sent, time.Now(), k.timeout)
	}
	resumed := k.probeAnswered()
	k.mu.Unlock()
	if resumed {
		k.l.Wake()
	}
	return sent
}

// stalled returns a Fault if the server answers pings, but has not answered any request of zksh for
// the session timeout. It is called for every frame that is for go-zookeeper, which includes each
// answer to a ping. If the server does not answer pings either, go-zookeeper's read deadline ends
// the connection.
func (k *Conn) stalled() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	patience := k.l.bounded(k.timeout)
	if len(k.pending) == 0 || time.Since(k.unansweredSince) < patience {
		return nil
	}
	return Fault{fmt.Sprintf("the server did not answer a request within %s, although it answers pings", patience), true}
}
