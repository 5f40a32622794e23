package sandbox

import (
	"crypto/rand"
	"crypto/subtle"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// A session is a ZooKeeper session. A client can resume it over a new connection until the
// session expires.
type session struct {
	id       int64
	passwd   []byte
	timeout  time.Duration
	deadline time.Time // time at which the session expires if no more requests arrive
	conn     *conn     // current connection of the client; nil if it is disconnected
}

// connect executes a connect request, the first frame of a connection, which opens or resumes a
// session. The caller must hold s.mu.
func (s *Server) connect(c *conn, b []byte) verdict {
	d := jute.NewDecoder(b)
	d.Int() // the protocol version, which the server ignores
	lastZxid, timeout, sid, passwd := d.Long(), d.Int(), d.Long(), d.Buffer()
	if d.Err() != nil {
		return closeNow
	}
	oldClient := len(d.Rest()) == 0 // clients before 3.4 do not send the read-only flag
	c.stats.received++
	s.stats.received++
	if lastZxid > s.zxid {
		// The client has already seen a newer state, on another server.
		return closeNow
	}
	negotiated := min(max(time.Duration(timeout)*time.Millisecond, s.opt.MinTimeout), s.opt.MaxTimeout)
	_, isProduct := s.opt.product()
	if s.leaderless {
		return s.reject(c, s.opt.noSession(), negotiated)
	}
	if s.newSessions() {
		sid = 0
	}
	ok := true
	if sid == 0 {
		if len(s.sessions) >= s.opt.MaxSessions {
			return closeNow
		}
		c.sess = s.open(negotiated)
	} else {
		c.sess, ok = s.reopen(sid, passwd)
	}
	switch {
	case s.opt.RejectReconnects && sid != 0:
		return s.withoutSession(c, 0, sid, -time.Millisecond)
	case !ok && isProduct:
		return s.reject(c, sid, negotiated)
	}
	// In the reply, session id 0 and timeout 0 mean that the session has expired.
	resumed := &session{passwd: make([]byte, 16)}
	if ok {
		resumed = c.sess
		resumed.conn, resumed.timeout = c, negotiated
		s.touch(resumed, s.now())
		s.armTimer(resumed.deadline)
	}
	e := &jute.Encoder{B: make([]byte, 4, 64)}
	e.Int(0, int32(resumed.timeout.Milliseconds()))
	e.Long(resumed.id)
	e.Buffer(resumed.passwd)
	// ClickHouse and RaftKeeper do not send the read-only flag (SERVER_HANDSHAKE_LENGTH is 36).
	if !oldClient && !isProduct {
		e.Bool(false)
	}
	s.stats.reply(c, s.zxid, s.now())
	c.send(finish(e))
	if !ok {
		return closeAfterFlush
	}
	return keepOpen
}

// open creates a new session. As in ZooKeeper, this increments the zxid.
func (s *Server) open(timeout time.Duration) *session {
	s.zxid++
	// A znode that Load has added may be owned by a session with the next id.
	for s.lastSession++; s.tree.ephemerals[s.lastSession] != nil; {
		s.lastSession++
	}
	n := &session{id: s.lastSession, passwd: make([]byte, 16), timeout: timeout}
	// ZooKeeper generates a random password. In ClickHouse and RaftKeeper, the password is 16 zero
	// bytes (see sendHandshake).
	if _, isProduct := s.opt.product(); !isProduct {
		_, _ = rand.Read(n.passwd) // rand.Read never fails
	}
	s.sessions[n.id] = n
	return n
}

// reopen returns the session with the given id and password, for a client that reconnects. It
// returns false if there is no such session. As in ZooKeeper, it closes the session's old
// connection even if the password is wrong.
func (s *Server) reopen(sid int64, passwd []byte) (*session, bool) {
	n := s.sessions[sid]
	if n == nil {
		return nil, false
	}
	if n.conn != nil {
		s.drop(n.conn)
	}
	if subtle.ConstantTimeCompare(n.passwd, passwd) == 0 {
		return nil, false
	}
	return n, true
}

// touch extends a session after a request. It rounds the new deadline up to a whole tick. Therefore
// an idle session expires at most one tick after its timeout.
func (s *Server) touch(n *session, now time.Time) {
	ends := now.Sub(s.started) + n.timeout
	n.deadline = s.started.Add((ends/s.opt.Tick + 1) * s.opt.Tick)
}

// closeSession ends a session and deletes its ephemeral nodes in one transaction.
func (s *Server) closeSession(n *session) {
	s.zxid++
	for _, path := range sortedKeys(s.tree.ephemerals[n.id]) {
		s.tree.delete(path, s.zxid)
	}
	delete(s.tree.ephemerals, n.id)
	delete(s.sessions, n.id)
}

// expire ends all sessions whose deadlines have passed.
func (s *Server) expire(now time.Time) {
	for _, id := range s.sessionIDs() {
		if n := s.sessions[id]; !n.deadline.After(now) {
			s.expireNow(n)
		}
	}
}

func (s *Server) expireNow(n *session) {
	s.closeSession(n)
	if n.conn != nil {
		s.drop(n.conn)
	}
}

// Expire ends the session with the given id, as if its timeout had passed. It reports whether
// there was such a session.
func (s *Server) Expire(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.sessions[id]
	if n != nil {
		s.expireNow(n)
	}
	return n != nil
}

// reap deletes empty containers that have had children. It also deletes TTL nodes without
// children that were not modified during their time to live. Each deletion is a transaction of
// its own.
func (s *Server) reap(now time.Time) {
	for _, path := range sortedKeys(s.tree.reapable) {
		n := s.tree.nodes[path]
		if len(n.children) > 0 {
			continue
		}
		if n.owner == ownerContainer && n.creates == 0 {
			continue // containers that have never had a child remain
		}
		if isTTL(n.owner) && now.UnixMilli()-n.mtime <= n.owner&^ttlMask {
			continue
		}
		s.zxid++
		s.tree.delete(path, s.zxid)
	}
}

// onTimer is called when the server's timer fires. It ends expired sessions, deletes expired
// nodes, and sets the timer again.
func (s *Server) onTimer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	now := s.now()
	s.expire(now)
	if !s.nextReap.IsZero() && !now.Before(s.nextReap) {
		s.reap(now)
		s.nextReap = time.Time{}
	}
	s.timerAt = time.Time{}
	for _, n := range s.sessions {
		s.armTimer(n.deadline)
	}
	s.scheduleReaping()
}

// armTimer makes the timer fire at the time t, or leaves it unchanged if it fires earlier. A timer
// needs no CPU time while the server has no sessions, unlike a ticker.
func (s *Server) armTimer(t time.Time) {
	if s.opt.Now != nil || !s.timerAt.IsZero() && !t.Before(s.timerAt) {
		return
	}
	s.timerAt = t
	s.timer.Reset(max(t.Sub(s.now()), 0))
}

// scheduleReaping sets the timer for the next call of reap, if the tree contains containers or
// TTL nodes.
func (s *Server) scheduleReaping() {
	if len(s.tree.reapable) == 0 {
		return
	}
	if s.nextReap.IsZero() {
		s.nextReap = s.now().Add(s.opt.ReapEvery)
	}
	s.armTimer(s.nextReap)
}
