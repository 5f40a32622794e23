//go:build !race

package zklock

import (
	"fmt"
	"time"
)

// successors calls f with each state that may follow w, and with a description of the step.
func (m *model) successors(w *world, f func(string, world)) {
	step := func(what string, change func(*world)) {
		n := *w
		change(&n)
		if !n.leads { // its followers and clients are cut off
			if n.disconnect(); n.rest != elected {
				n.rest, n.newLeft = elected, m.timeout
			}
			n.paused, n.closing, n.closedNow, n.oddPing, n.sincePing, n.left, n.quorumTicks, n.silence = false, false, false, false, 0, 0, 0, 0
		}
		m.normalize(&n)
		f(what, n)
	}
	must := m.clientSteps(w, step)
	must = m.packetSteps(w, step) || must
	must = m.leaderSteps(w, step) || must
	must = m.restSteps(w, step) || must
	if !must {
		step("", m.passTime)
	}
}

// clientSteps makes the steps of the client. It reports whether one of them must happen
// now.
func (m *model) clientSteps(w *world, step func(string, func(*world))) (must bool) {
	send := func(what string, packet stream) {
		if w.onLeader && w.stalls(packet) {
			return
		}
		must = m.promptClient
		step("client sends a "+what, func(w *world) {
			if !w.held && packet != clientPing && packet != anchorPing && (m.reattached || stage(w.stage) != shortCheck) {
				m.startLock(w)
			}
			w.request, w.requestAge = packet, 0
			m.serverReceives(w, packet)
		})
	}
	switch {
	case !w.conn && w.held:
		m.attachSteps(w, step)
	case !w.conn || w.request != 0:
	case w.held:
		if kind := m.nextRequest(w); kind != 0 {
			send(map[stream]string{clientPing: "ping", syncRequest: "sync", txnRequest: "check"}[kind], kind)
		}
	case stage(w.stage) == shortCheck && !m.reattached:
		send("check", txnRequest)
	case stage(w.stage) == shortCheck:
		send("ping to build on", anchorPing)
		send("check", txnRequest)
		must = false
	default:
		send("ping", clientPing)
		send("ping to build on", anchorPing)
		if w.olderAnswered >= m.minAge() {
			send("create", txnRequest)
			send("sync, because its znode is old", syncRequest)
		}
		must = false
	}
	if w.conn && w.held && m.moves > w.moves {
		step("client loses its connection", func(w *world) { w.disconnect(); w.moves++ })
	}
	return must
}

// startLock requests the lock: it starts a short proof, unless one check proves the connect
// request.
func (m *model) startLock(w *world) {
	c := m.proofOf(w)
	if !m.reattached {
		c.startShort(epoch.Add(-time.Duration(w.olderSent)))
		w.olderSent, w.olderAnswered = 0, 0
	}
	if w.laterAnswered > m.minAge() {
		w.laterSent, w.laterAnswered = 0, never
	}
	m.store(w, c)
}

// minAge is proof.minAge in units.
func (m *model) minAge() int8 {
	c := newProof(time.Duration(m.timeout))
	return int8(c.minAge())
}

// attachSteps reconnects the client: to the old leader or one of its followers, with or
// without a quorum, or to a server of the new leader.
func (m *model) attachSteps(w *world, step func(string, func(*world))) {
	attached := func(w *world, direct bool) {
		w.conn, w.onLeader, w.left = true, direct, m.timeout
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
					*w = world{laterAnswered: never, proven: w.proven, toProve: w.toProve, firstSent: w.firstSent, due: w.due, stage: w.stage, held: true, moves: w.moves,
						pauses: w.pauses, partitions: w.partitions, leads: true, sincePing: phase, quorumTicks: m.syncLimit}
					attached(w, direct)
				})
			}
		}
	}
}

// packetSteps makes the steps of the links. It reports whether one of them must happen now.
func (m *model) packetSteps(w *world, step func(string, func(*world))) (must bool) {
	if w.up != 0 && !w.stalls(w.up&7) {
		must = m.promptLinks
		step("leader takes a packet of the server", func(w *world) { m.leaderReceives(w, w.up.take()) })
	}
	if w.down != 0 {
		must = m.promptLinks
		step("its server takes a packet of the leader", func(w *world) { m.followerReceives(w, w.down.take()) })
	}
	if m.promptLinks && w.conn && !w.onLeader {
		if !w.cutUp {
			step("cut: server to leader", func(w *world) { w.cutUp = true })
		}
		if !w.cutDown {
			step("cut: leader to server", func(w *world) { w.cutDown = true })
		}
	}
	return must
}

