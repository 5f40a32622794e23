package demo

import (
	"sync"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn/wire"
)

// A wireCounter counts the traffic on all connections of the contenders. It implements zkconn.Tracer,
// so it sees the frames that are written to a connection and read from it.
type wireCounter struct {
	mu      sync.Mutex
	total   traffic
	writes  map[request]bool  // write requests that are in flight
	deleted map[deletion]bool // znodes that a contender has deleted
}

type request struct {
	conn *wire.Conn
	xid  int32
}

type deletion struct {
	conn *wire.Conn
	path string
}

// traffic contains numbers of frames, counted over some period.
type traffic struct {
	requests int // frames sent, except pings and connect requests
	// notifications counts the watch events received, except those about znodes that the same
	// contender deleted.
	notifications int
	refused       int // write requests that the server rejected
}

func (t traffic) since(before traffic) traffic {
	return traffic{t.requests - before.requests, t.notifications - before.notifications, t.refused - before.refused}
}

func newWireCounter() *wireCounter {
	return &wireCounter{writes: map[request]bool{}, deleted: map[deletion]bool{}}
}

func (w *wireCounter) read() traffic {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total
}

// Sent implements zkconn.Tracer.
func (w *wireCounter) Sent(k *wire.Conn, frame []byte) {
	d := jute.NewDecoder(frame)
	xid := d.Int()
	if xid == 0 || xid == jute.XidPing { // a connect request begins with the protocol version, which is 0
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total.requests++
	op := d.Int()
	if jute.Creates(op) || op == jute.OpDelete || op == jute.OpMulti {
		w.writes[request{k, xid}] = true
	}
	if op == jute.OpDelete {
		w.deleted[deletion{k, d.String()}] = true
	}
}

// Received implements zkconn.Tracer.
func (w *wireCounter) Received(k *wire.Conn, frame []byte) {
	d := jute.NewDecoder(frame)
	xid, _, code := d.Int(), d.Long(), d.Int()
	w.mu.Lock()
	defer w.mu.Unlock()
	if xid == jute.XidEvent {
		_, _, path := d.Int(), d.Int(), d.String()
		if !w.deleted[deletion{k, path}] {
			w.total.notifications++
		}
		return
	}
	r := request{k, xid}
	if w.writes[r] && code != 0 {
		w.total.refused++
	}
	delete(w.writes, r)
}

// Ended implements zkconn.Tracer.
func (w *wireCounter) Ended(*wire.Conn, error) {}
