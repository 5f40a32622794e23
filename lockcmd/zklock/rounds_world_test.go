//go:build !race

package zklock

import "time"

// The packets between servers.
const (
	leaderPing  = 1 + iota // of the leader
	pingReply              // the server's answer, which names the session
	syncRequest            // a sync, there and back
	txnRequest             // a transaction, there and back
	clientPing             // a ping of the client, which its server answers
	anchorPing             // one that the first round may lean on
)

// stream is a FIFO link, the oldest packet in the lowest bits.
type stream uint16

// put appends a packet; a ping right behind a ping that is still on the way is
// lost, and so is a touch behind a touch, for there is nothing in it for the client.
func (s *stream) put(packet stream) {
	i, last := 0, stream(0)
	for ; *s>>(3*i) != 0; i++ {
		last = *s >> (3 * i)
	}
	if last != packet || packet == syncRequest || packet == txnRequest {
		*s |= packet << (3 * i)
	}
}

func (s *stream) take() stream {
	packet := *s & 7
	*s >>= 3
	return packet
}

// world is one state. Moments are kept as ages, in units.
type world struct {
	// The client.
	proven, toProve, firstSent, due int8 // of the proof; due is still to come
	stage                           stage8
	held, conn                      bool
	request                         stream // the request that is under way, and the age of its sending
	requestAge                      int8
	heard, answered                 int8 // the request that a grant leans on: since its sending, its answer
	later, came                     int8 // a later one that the first round leans on; came is never without one
	moved                           int8

	// Its server, and the link to the leader: up and down.
	direct, touched bool
	up, down        stream
	cutUp, cutDown  bool

	// The leader.
	leads, paused, odd, closing bool // closing: the session's time was over
	fresh                       bool // and within this unit
	pinged, left, missing       int8 // since its last ping; of the session; ticks until it misses the rest
	pauses, parts               int8

	// The rest.
	rest    rest8
	silence int8 // since it heard of the leader
	anew    int8 // what the new leader gives the session
	over    bool // a leader with a quorum has ended the session
}

// never is the age of what has not been.
const never = -1

type stage8 int8
type rest8 int8

const (
	follows rest8 = iota
	apart         // nothing passes between it and the leader, and it has not given it up
	elected       // it has a new leader
)

type model struct{ setting }

var epoch = time.Unix(1<<30, 0)

// clock is the client's proof; keep puts it back. Ages beyond the timeout
// are all the same to it.
func (m *model) proofOf(w *world) proof {
	c := newProof(time.Duration(m.timeout))
	c.proven, c.toProve, c.firstSent = epoch.Add(-time.Duration(w.proven)), epoch.Add(-time.Duration(w.toProve)), epoch.Add(-time.Duration(w.firstSent))
	c.stage, c.due = stage(w.stage), epoch.Add(time.Duration(w.due))
	return c
}

func (m *model) store(w *world, c proof) {
	age := func(t time.Time) int8 { return int8(min(epoch.Sub(t), time.Duration(m.timeout))) }
	w.proven, w.toProve, w.firstSent = age(c.proven), age(c.toProve), age(c.firstSent)
	w.stage, w.due = stage8(c.stage), int8(max(c.due.Sub(epoch), 0))
}

func (m *model) leaseHolds(w *world) bool {
	c := m.proofOf(w)
	return w.held && c.left(epoch) > 0
}

// plain rules take each answered request of one kind for a proof.
func (m *model) provingRequest() stream {
	switch m.rule {
	case anyPing:
		return clientPing
	case anySync:
		return syncRequest
	case anyWrite:
		return txnRequest
	}
	return 0
}

// want is what the client may send now, or 0.
func (m *model) nextRequest(w *world) stream {
	if kind := m.provingRequest(); kind != 0 {
		return kind
	}
	c := m.proofOf(w)
	do, at := c.next()
	ignored := m.rule == noPause && c.stage == secondSync || m.rule == noGap && c.stage == firstSync
	switch {
	case at.After(epoch) && !ignored:
		return 0
	case do == probeCheck:
		return txnRequest
	}
	return syncRequest
}