// leaderSteps makes the steps that the leader takes by itself. It reports whether one of
// them must happen now.
func (m *model) leaderSteps(w *world, step func(string, func(*world))) (must bool) {
	if !w.leads {
		return false
	}
	if w.paused {
		step("leader goes on", func(w *world) { w.paused = false })
		if w.rest == elected {
			step("leader goes on, and sees closed connections", func(w *world) { w.paused, w.quorumTicks = false, 0 })
		}
		return false
	}
	if m.pauses > w.pauses {
		step("leader stands still", func(w *world) { w.paused, w.closedNow = true, false; w.pauses++ })
	}
	if w.sincePing >= m.tick/2 {
		must = w.sincePing >= m.tick/2+m.loopDelay
		step("leader's loop", func(w *world) {
			w.sincePing, w.oddPing = 0, !w.oddPing
			if w.oddPing {
				w.quorumTicks--
			}
			if w.rest == follows {
				w.quorumTicks, w.silence = m.syncLimit, 0
			}
			w.leads = w.quorumTicks >= 0
			if w.conn && !w.onLeader {
				w.down.put(leaderPing)
			}
		})
	}
	if w.left == 0 && !w.closing {
		must = true
		step("leader: the session's time is over", func(w *world) { w.closing, w.closedNow = true, m.raceAtExpiry; w.over = w.over || w.rest == follows })
	}
	return must
}

// restSteps makes the steps of the rest of the ensemble. It reports whether one of them
// must happen now.
func (m *model) restSteps(w *world, step func(string, func(*world))) (must bool) {
	elect := func(w *world) { w.rest, w.newLeft, w.silence = elected, m.timeout, 0 }
	if w.leads && w.rest == follows && m.partitions > w.partitions {
		step("leader and rest: silence", func(w *world) { w.rest = apart; w.partitions++ })
		step("the rest elects another leader; the old one has not noticed", func(w *world) { elect(w); w.partitions++ })
		if !w.paused {
			step("the rest elects another leader; the old one has seen it go", func(w *world) { elect(w); w.partitions++; w.quorumTicks = 0 })
		}
	}
	if w.leads && w.rest == apart {
		step("leader and rest: heard again", func(w *world) {
			w.rest, w.silence, w.quorumTicks = follows, 0, m.syncLimit
			w.over = w.over || w.closing
		})
		if !w.paused && w.quorumTicks < m.syncLimit {
			step("leader hears the rest", func(w *world) { w.quorumTicks = m.syncLimit })
		}
	}
	if w.leads && (w.rest == apart || w.rest == follows && w.paused) && w.silence >= m.syncLimit*m.tick {
		must = true
		step("the rest gives the leader up", elect)
	}
	if w.rest == elected && w.newLeft == 0 && !w.over {
		must = true
		step("new leader: the session's time is over", func(w *world) { w.over = true })
	}
	return must
}

// passTime advances the time by one unit.
func (m *model) passTime(w *world) {
	older := func(age *int8, most int8) { *age = min(*age+1, most) }
	older(&w.proven, m.timeout)
	older(&w.toProve, m.timeout)
	older(&w.firstSent, m.timeout)
	w.due = max(w.due-1, 0)
	if w.request != 0 {
		older(&w.requestAge, m.timeout)
	}
	if !w.held {
		older(&w.olderSent, m.timeout)
		older(&w.olderAnswered, m.minAge())
	}
	if w.laterAnswered != never {
		older(&w.laterSent, m.timeout)
		older(&w.laterAnswered, m.minAge()+1)
	}
	w.closedNow = false
	if w.leads {
		older(&w.sincePing, m.tick/2+m.loopDelay)
		w.left = max(w.left-1, 0)
		if w.rest == apart || w.paused {
			older(&w.silence, m.syncLimit*m.tick)
		}
	}
	w.newLeft = max(w.newLeft-1, 0)
}
