//go:build !race

package zklock

import (
	"fmt"
	"time"
)

// after calls f for each state that may follow w, with what has happened.
func (m *model) successors(w *world, f func(string, world)) {
	step := func(what string, change func(*world)) {
		n := *w
		change(&n)
		if !n.leads { // its learners and clients are cut off
			if n.disconnect(); n.rest != elected {
				n.rest, n.anew = elected, m.timeout
			}
			n.paused, n.closing, n.fresh, n.odd, n.pinged, n.left, n.missing, n.silence = false, false, false, false, 0, 0, 0, 0
		}
		m.normalize(&n)
		f(what, n)
	}
	must := m.client(w, step)
	must = m.packets(w, step) || must
	must = m.leader(w, step) || must
	must = m.others(w, step) || must
	if !must {
		step("", m.age)
	}
}

// client is what it does; true if that must be now.
func (m *model) client(w *world, step func(string, func(*world))) (must bool) {
	send := func(what string, packet stream) {
		if w.direct && w.stalls(packet) {
			return
		}
		must = m.eager
		step("client sends a "+what, func(w *world) {
			if !w.held && packet != clientPing && packet != anchorPing && (m.fresh || stage(w.stage) != shortCheck) {
				m.startLock(w)
			}
			w.request, w.requestAge = packet, 0
			m.serverReceives(w, packet)
		})
	}
	switch {
	case !w.conn && w.held:
		m.attach(w, step)
	case !w.conn || w.request != 0:
	case w.held:
		if kind := m.nextRequest(w); kind != 0 {
			send(map[stream]string{clientPing: "ping", syncRequest: "sync", txnRequest: "check"}[kind], kind)
		}
	case stage(w.stage) == shortCheck && !m.fresh:
		send("check", txnRequest)
	case stage(w.stage) == shortCheck:
		send("ping to lean on", anchorPing)
		send("check", txnRequest)
		must = false
	default:
		send("ping", clientPing)
		send("ping to lean on", anchorPing)
		if w.answered >= m.minAge() {
			send("create", txnRequest)
			send("sync, for its znode was made long ago", syncRequest)
		}
		must = false
	}
	if w.conn && w.held && m.moves > w.moved {
		step("client loses its connection", func(w *world) { w.disconnect(); w.moved++ })
	}
	return must
}

// ask is what the client does as the lock is asked for: a hasty proof, but where one
// check proves the connect request.
func (m *model) startLock(w *world) {
	c := m.proofOf(w)
	if !m.fresh {
		c.startShort(epoch.Add(-time.Duration(w.heard)))
		w.heard, w.answered = 0, 0
	}
	if w.came > m.minAge() {
		w.later, w.came = 0, never
	}
	m.store(w, c)
}

// old is how old the answer must be that a lock on an old connection leans on.
func (m *model) minAge() int8 {
	c := newProof(time.Duration(m.timeout))
	return int8(c.minAge())
}

// attach is how the client comes back: to the old leader or one of its followers,
// whether or not there is a quorum behind it, or to a new one.
func (m *model) attach(w *world, step func(string, func(*world))) {
	attached := func(w *world, direct bool) {
		w.conn, w.direct, w.left = true, direct, m.timeout
		c := m.proofOf(w)
		c.attach(epoch)
		if m.rule == anyAttach {
			c.prove(epoch)
		}
		m.store(w, c)
	}
	for _, direct := range []bool{false, true} {
		if w.leads && !w.paused && !w.closing {
			step(fmt.Sprintf("client attaches (to the leader itself: %t)", direct), func(w *world) { attached(w, direct) })
		}
		if w.rest == elected && !w.over {
			for phase := range m.tick / 2 {
				step(fmt.Sprintf("client attaches under the new leader (itself: %t)", direct), func(w *world) {
					*w = world{came: never, proven: w.proven, toProve: w.toProve, firstSent: w.firstSent, due: w.due, stage: w.stage, held: true, moved: w.moved,
						pauses: w.pauses, parts: w.parts, leads: true, pinged: phase, missing: m.syncLimit}
					attached(w, direct)
				})
			}
		}
	}
}