// hear is the client's: its request is answered.
func (m *model) receiveAnswer(w *world) {
	if w.request == 0 {
		return
	}
	kind, sent := w.request, epoch.Add(-time.Duration(w.requestAge))
	c := m.proofOf(w)
	switch {
	case m.provingRequest() != 0:
		c.prove(sent)
	case w.held:
		c.done(sent, epoch)
	case kind == clientPing:
		w.heard, w.answered, w.later, w.came = w.requestAge, 0, 0, never
	case kind == anchorPing:
		w.later, w.came = w.requestAge, 0
	case c.stage == shortSync: // the own znode is made, or the sync of a lock that has waited is answered
		c.done(sent, epoch)
	default:
		c.done(sent, epoch)
		w.held = true
		if m.rule == noWait {
			c.due = epoch.Add(c.gap())
		}
		m.reanchor(w, &c)
	}
	m.store(w, c)
	w.request, w.requestAge = 0, 0
}

// lean makes the first round one about the later answer, if there is one.
func (m *model) reanchor(w *world, c *proof) {
	if w.came != never {
		c.reanchor(epoch.Add(-time.Duration(w.later)), epoch.Add(-time.Duration(w.came)))
		if m.rule == roundAtOnce {
			c.due = epoch
		}
	}
	w.later, w.came = 0, never
}

// serve is the server's: it takes a request of the client.
func (m *model) serverReceives(w *world, packet stream) {
	if w.direct {
		m.touch(w)
		m.leaderReceives(w, packet)
		return
	}
	w.touched = true
	if packet == clientPing || packet == anchorPing {
		m.receiveAnswer(w)
	} else {
		w.up.put(packet)
	}
}

// lead is the leader's: it takes a packet.
func (m *model) leaderReceives(w *world, packet stream) {
	switch {
	case packet == pingReply:
		m.touch(w)
	case !m.accepts(w): // refused
	case w.direct:
		m.receiveAnswer(w)
	default:
		w.down.put(packet)
	}
}

// alive reports whether the leader lets requests of the session pass.
func (m *model) accepts(w *world) bool { return w.leads && !w.paused && (!w.closing || w.fresh) }

func (m *model) touch(w *world) {
	if !w.closing {
		w.left = m.timeout
	}
}

// follow is the server's: it takes a packet of the leader.
func (m *model) followerReceives(w *world, packet stream) {
	switch {
	case packet != leaderPing:
		m.receiveAnswer(w)
	case w.touched:
		w.touched = false
		w.up.put(pingReply)
	}
}

// forget drops what makes no difference any more.
func (m *model) normalize(w *world) {
	if w.cutUp {
		w.up = 0
	}
	if w.cutDown {
		w.down = 0
	}
	if m.provingRequest() == 0 {
		switch stage(w.stage) {
		case firstSync, shortCheck, shortSync:
			w.firstSent = m.timeout
		case secondSync, finalCheck:
			w.requestAge = 0
		}
	} else {
		w.toProve, w.firstSent, w.stage, w.due = m.timeout, m.timeout, 0, 0
	}
	if m.fresh {
		w.heard, w.answered = 0, 0
	}
	if m.parts == 0 && m.pauses == 0 {
		w.odd, w.missing = false, m.syncLimit
	}
}

// leave closes the client's connection, and with it all that was on the way.
func (w *world) disconnect() {
	w.conn, w.request, w.requestAge, w.heard, w.answered, w.later, w.came = false, 0, 0, 0, 0, 0, never
	w.up, w.down, w.direct, w.touched, w.cutUp, w.cutDown = 0, 0, false, false, false, false
}

// stall: the leader cannot take this packet now.
func (w *world) stalls(packet stream) bool {
	return !w.leads || w.paused || packet == txnRequest && w.rest != follows
}
