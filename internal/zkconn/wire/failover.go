package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"
)

// The library go-zookeeper gives up a silent server after two thirds of the session timeout. That
// is too late for a lock holder, who must act before the session expires. So, while a session is
// guarded, an overdue answer makes the Link open a second connection, to the next server. If data
// arrives on the first connection meanwhile, the Link closes the second one unused. Otherwise it
// stops sending on the first connection and attaches the session to the second. Only after that
// has succeeded does it drop the first one. The rest is an ordinary reconnect: go-zookeeper
// dials, and gets the connection on which its connect request has already been answered.
//
// Attaching makes this safe. From then on, ZooKeeper's leader rejects writes that arrive through
// the server that the session has left (SessionMoved). So requests in flight to that server have
// an unknown outcome, as after any connection loss.

// Guard guards the Link until release is called: if the server stops answering, the Link leaves
// that server. The Link notices this only while a request or a ping is unanswered. Leaving a server
// is like a connection loss: the next connection is to any server of the list, perhaps the same
// one, but never to a read-only server.
func (l *Link) Guard() (release func()) {
	l.guards.Add(1)
	l.hosts.expedite()
	return sync.OnceFunc(func() { l.guards.Add(-1) })
}

// Guarded reports whether a call of Guard is in effect, that is, has not been released.
func (l *Link) Guarded() bool { return l.guards.Load() > 0 }

// Limits on the grace period, which is the time after which an unanswered request or ping is
// overdue. The grace period is several times the usual round-trip time, and at least leastGrace, to
// allow for a busy server or a garbage collection.
//
// The holder of a lock extends its lease when 5/16 of the session timeout remains. Terminating the
// holder's command takes 1/8 of the timeout. Two of the longest grace periods and a few round trips
// must fit into the difference.
const (
	leastGrace  = 300 * time.Millisecond
	extraGrace  = 200 * time.Millisecond
	graceTrips  = 4
	gracePart   = 32 // the longest grace period is 1/32 of the session timeout
	attachPart  = 16 // the time limit for attaching to the next server is 1/16 of the session timeout
	sampleShare = 8  // a new sample has the weight 1/8 in the smoothed round-trip time
)

// grace returns how long a server may be silent before the Link connects to another one. The Link
// then waits for the same duration again before it moves the session to the other server.
func (l *Link) grace(timeout time.Duration) time.Duration {
	trips := graceTrips * time.Duration(l.rtt.Load())
	return min(max(trips+extraGrace, leastGrace), timeout/gracePart)
}

// sample adds the duration of a round trip or of a silence to the smoothed round-trip time. As a
// result, the Link waits longer for a server that is often slow. If two goroutines call sample at
// the same time, one of the values may be lost.
func (l *Link) sample(took time.Duration) {
	usual := l.rtt.Load()
	if usual == 0 {
		usual = int64(took)
	}
	l.rtt.Store(usual + (int64(took)-usual)/sampleShare)
}

// An arrivalReader reads from the TCP connection, and records when data arrives.
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

// sending records the beginning of the server's silence, unless an earlier request or ping is still
// unanswered. It must be called before a request or ping is counted as sent. The caller must hold
// mu.
func (k *Conn) sending(now time.Time) {
	if !k.waiting() {
		k.silentSince = now
	}
}

// waiting reports whether a request or ping is unanswered. The caller must hold mu.
func (k *Conn) waiting() bool { return len(k.pending)+len(k.pings) > 0 }

// watch sets the alarm to the time when an answer becomes overdue, or stops the alarm if no
// answer is awaited. The caller must hold mu.
func (k *Conn) watch() {
	switch {
	case !k.waiting() || !k.guarded():
		if k.alarm != nil {
			k.alarm.Stop()
		}
	case k.alarm == nil:
		k.alarm = time.AfterFunc(k.timeUntilOverdue(), k.failover) // stopped by die
	default:
		k.alarm.Reset(k.timeUntilOverdue())
	}
}

// guarded reports whether the Link must leave a server that stops answering. That is the case if
// the Link is guarded and the ensemble lets the session move to another server.
func (k *Conn) guarded() bool { return k.l.Guarded() && !k.l.Tied() }

// timeUntilOverdue returns the time from now until the server's answer becomes overdue. It is
// negative if the answer is already overdue. The caller must hold mu.
func (k *Conn) timeUntilOverdue() time.Duration {
	return time.Until(k.silentSince.Add(k.l.grace(k.timeout)))
}

// silent reports whether an answer is overdue. If so, since is the time when the server's silence
// began.
func (k *Conn) silent() (since time.Time, overdue bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.waiting() && k.alive.Err() == nil && k.guarded() {
		if k.timeUntilOverdue() <= 0 {
			return k.silentSince, true
		}
		k.watch() // the grace period may have grown since the alarm was set
	}
	return time.Time{}, false
}

// failover tries one server after another until data arrives on this connection, the session has
// moved, or this connection is dead. It runs in the goroutine of the alarm, which ends when the
// connection has ended and no attach is running any more.
func (k *Conn) failover() {
	k.l.moving <- struct{}{}
	defer func() { <-k.l.moving }()
	for {
		since, overdue := k.silent()
		if !overdue {
			return
		}
		grace := k.l.grace(k.timeout)
		for _, addr := range k.l.hosts.others(k.alive, grace, k.Server) {
			if _, overdue := k.silent(); !overdue || k.moveTo(addr, since, grace) {
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

// moveTo moves the session to the server at addr, if that server can be reached and the current
// one stays silent. It returns false if failover should try the next server.
func (k *Conn) moveTo(addr string, since time.Time, grace time.Duration) bool {
	l := k.l
	next, err := l.open(k.alive, "tcp", addr, grace)
	if err != nil {
		return false
	}
	if addr == k.Server {
		// If the current server is only paused, it does not answer on a new connection either, and
		// the requests in flight would be lost. A new connection helps only if the network path is
		// broken. So wait longer.
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
	k.tcp.Close() // go-zookeeper notices this, and dials again
	return true
}

// freeze stops the sending of requests and returns true. since is the time when the server's
// silence began. If data has arrived after that, or if the connection has ended, freeze does
// nothing and returns false.
func (k *Conn) freeze(since time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.frozen = k.dead == nil && k.silentSince.Equal(since)
	return k.frozen
}

// thaw reverses freeze: it sends the waiting requests, and from then on new ones.
func (k *Conn) thaw() {
	k.mu.Lock()
	k.frozen = false
	k.flush()
	k.mu.Unlock()
	k.l.Wake()
}

// Leaving reports whether requests wait in the queue because the connection may be about to end.
// Status.Changed is closed when the connection sends requests again.
func (k *Conn) Leaving() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.frozen || k.doubt
}

// attach attaches the session to the server of this connection. It sends the connect request, and
// waits for the reply up to the time limit. The reply stays in the buffer, for go-zookeeper to
// read.
func (k *Conn) attach(limit time.Duration) error {
	k.Asked = time.Now()
	if err := k.tcp.SetDeadline(k.Asked.Add(limit)); err != nil {
		return err
	}
	hello, id := k.l.hello()
	k.session = id
	k.traceSent(hello)
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

// takeSpare waits until no failover is in progress. It returns the connection to which failover has
// moved the session, or nil if there is none.
func (l *Link) takeSpare() *Conn {
	l.moving <- struct{}{}
	defer func() { <-l.moving }()
	k := l.spare
	l.spare = nil
	return k
}
