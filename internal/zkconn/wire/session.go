package wire

import "time"

// An Epoch is the life of one session of a Link. It ends when a server says that the
// session is over: with a connect reply that carries no session, no time to live, or
// another session than the one that was asked for. Everything that relies on a session
// (locks, watches, ephemeral znodes, transactions, requests that wait for a connection)
// belongs to the epoch in which it began, and ends with it.
type Epoch int

// established runs when a connect reply was good, before the library knows.
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
	if k.died() { // if it dies from now on, lost waits for this to end
		return
	}
	l.cur, k.ReadOnly = k, w.readOnly
	k.Send(l.handler.Connected(k, l.lastZxid)...) // before anybody else's requests
	l.notify()
}

// lost runs when a connection has ended.
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

// contact runs when a request or a ping that was sent then has been answered, at
// this zxid, if the answer has one.
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

// endSession reports the end to all that are pinned to the session; once. Called with mu held.
func (l *Link) endSession() {
	select {
	case <-l.over:
	default:
		close(l.over)
	}
}

// endEpoch ends the present session: whatever belongs to it is over, and reported so.
// Called with mu held.
func (l *Link) endEpoch() {
	l.id, l.passwd, l.lastZxid = 0, noPasswd, 0
	l.epoch++
	l.endSession()
	l.over = make(chan struct{})
	l.notify()
	l.handler.Expired()
}

// expired runs when a server answers that there is no session. It reports whether we had
// one, which is over now.
func (l *Link) expired() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusals++
	if l.id == 0 {
		return false
	}
	l.endEpoch()
	l.hosts.reset() // a server was there: the search for one starts afresh
	return true
}

// replaced ends the epoch if a connect reply carries another session than the present
// one. Called with mu held.
//
// ClickHouse Keeper answers each reconnect in this way. The session in the reply was made
// for this connection and nothing was sent in it yet, so it is as good as one that a
// further connect request would bring, and is used. The old session is lost with
// everything in it. A server that does not keep a session for the next connection may
// have deleted its ephemeral znodes at the disconnect, so from now on the ensemble counts
// as one that does.
func (l *Link) replaced(w welcome) {
	if l.id != 0 && w.id != l.id {
		l.Tie()
		l.endEpoch()
	}
}

// session returns the present id.
func (l *Link) session() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id
}

// current reports whether a connection is the present one.
func (l *Link) current(k *Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cur == k
}
