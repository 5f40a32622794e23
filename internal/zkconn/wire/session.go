package wire

import "time"

// An Epoch is the number of one session of a Link, counted from 0. It increases when a server
// reports that the session is over: by the code SessionExpired, or by a connect reply that has no
// session, a timeout of 0, or another session than the requested one.
//
// Everything that depends on a session (locks, watches, ephemeral znodes, transactions, requests
// that wait for a connection) belongs to the epoch in which it began, and ends with it.
type Epoch int

// established makes k the current connection. It is called when zksh has accepted a connect
// reply, before go-zookeeper reads it.
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
	if k.died() { // if k dies after this check, the method lost waits for mu and resets cur
		return
	}
	l.cur, k.ReadOnly = k, w.readOnly
	k.Send(l.handler.Connected(k, l.lastZxid)...) // before any other request can be queued
	l.notify()
}

// lost is called when the connection k has ended.
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

// contact is called when a request or a ping has been answered. sent is the send time of the
// request, and zxid is the zxid in the answer, or 0 if there is none.
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

// endSession closes Status.Over, unless it is already closed. The caller must hold mu.
func (l *Link) endSession() {
	select {
	case <-l.over:
	default:
		close(l.over)
	}
}

// endEpoch ends the current session and calls Handler.Expired. The caller must hold mu.
func (l *Link) endEpoch() {
	l.id, l.passwd, l.lastZxid = 0, noPasswd, 0
	l.epoch++
	l.endSession()
	l.over = make(chan struct{})
	l.notify()
	l.handler.Expired()
}

// expired is called when a server reports that the session does not exist. It ends the current
// session, and reports whether there was one.
func (l *Link) expired() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusals++
	if l.id == 0 {
		return false
	}
	l.endEpoch()
	l.hosts.reset() // a server has answered, so the next pass starts without delay
	return true
}

// replaced ends the epoch if the connect reply w grants another session than the current one. The
// caller must hold mu.
//
// ClickHouse Keeper answers each reconnect in this way. The new session was created for this
// connection, so zksh uses it. The old session is lost, and its ephemeral znodes may have been
// deleted when the connection was lost. From then on, zksh therefore assumes that the ensemble ends
// each session together with its connection.
func (l *Link) replaced(w welcome) {
	if l.id != 0 && w.id != l.id {
		l.Tie()
		l.endEpoch()
	}
}

// session returns the id of the current session, or 0 if there is none.
func (l *Link) session() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id
}

// current reports whether k is the current connection of the Link.
func (l *Link) current(k *Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cur == k
}
