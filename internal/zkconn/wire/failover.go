package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A server that falls silent is given up by the library after two thirds of the
// session timeout, which is too late for who must act before the session is over.
// So, while a session is guarded, an answer that is late makes the link open a
// second connection to the next server. If something comes from the first one
// meanwhile, it was a hiccup, and the second is closed unused. If nothing does,
// no request leaves on the first connection any more, the session is attached to
// the second, and only when that has worked is the first one dropped. From there
// on it is a reconnect like any other: the library dials, and is given the
// connection on which its connect request has been answered already.
//
// Attaching is what makes it safe: ZooKeeper's leader refuses the writes that
// come later through a server which the session has left (SessionMoved), so what
// was on its way there is as unknown as after any broken connection.

// Guard makes the Link leave a server that falls silent, until release is called.
// Silence is noticed by a request or a ping without an answer. The connection then
// changes as when it has broken, to a server of the list or to the same one over a new
// connection; never to one that is read-only.
func (l *Link) Guard() (release func()) {
	l.guards.Add(1)
	l.hosts.expedite()
	return sync.OnceFunc(func() { l.guards.Add(-1) })
}

// Guarded reports whether a Guard is in force.
func (l *Link) Guarded() bool { return l.guards.Load() > 0 }

// What makes an answer late: it takes several times longer than usual. The least
// is what a busy server, or a collection of garbage, takes now and then. The most,
// twice, and a few round trips must fit into what a lease has left when it is about
// to be extended (5/16 of the session timeout), without the time in which a command
// is ended (1/8).
const (
	leastGrace  = 300 * time.Millisecond
	extraGrace  = 200 * time.Millisecond
	graceTrips  = 4
	gracePart   = 32 // of the session timeout, at most
	attachPart  = 16 // the same for the reply of the next server
	sampleShare = 8  // one sample counts as much as all before it by one in so many
)

// grace is how long nothing may come before another server is connected to, and
// then how long until the session moves there.
func (l *Link) grace(timeout time.Duration) time.Duration {
	trips := graceTrips * time.Duration(l.rtt.Load())
	return min(max(trips+extraGrace, leastGrace), timeout/gracePart)
}

// sample takes note of how long an answer took, or a silence: whoever is often
// late is waited for longer. One lost to another at the same moment does not matter.
func (l *Link) sample(took time.Duration) {
	usual := l.rtt.Load()
	if usual == 0 {
		usual = int64(took)
	}
	l.rtt.Store(usual + (int64(took)-usual)/sampleShare)
}

// ear notes that something has come.
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

// sending runs before a request or ping is counted as sent. Called with mu held.
func (k *Conn) sending(now time.Time) {
	if !k.waiting() {
		k.silentSince = now
	}
}

// waiting reports whether anything is unanswered. Called with mu held.
func (k *Conn) waiting() bool { return len(k.pending)+len(k.pings) > 0 }

// watch sets the alarm for the time when what is unanswered will be late. Called
// with mu held.
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

// guarded reports whether to leave a silent server: not for nothing, nor where no server
// takes the session over.
func (k *Conn) guarded() bool { return k.l.Guarded() && !k.l.Tied() }

// late is the time left until an answer is late. Called with mu held.
func (k *Conn) late() time.Duration {
	return time.Until(k.silentSince.Add(k.l.grace(k.timeout)))
}

// silent tells since when nothing has come, if an answer is late by now.
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

// failover tries one server after the other until something comes, the session
// has moved, or the connection is dead. It runs in the alarm's goroutine, which
// ends with the connection at the latest, but for the one request in attach.
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

// moveTo moves the session to another server, if that one is there and this one
// stays silent. It is false when the next server is to be tried.
func (k *Conn) moveTo(addr string, since time.Time, grace time.Duration) bool {
	l := k.l
	next, err := l.open(k.alive, "tcp", addr, grace)
	if err != nil {
		return false
	}
	if addr == k.Server {
		// A server that only pauses answers on both connections or on neither: the other
		// one helps if the path is broken, and costs what is under way if it is not.
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

// freeze keeps requests from being sent, unless something has come.
func (k *Conn) freeze(since time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.frozen = k.dead == nil && k.silentSince.Equal(since)
	return k.frozen
}

// thaw sends what has waited, after all.
func (k *Conn) thaw() {
	k.mu.Lock()
	k.frozen = false
	k.flush()
	k.mu.Unlock()
	k.l.Wake()
}

// Leaving reports whether requests are held back, as the connection may be about to end.
// Status.Changed is closed when they go on.
func (k *Conn) Leaving() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.frozen || k.doubt
}

// attach asks the server for the session and waits for its reply, which stays in
// the stream for the library. The session is in force there from then on.
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

// takeSpare waits for a move that is under way and returns the connection it has
// left, or nil.
func (l *Link) takeSpare() *Conn {
	l.moving <- struct{}{}
	defer func() { <-l.moving }()
	k := l.spare
	l.spare = nil
	return k
}