// packets is what the links do; true if that must be now.
func (m *model) packets(w *world, step func(string, func(*world))) (must bool) {
	if w.up != 0 && !w.stalls(w.up&7) {
		must = m.prompt
		step("leader takes a packet of the server", func(w *world) { m.leaderReceives(w, w.up.take()) })
	}
	if w.down != 0 {
		must = m.prompt
		step("its server takes a packet of the leader", func(w *world) { m.followerReceives(w, w.down.take()) })
	}
	if m.prompt && w.conn && !w.direct {
		if !w.cutUp {
			step("cut: server to leader", func(w *world) { w.cutUp = true })
		}
		if !w.cutDown {
			step("cut: leader to server", func(w *world) { w.cutDown = true })
		}
	}
	return must
}

// leader is what it does by itself; true if that must be now.
func (m *model) leader(w *world, step func(string, func(*world))) (must bool) {
	if !w.leads {
		return false
	}
	if w.paused {
		step("leader goes on", func(w *world) { w.paused = false })
		if w.rest == elected {
			step("leader goes on, and sees closed connections", func(w *world) { w.paused, w.missing = false, 0 })
		}
		return false
	}
	if m.pauses > w.pauses {
		step("leader stands still", func(w *world) { w.paused, w.fresh = true, false; w.pauses++ })
	}
	if w.pinged >= m.tick/2 {
		must = w.pinged >= m.tick/2+m.late
		step("leader's loop", func(w *world) {
			w.pinged, w.odd = 0, !w.odd
			if w.odd {
				w.missing--
			}
			if w.rest == follows {
				w.missing, w.silence = m.syncLimit, 0
			}
			w.leads = w.missing >= 0
			if w.conn && !w.direct {
				w.down.put(leaderPing)
			}
		})
	}
	if w.left == 0 && !w.closing {
		must = true
		step("leader: the session's time is over", func(w *world) { w.closing, w.fresh = true, m.race; w.over = w.over || w.rest == follows })
	}
	return must
}

// others is what the rest of the ensemble does; true if it must be now.
func (m *model) others(w *world, step func(string, func(*world))) (must bool) {
	elect := func(w *world) { w.rest, w.anew, w.silence = elected, m.timeout, 0 }
	if w.leads && w.rest == follows && m.parts > w.parts {
		step("leader and rest: silence", func(w *world) { w.rest = apart; w.parts++ })
		step("the rest elects another leader; the old one has not noticed", func(w *world) { elect(w); w.parts++ })
		if !w.paused {
			step("the rest elects another leader; the old one has seen it go", func(w *world) { elect(w); w.parts++; w.missing = 0 })
		}
	}
	if w.leads && w.rest == apart {
		step("leader and rest: heard again", func(w *world) {
			w.rest, w.silence, w.missing = follows, 0, m.syncLimit
			w.over = w.over || w.closing
		})
		if !w.paused && w.missing < m.syncLimit {
			step("leader hears the rest", func(w *world) { w.missing = m.syncLimit })
		}
	}
	if w.leads && (w.rest == apart || w.rest == follows && w.paused) && w.silence >= m.syncLimit*m.tick {
		must = true
		step("the rest gives the leader up", elect)
	}
	if w.rest == elected && w.anew == 0 && !w.over {
		must = true
		step("new leader: the session's time is over", func(w *world) { w.over = true })
	}
	return must
}

// age lets a unit of time pass.
func (m *model) age(w *world) {
	older := func(age *int8, most int8) { *age = min(*age+1, most) }
	older(&w.proven, m.timeout)
	older(&w.toProve, m.timeout)
	older(&w.firstSent, m.timeout)
	w.due = max(w.due-1, 0)
	if w.request != 0 {
		older(&w.requestAge, m.timeout)
	}
	if !w.held {
		older(&w.heard, m.timeout)
		older(&w.answered, m.minAge())
	}
	if w.came != never {
		older(&w.later, m.timeout)
		older(&w.came, m.minAge()+1)
	}
	w.fresh = false
	if w.leads {
		older(&w.pinged, m.tick/2+m.late)
		w.left = max(w.left-1, 0)
		if w.rest == apart || w.paused {
			older(&w.silence, m.syncLimit*m.tick)
		}
	}
	w.anew = max(w.anew-1, 0)
}
