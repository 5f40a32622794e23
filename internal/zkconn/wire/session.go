package wire

import "time"

// An Epoch is the life of one session of a Link. It ends when a server says that the
// session is over: with a connect reply that carries no session, no time to live, or
// another session than the one that was asked for. Everything that relies on a session
// (locks, watches, ephemeral znodes, transactions, requests that wait for a connection)
// belongs to the epoch in which it began, and ends with it.
type Epoch int

// established is called after an accepted connect reply, before the library reads it.
func (l *Link) established(k *Conn, w welcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending != nil || l.cur != nil {
		return
	}
	l.replaced(w)
	l.id, l.passwd, l.timeout = w.id, w.passwd, w.timeout
	l.lastSent = k.Asked
	l.sample(time.Since(k.Asked))
	l.attempts, l.searching, l.counted = nil, false, time.Time{}
	if k.died() { // if it dies after this check, lost waits for mu
		return
	}
	l.cur, k.ReadOnly = k, w.readOnly
	k.Send(l.handler.Connected(k, l.lastZxid)...) // before anybody else's requests
	l.notify()
}

// lost is called when a connection has ended.
func (l *Link) lost(k *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cur != k {
		return
	}
	l.cur = nil
	l.notify()
	if l.ending == nil {
		l.handler.Disconnected()
	}
}

// contact is called when a request or a ping has been answered. sent is its send time, and zxid is
// the answer's; 0 if it has none.
func (l *Link) contact(sent time.Time, zxid int64) {
	if !sent.IsZero() {
		l.sample(time.Since(sent))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusals = 0
	l.lastZxid = max(l.lastZxid, zxid)
	if sent.After(l.lastSent) {
		l.lastSent = sent
	}
}

// endSession closes Status.Over, unless it is closed. Called with mu held.
func (l *Link) endSession() {
	select {
	case <-l.over:
	default:
		close(l.over)
	}
}

// endEpoch ends the current session, and calls Handler.Expired. Called with mu held.
func (l *Link) endEpoch() {
	l.id, l.passwd, l.lastZxid = 0, noPasswd, 0
	l.epoch++
	l.endSession()
	l.over = make(chan struct{})
	l.notify()
	l.handler.Expired()
}

// expired is called when a server answers that the session does not exist. It ends the current
// session, and reports whether there was one.
func (l *Link) expired() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusals++
	if l.id == 0 {
		return false
	}
	l.endEpoch()
	l.hosts.reset() // a server answered, so the next pass starts without delay
	return true
}

// replaced ends the epoch if a connect reply carries another session than the current one. Called
// with mu held.
//
// ClickHouse Keeper answers each reconnect in this way. zksh uses the session in the reply: the
// server created it for this connection, and nothing was sent in it yet. The old session is lost
// with everything in it. Such a server may have deleted the ephemeral znodes at the disconnect, so
// from now on the ensemble counts as one that ends sessions with their connections.
func (l *Link) replaced(w welcome) {
	if l.id != 0 && w.id != l.id {
		l.Tie()
		l.endEpoch()
	}
}

// session returns the id of the current session.
func (l *Link) session() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id
}

// current reports whether k is the current connection.
func (l *Link) current(k *Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cur == k
}
