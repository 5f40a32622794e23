//go:build !race

package zklock

import "time"

// The packets between servers.
const (
	ping    = 1 + iota // of the leader
	touches            // the server's answer, which names the session
	syncing            // a sync, there and back
	writing            // a transaction, there and back
	pinging            // a ping of the client, which its server answers
	leaning            // one that the first round may lean on
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
	if last != packet || packet == syncing || packet == writing {
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
	proven, anchor, first, due int8 // of the proof; due is still to come
	stage                      stage8
	held, conn                 bool
	out                        stream // the request that is under way, and the age of its sending
	sent                       int8
	heard, answered            int8 // the request that a grant leans on: since its sending, its answer
	later, came                int8 // a later one that the first round leans on; came is never without one
	moved                      int8

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
func (m *model) clock(w *world) proof {
	c := newProof(time.Duration(m.timeout))
	c.proven, c.anchor, c.first = epoch.Add(-time.Duration(w.proven)), epoch.Add(-time.Duration(w.anchor)), epoch.Add(-time.Duration(w.first))
	c.stage, c.due = stage(w.stage), epoch.Add(time.Duration(w.due))
	return c
}

func (m *model) keep(w *world, c proof) {
	age := func(t time.Time) int8 { return int8(min(epoch.Sub(t), time.Duration(m.timeout))) }
	w.proven, w.anchor, w.first = age(c.proven), age(c.anchor), age(c.first)
	w.stage, w.due = stage8(c.stage), int8(max(c.due.Sub(epoch), 0))
}

func (m *model) stands(w *world) bool {
	c := m.clock(w)
	return w.held && c.left(epoch) > 0
}

// plain rules take each answered request of one kind for a proof.
func (m *model) plain() stream {
	switch m.rule {
	case anyPing:
		return pinging
	case anySync:
		return syncing
	case anyWrite:
		return writing
	}
	return 0
}

// want is what the client may send now, or 0.
func (m *model) want(w *world) stream {
	if kind := m.plain(); kind != 0 {
		return kind
	}
	c := m.clock(w)
	do, at := c.next()
	ignored := m.rule == noPause && c.stage == closing || m.rule == noRest && c.stage == opening
	switch {
	case at.After(epoch) && !ignored:
		return 0
	case do == askCheck:
		return writing
	}
	return syncing
}

// hear is the client's: its request is answered.
func (m *model) hear(w *world) {
	if w.out == 0 {
		return
	}
	kind, sent := w.out, epoch.Add(-time.Duration(w.sent))
	c := m.clock(w)
	switch {
	case m.plain() != 0:
		c.prove(sent)
	case w.held:
		c.done(sent, epoch)
	case kind == pinging:
		w.heard, w.answered, w.later, w.came = w.sent, 0, 0, never
	case kind == leaning:
		w.later, w.came = w.sent, 0
	case c.stage == hasty: // the own znode is made, or the sync of a lock that has waited is answered
		c.done(sent, epoch)
	default:
		c.done(sent, epoch)
		w.held = true
		if m.rule == noWait {
			c.due = epoch.Add(c.distance())
		}
		m.lean(w, &c)
	}
	m.keep(w, c)
	w.out, w.sent = 0, 0
}

// lean makes the first round one about the later answer, if there is one.
func (m *model) lean(w *world, c *proof) {
	if w.came != never {
		c.lean(epoch.Add(-time.Duration(w.later)), epoch.Add(-time.Duration(w.came)))
		if m.rule == leanAtOnce {
			c.due = epoch
		}
	}
	w.later, w.came = 0, never
}

// serve is the server's: it takes a request of the client.
func (m *model) serve(w *world, packet stream) {
	if w.direct {
		m.touch(w)
		m.lead(w, packet)
		return
	}
	w.touched = true
	if packet == pinging || packet == leaning {
		m.hear(w)
	} else {
		w.up.put(packet)
	}
}

// lead is the leader's: it takes a packet.
func (m *model) lead(w *world, packet stream) {
	switch {
	case packet == touches:
		m.touch(w)
	case !m.alive(w): // refused
	case w.direct:
		m.hear(w)
	default:
		w.down.put(packet)
	}
}

// alive reports whether the leader lets requests of the session pass.
func (m *model) alive(w *world) bool { return w.leads && !w.paused && (!w.closing || w.fresh) }

func (m *model) touch(w *world) {
	if !w.closing {
		w.left = m.timeout
	}
}

// follow is the server's: it takes a packet of the leader.
func (m *model) follow(w *world, packet stream) {
	switch {
	case packet != ping:
		m.hear(w)
	case w.touched:
		w.touched = false
		w.up.put(touches)
	}
}

// forget drops what makes no difference any more.
func (m *model) forget(w *world) {
	if w.cutUp {
		w.up = 0
	}
	if w.cutDown {
		w.down = 0
	}
	if m.plain() == 0 {
		switch stage(w.stage) {
		case opening, short, hasty:
			w.first = m.timeout
		case closing, proving:
			w.sent = 0
		}
	} else {
		w.anchor, w.first, w.stage, w.due = m.timeout, m.timeout, 0, 0
	}
	if m.fresh {
		w.heard, w.answered = 0, 0
	}
	if m.parts == 0 && m.pauses == 0 {
		w.odd, w.missing = false, m.syncLimit
	}
}

// leave closes the client's connection, and with it all that was on the way.
func (w *world) leave() {
	w.conn, w.out, w.sent, w.heard, w.answered, w.later, w.came = false, 0, 0, 0, 0, 0, never
	w.up, w.down, w.direct, w.touched, w.cutUp, w.cutDown = 0, 0, false, false, false, false
}

// stall: the leader cannot take this packet now.
func (w *world) stalls(packet stream) bool {
	return !w.leads || w.paused || packet == writing && w.rest != follows
}
