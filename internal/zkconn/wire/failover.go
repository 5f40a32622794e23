package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"
)

// The library gives up a silent server after two thirds of the session timeout, which is too late
// for a lock holder, who must act before the session expires. So, while a session is guarded, a
// late answer makes the link open a second connection to the next server. If data comes on the
// first connection meanwhile, the link closes the second one unused. Otherwise it stops sending on
// the first connection, attaches the session to the second, and drops the first one only when
// that has succeeded. The rest is an ordinary reconnect: the library dials, and gets the
// connection on which its connect request has already been answered.
//
// Attaching makes this safe. ZooKeeper's leader rejects writes that come later through the server
// that the session has left (SessionMoved). So requests in flight there have an unknown outcome,
// as after any connection loss.

// Guard makes the Link leave a server that stops answering, until release is called. Silence is
// noticed by a request or a ping without an answer. Leaving is like a connection loss: the next
// connection is to a server of the list, which may be the same one, but never a read-only one.
func (l *Link) Guard() (release func()) {
	l.guards.Add(1)
	l.hosts.expedite()
	return sync.OnceFunc(func() { l.guards.Add(-1) })
}

// Guarded reports whether a Guard is in force.
func (l *Link) Guarded() bool { return l.guards.Load() > 0 }

// An answer is late if it takes several times longer than usual. leastGrace covers a busy server
// or a garbage collection. Two of the longest graces and a few round trips must fit into the rest
// of a lease when it is about to be extended (5/16 of the session timeout), less the time for
// terminating a command (1/8).
const (
	leastGrace  = 300 * time.Millisecond
	extraGrace  = 200 * time.Millisecond
	graceTrips  = 4
	gracePart   = 32 // a grace is at most 1/32 of the session timeout
	attachPart  = 16 // the next server must answer the connect request within 1/16 of it
	sampleShare = 8  // weight 1/8 of a new sample in the smoothed round-trip time
)

// grace returns how long a server may be silent before the link connects to another one, and then
// how long until the session moves there.
func (l *Link) grace(timeout time.Duration) time.Duration {
	trips := graceTrips * time.Duration(l.rtt.Load())
	return min(max(trips+extraGrace, leastGrace), timeout/gracePart)
}

// sample adds the duration of an answer, or of a silence, to the smoothed round-trip time. So the
// link waits longer for a server that is often slow. A sample may be lost to a concurrent one.
func (l *Link) sample(took time.Duration) {
	usual := l.rtt.Load()
	if usual == 0 {
		usual = int64(took)
	}
	l.rtt.Store(usual + (int64(took)-usual)/sampleShare)
}

// An arrivalReader records when data comes.
type arrivalReader struct{ k *Conn }

func (e arrivalReader) Read(p []byte) (int, error) {
	n, err := e.k.tcp.Read(p)
	if n > 0 {
		e.k.mu.Lock()
		defer e.k.mu.Unlock()
		e.k.silentSince = time.Now()
		e.k.watch()
	}
	return n, err
}

// sending is called before a request or ping is counted as sent, with mu held.
func (k *Conn) sending(now time.Time) {
	if !k.waiting() {
		k.silentSince = now
	}
}

// waiting reports whether a request or ping is unanswered. Called with mu held.
func (k *Conn) waiting() bool { return len(k.pending)+len(k.pings) > 0 }

// watch sets the alarm for the time when an answer will be late. Called with mu held.
func (k *Conn) watch() {
	switch {
	case !k.waiting() || !k.guarded():
		if k.alarm != nil {
			k.alarm.Stop()
		}
	case k.alarm == nil:
		k.alarm = time.AfterFunc(k.late(), k.failover) // stopped by die
	default:
		k.alarm.Reset(k.late())
	}
}

// guarded reports whether to leave a silent server: a Guard is in force, and another server can
// take over the session.
func (k *Conn) guarded() bool { return k.l.Guarded() && !k.l.Tied() }

// late returns the time left until an answer is late. Called with mu held.
func (k *Conn) late() time.Duration {
	return time.Until(k.silentSince.Add(k.l.grace(k.timeout)))
}

