//go:build !race

package zklock

import "time"

// Packets between servers, and requests of the client.
const (
	leaderPing  = 1 + iota // ping of the leader
	pingReply              // the server's reply to it, which names the session
	syncRequest            // a sync, on its way there and back
	txnRequest             // a transaction, on its way there and back
	clientPing             // a ping of the client, which its server answers
	anchorPing             // a ping of the client that the first round may build on
)

// A stream is a FIFO link with the oldest packet in the lowest three bits.
type stream uint16

// put appends a packet. A ping directly after a ping in transit is dropped, and so is a
// reply after a reply, because a second one changes nothing for the client.
func (s *stream) put(packet stream) {
	i, last := 0, stream(0)
	for ; *s>>(3*i) != 0; i++ {
		last = *s >> (3 * i)
	}
	if last != packet || packet == syncRequest || packet == txnRequest {
		*s |= packet << (3 * i)
	}
}

// take removes the oldest packet and returns it.
func (s *stream) take() stream {
	packet := *s & 7
	*s >>= 3
	return packet
}

// world is one state of the model. Times are stored as ages, in units.
type world struct {
	// The client. The first five fields are its proof.
	proven, toProve, firstSent int8
	due                        int8 // units until the next probe is due
	stage                      stage8
	held, conn                 bool
	request                    stream // the request in flight, or 0
	requestAge                 int8   // age of its sending
	olderSent, olderAnswered   int8   // the request that a short proof proves: ages of its sending and answer
	laterSent, laterAnswered   int8   // a later request for the first round to prove, if laterAnswered != never
	moves                      int8   // number of moves to another server so far

	// The client's server, and its link to the leader.
	onLeader       bool // the server is the leader
	noted          bool // the server has noted the session since the last ping
	up, down       stream
	cutUp, cutDown bool

	// The leader.
	leads, paused      bool
	oddPing            bool // every second ping ends a tick
	closing            bool // the session's time is over
	closedNow          bool // within this unit, with raceAtExpiry
	sincePing          int8 // age of the leader's last ping
	left               int8 // time left of the session
	quorumTicks        int8 // ticks until the leader misses the rest
	pauses, partitions int8 // numbers of faults so far

	// The rest of the ensemble.
	rest    rest8
	silence int8 // time since it last heard of the leader
	newLeft int8 // time that the new leader gives the session
	over    bool // a leader with a quorum has ended the session
}

// never is the age of an event that has not happened.
const never = -1

type stage8 int8
type rest8 int8

const (
	follows rest8 = iota
	apart         // no packets pass between the rest and the leader, and the rest has not given it up
	elected       // the rest has a new leader
)

type model struct{ setting }

var epoch = time.Unix(1<<30, 0)

// proofOf returns the client's proof.
func (m *model) proofOf(w *world) proof {
	c := newProof(time.Duration(m.timeout))
	c.proven, c.toProve, c.firstSent = epoch.Add(-time.Duration(w.proven)), epoch.Add(-time.Duration(w.toProve)), epoch.Add(-time.Duration(w.firstSent))
	c.stage, c.due = stage(w.stage), epoch.Add(time.Duration(w.due))
	return c
}

// store writes the client's proof to w. All ages beyond the timeout are stored as the
// timeout.
func (m *model) store(w *world, c proof) {
	age := func(t time.Time) int8 { return int8(min(epoch.Sub(t), time.Duration(m.timeout))) }
	w.proven, w.toProve, w.firstSent = age(c.proven), age(c.toProve), age(c.firstSent)
	w.stage, w.due = stage8(c.stage), int8(max(c.due.Sub(epoch), 0))
}

// leaseHolds reports whether the client has the lock and its lease lasts.
func (m *model) leaseHolds(w *world) bool {
	c := m.proofOf(w)
	return w.held && c.left(epoch) > 0
}

// provingRequest returns the kind of request that proves its own sending under the simple
// rules, and 0 under the others.
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

// nextRequest returns the request that the client may send now, or 0.
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

// receiveAnswer makes the client receive the answer to its request.
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
		w.olderSent, w.olderAnswered, w.laterSent, w.laterAnswered = w.requestAge, 0, 0, never
	case kind == anchorPing:
		w.laterSent, w.laterAnswered = w.requestAge, 0
	case c.stage == shortSync: // our own znode was created, or the sync of a lock that has waited was answered
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

// reanchor makes the first round prove the later request, if there is one.
func (m *model) reanchor(w *world, c *proof) {
	if w.laterAnswered != never {
		c.reanchor(epoch.Add(-time.Duration(w.laterSent)), epoch.Add(-time.Duration(w.laterAnswered)))
		if m.rule == roundAtOnce {
			c.due = epoch
		}
	}
	w.laterSent, w.laterAnswered = 0, never
}

// serverReceives makes the server receive a request of the client.
func (m *model) serverReceives(w *world, packet stream) {
	if w.onLeader {
		m.touch(w)
		m.leaderReceives(w, packet)
		return
	}
	w.noted = true
	if packet == clientPing || packet == anchorPing {
		m.receiveAnswer(w)
	} else {
		w.up.put(packet)
	}
}

// leaderReceives makes the leader receive a packet.
func (m *model) leaderReceives(w *world, packet stream) {
	switch {
	case packet == pingReply:
		m.touch(w)
	case !m.accepts(w): // the request is rejected
	case w.onLeader:
		m.receiveAnswer(w)
	default:
		w.down.put(packet)
	}
}

// accepts reports whether the leader accepts requests of the session.
func (m *model) accepts(w *world) bool { return w.leads && !w.paused && (!w.closing || w.closedNow) }

// touch restarts the session's timeout at the leader.
func (m *model) touch(w *world) {
	if !w.closing {
		w.left = m.timeout
	}
}

// followerReceives makes the server receive a packet of the leader.
func (m *model) followerReceives(w *world, packet stream) {
	switch {
	case packet != leaderPing:
		m.receiveAnswer(w)
	case w.noted:
		w.noted = false
		w.up.put(pingReply)
	}
}

// normalize clears the fields that no longer make a difference, so that fewer states are
// different.
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
	if m.reattached {
		w.olderSent, w.olderAnswered = 0, 0
	}
	if m.partitions == 0 && m.pauses == 0 {
		w.oddPing, w.quorumTicks = false, m.syncLimit
	}
}

// disconnect closes the client's connection; everything in transit is lost.
func (w *world) disconnect() {
	w.conn, w.request, w.requestAge, w.olderSent, w.olderAnswered, w.laterSent, w.laterAnswered = false, 0, 0, 0, 0, 0, never
	w.up, w.down, w.onLeader, w.noted, w.cutUp, w.cutDown = 0, 0, false, false, false, false
}

// stalls reports whether the leader cannot take this packet now.
func (w *world) stalls(packet stream) bool {
	return !w.leads || w.paused || packet == txnRequest && w.rest != follows
}
