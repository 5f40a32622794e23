package sandbox

import (
	"crypto/rand"
	"crypto/subtle"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// session outlives its connections.
type session struct {
	id       int64
	passwd   []byte
	timeout  time.Duration
	deadline time.Time // expires then, unless heard of before
	conn     *conn     // nil while disconnected
}

// connect carries out the first frame of a connection: it opens a session or
// goes on with one. The server is locked.
func (s *Server) connect(c *conn, b []byte) verdict {
	d := jute.NewDecoder(b)
	d.Int() // protocol version
	lastZxid, timeout, sid, passwd := d.Long(), d.Int(), d.Long(), d.Buffer()
	if d.Err() != nil {
		return cut
	}
	oldClient := len(d.Rest()) == 0 // no read-only flag, sent since 3.4
	c.stats.received++
	s.stats.received++
	if lastZxid > s.zxid {
		// It has seen a future that is not ours: another server's client.
		return cut
	}
	keep := min(max(time.Duration(timeout)*time.Millisecond, s.opt.MinTimeout), s.opt.MaxTimeout)
	_, compatible := s.opt.As.product()
	if s.leaderless {
		return s.reject(c, s.opt.As.noSession(), keep)
	}
	if s.newSessions() {
		sid = 0
	}
	ok := true
	if sid == 0 {
		if len(s.sessions) >= s.opt.MaxSessions {
			s.stats.rejected++
			return cut
		}
		c.sess = s.open(keep)
	} else {
		c.sess, ok = s.reopen(sid, passwd)
	}
	switch {
	case s.opt.Deny && sid != 0:
		return s.withoutSession(c, 0, sid, -time.Millisecond)
	case !ok && compatible:
		return s.reject(c, sid, keep)
	}
	answer := &session{passwd: make([]byte, 16)} // none
	if ok {
		answer = c.sess
		answer.conn, answer.timeout = c, keep
		s.touch(answer, s.now())
		s.wake(answer.deadline)
	}
	e := &jute.Encoder{B: make([]byte, 4, 64)}
	e.Int(0, int32(answer.timeout.Milliseconds()))
	e.Long(answer.id)
	e.Buffer(answer.passwd)
	if !oldClient && !compatible { // SERVER_HANDSHAKE_LENGTH is 36 in both products
		e.Bool(false)
	}
	s.stats.reply(c, len(e.B)-4, s.zxid, s.now())
	c.send(finish(e))
	if !ok {
		return leave
	}
	return stay
}

// open makes a new session; like the real one it takes a zxid.
func (s *Server) open(timeout time.Duration) *session {
	s.zxid++
	s.lastSession++
	n := &session{id: s.lastSession, passwd: make([]byte, 16), timeout: timeout}
	if _, compatible := s.opt.As.product(); !compatible { // which send 16 zeros, and check none (sendHandshake)
		_, _ = rand.Read(n.passwd) // never fails
	}
	s.sessions[n.id] = n
	return n
}

// reopen finds the session a client comes back with. Its former connection is
// closed even if the password is wrong, as the real one does it.
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

// touch puts a session's end off. Expiry goes by whole ticks: a session ends
// between its timeout and one tick more after the last sign of life.
func (s *Server) touch(n *session, now time.Time) {
	ends := now.Sub(s.started) + n.timeout
	n.deadline = s.started.Add((ends/s.opt.Tick + 1) * s.opt.Tick)
}

// closeSession ends a session and deletes its ephemeral nodes, all in one zxid.
func (s *Server) closeSession(n *session) {
	s.zxid++
	for _, path := range sortedKeys(s.tree.ephemerals[n.id]) {
		s.tree.delete(path, s.zxid)
	}
	delete(s.tree.ephemerals, n.id)
	delete(s.sessions, n.id)
}

// expire ends the sessions that have not been heard of for too long.
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

// Expire ends a session at once, as if nothing had been heard of its client for
// too long. It says whether there was such a session.
func (s *Server) Expire(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.sessions[id]
	if n != nil {
		s.expireNow(n)
	}
	return n != nil
}

// reap deletes containers that have lost their last child, and nodes whose time
// to live has passed without a change while they had no children. One zxid each.
func (s *Server) reap(now time.Time) {
	for _, path := range sortedKeys(s.tree.reapable) {
		n := s.tree.nodes[path]
		if len(n.children) > 0 {
			continue
		}
		if n.owner == ownerContainer && n.creates == 0 {
			continue // has never had a child
		}
		if isTTL(n.owner) && now.UnixMilli()-n.mtime <= n.owner&^ttlMask {
			continue
		}
		s.zxid++
		s.tree.delete(path, s.zxid)
	}
}

// alarm is what the timer calls.
func (s *Server) alarm() {
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
	s.armed = time.Time{}
	for _, n := range s.sessions {
		s.wake(n.deadline)
	}
	s.wakeForReaping()
}

// wake makes sure that the timer rings at t or before. There is one timer and no
// ticking goroutine: a server without sessions sleeps.
func (s *Server) wake(t time.Time) {
	if s.opt.Now != nil || !s.armed.IsZero() && !t.Before(s.armed) {
		return
	}
	s.armed = t
	s.timer.Reset(max(t.Sub(s.now()), 0))
}

// wakeForReaping plans the next look at containers and nodes with a time to
// live, if there are any.
func (s *Server) wakeForReaping() {
	if len(s.tree.reapable) == 0 {
		return
	}
	if s.nextReap.IsZero() {
		s.nextReap = s.now().Add(s.opt.ReapEvery)
	}
	s.wake(s.nextReap)
}