// silent returns since when no data has come, and reports whether an answer is late by now.
func (k *Conn) silent() (since time.Time, yes bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.waiting() && k.alive.Err() == nil && k.guarded() {
		if k.late() <= 0 {
			return k.silentSince, true
		}
		k.watch() // an answer may take longer than when the alarm was set
	}
	return time.Time{}, false
}

// failover tries one server after the other until data comes, the session has moved, or the
// connection is dead. It runs in the alarm's goroutine, which ends with the connection at the
// latest, or with attach.
func (k *Conn) failover() {
	k.l.moving <- struct{}{}
	defer func() { <-k.l.moving }()
	for {
		since, yes := k.silent()
		if !yes {
			return
		}
		grace := k.l.grace(k.timeout)
		for _, addr := range k.l.hosts.others(k.alive, grace, k.Server) {
			if _, yes := k.silent(); !yes || k.moveTo(addr, since, grace) {
				return
			}
		}
		k.l.sample(time.Since(since))
		k.pause(grace)
	}
}

func (k *Conn) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-k.alive.Done():
	}
}

// moveTo moves the session to the server at addr, if that can be reached and this one stays silent.
// It returns false if failover should try the next server.
func (k *Conn) moveTo(addr string, since time.Time, grace time.Duration) bool {
	l := k.l
	next, err := l.open(k.alive, "tcp", addr, grace)
	if err != nil {
		return false
	}
	if addr == k.Server {
		// A server that only pauses answers on both connections or on neither. A new connection
		// helps if the network path is broken; if not, it loses the requests in flight.
		grace = time.Until(since.Add(2 * k.timeout / gracePart))
	}
	k.pause(grace)
	if !k.freeze(since) {
		next.Close()
		return true
	}
	if err := next.attach(k.timeout / attachPart); err != nil {
		next.Close()
		k.thaw()
		return false
	}
	l.sample(time.Since(since))
	l.spare = next
	l.hosts.offer(addr)
	k.die(Fault{Text: fmt.Sprintf("the server did not answer for %s, so zksh moved the session to %s", time.Since(since).Round(time.Millisecond), addr)})
	k.tcp.Close() // which the library notices, and dials
	return true
}

// freeze stops the sending of requests and returns true, unless data has come since then.
func (k *Conn) freeze(since time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.frozen = k.dead == nil && k.silentSince.Equal(since)
	return k.frozen
}

// thaw ends freeze, and sends the waiting requests.
func (k *Conn) thaw() {
	k.mu.Lock()
	k.frozen = false
	k.flush()
	k.mu.Unlock()
	k.l.Wake()
}

// Leaving reports whether requests are held back because the connection may be about to end.
// Status.Changed is closed when they are sent again.
func (k *Conn) Leaving() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.frozen || k.doubt
}

// attach sends the connect request for the session and waits for the reply, which it leaves in
// the stream for the library. The session is attached to that server from then on.
func (k *Conn) attach(limit time.Duration) error {
	k.Asked = time.Now()
	if err := k.tcp.SetDeadline(k.Asked.Add(limit)); err != nil {
		return err
	}
	hello, id := k.l.hello()
	k.session = id
	if _, err := k.tcp.Write(hello); err != nil {
		return err
	}
	head, err := k.r.Peek(4)
	if err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head)
	if size > maxConnectReply {
		return notZooKeeper(head)
	}
	reply, err := k.r.Peek(4 + int(size))
	if err != nil {
		return err
	}
	w, err := k.l.welcomed(reply[4:], id)
	if err == nil && (w.readOnly || w.id != id || id != k.l.session()) {
		err = errors.New("the server did not resume the session that zksh had before it lost the connection")
	}
	return err
}

// takeSpare waits for the end of a move in progress, and returns its connection, or nil.
func (l *Link) takeSpare() *Conn {
	l.moving <- struct{}{}
	defer func() { <-l.moving }()
	k := l.spare
	l.spare = nil
	return k
}
