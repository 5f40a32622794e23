package sandbox

import (
	"crypto/rand"
	"crypto/subtle"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// A session is a ZooKeeper session. It can outlive its connection: until it expires, a client
// can resume it over a new connection.
type session struct {
	id       int64
	passwd   []byte
	timeout  time.Duration
	deadline time.Time // time at which the session expires unless a request arrives earlier
	conn     *conn     // nil while disconnected
}

// connect executes a connect request, which is the first frame of a connection. It opens or
// resumes a session. The caller must hold s.mu.
func (s *Server) connect(c *conn, b []byte) verdict {
	d := jute.NewDecoder(b)
	d.Int() // protocol version
	lastZxid, timeout, sid, passwd := d.Long(), d.Int(), d.Long(), d.Buffer()
	if d.Err() != nil {
		return closeNow
	}
	oldClient := len(d.Rest()) == 0 // clients before 3.4 send no read-only flag
	c.stats.received++
	s.stats.received++
	if lastZxid > s.zxid {
		// The client has seen a later state: it was connected to another server.
		return closeNow
	}
	negotiated := min(max(time.Duration(timeout)*time.Millisecond, s.opt.MinTimeout), s.opt.MaxTimeout)
	_, isProduct := s.opt.As.product()
	if s.leaderless {
		return s.reject(c, s.opt.As.noSession(), negotiated)
	}
	if s.newSessions() {
		sid = 0
	}
	ok := true
	if sid == 0 {
		if len(s.sessions) >= s.opt.MaxSessions {
			s.stats.rejected++
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
	resumed := &session{passwd: make([]byte, 16)} // id 0 and timeout 0 mean that the session has expired
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
	if !oldClient && !isProduct { // SERVER_HANDSHAKE_LENGTH is 36 in both products
		e.Bool(false)
	}
	s.stats.reply(c, len(e.B)-4, s.zxid, s.now())
	c.send(finish(e))
	if !ok {
		return closeAfterFlush
	}
	return keepOpen
}

// open creates a session. As in ZooKeeper, this increments the zxid.
func (s *Server) open(timeout time.Duration) *session {
	s.zxid++
	s.lastSession++
	n := &session{id: s.lastSession, passwd: make([]byte, 16), timeout: timeout}
	if _, isProduct := s.opt.As.product(); !isProduct { // the password in products is 16 zero bytes (sendHandshake)
		_, _ = rand.Read(n.passwd) // never fails
	}
	s.sessions[n.id] = n
	return n
}

// reopen returns the session with the given id and password, or false if no such session
// exists. As in ZooKeeper, it closes the session's old connection even if the password is wrong.
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

// touch extends a session because of a request at the time now. Deadlines are rounded up to
// whole ticks, so a session expires at most one tick later than its timeout after the last request.
func (s *Server) touch(n *session, now time.Time) {
	ends := now.Sub(s.started) + n.timeout
	n.deadline = s.started.Add((ends/s.opt.Tick + 1) * s.opt.Tick)
}

// closeSession ends a session and deletes its ephemeral nodes, all in one transaction.
func (s *Server) closeSession(n *session) {
	s.zxid++
	for _, path := range sortedKeys(s.tree.ephemerals[n.id]) {
		s.tree.delete(path, s.zxid)
	}
	delete(s.tree.ephemerals, n.id)
	delete(s.sessions, n.id)
}

// expire ends the sessions whose deadlines have passed.
func (s *Server) expire(now time.Time) {
	for _, id := range s.sessionIDs() {
		if n := s.sessions[id]; !n.deadline.After(now) {
			s.expireNow(n)
		}
	}
}

func (s *Server) expireNow(n *session) {
	s.stats.expired++
	s.closeSession(n)
	if n.conn != nil {
		s.drop(n.conn)
	}
}

// Expire ends the session with the given id at once, as if its timeout had passed. It reports
// whether the session existed.
func (s *Server) Expire(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.sessions[id]
	if n != nil {
		s.expireNow(n)
	}
	return n != nil
}

// reap deletes each container that has lost its last child, and each TTL node without children
// that has not been modified during its time to live. Every deletion gets its own zxid.
func (s *Server) reap(now time.Time) {
	for _, path := range sortedKeys(s.tree.reapable) {
		n := s.tree.nodes[path]
		if len(n.children) > 0 {
			continue
		}
		if n.owner == ownerContainer && n.creates == 0 {
			continue // keep a container that has never had a child
		}
		if isTTL(n.owner) && now.UnixMilli()-n.mtime <= n.owner&^ttlMask {
			continue
		}
		s.zxid++
		s.tree.delete(path, s.zxid)
	}
}

// onTimer runs when the timer fires. It expires sessions, reaps containers and TTL nodes, and
// sets the timer for the next deadline.
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

// armTimer makes sure that the timer fires at time t or earlier. The server has one timer
// instead of a ticker, so that it uses no CPU while it has no sessions.
func (s *Server) armTimer(t time.Time) {
	if s.opt.Now != nil || !s.timerAt.IsZero() && !t.Before(s.timerAt) {
		return
	}
	s.timerAt = t
	s.timer.Reset(max(t.Sub(s.now()), 0))
}

// scheduleReaping sets the timer for the next call of reap if the tree has containers or TTL
// nodes.
func (s *Server) scheduleReaping() {
	if len(s.tree.reapable) == 0 {
		return
	}
	if s.nextReap.IsZero() {
		s.nextReap = s.now().Add(s.opt.ReapEvery)
	}
	s.armTimer(s.nextReap)
}
