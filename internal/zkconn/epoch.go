package zkconn

import (
	"errors"
	"maps"
	"slices"
)

// An epoch is the life of one session of a link. It ends when a server says that the
// session is over: with a connect reply that carries no session, no time to live, or
// another session than the one that was asked for. Everything that relies on a session
// (locks, watches, ephemeral znodes, transactions, requests that wait for a connection)
// belongs to the epoch in which it began, and ends with it.
type epoch int

// endEpoch ends the present session: whatever belongs to it is over, and reported so.
// Called with mu held.
func (l *link) endEpoch() {
	gone := l.root.clients(slices.Sorted(maps.Keys(l.ephemerals)))
	l.watches, l.ephemerals = watchTable{}, pathSet{}
	l.id, l.passwd, l.lastZxid = 0, noPasswd, 0
	l.epoch++
	l.endSession()
	l.over = make(chan struct{})
	l.notify()
	l.out.put(Event{Type: eventNone, State: Expired, Gone: gone})
}

// expired runs when a server answers that there is no session. It reports whether we had
// one, which is over now.
func (l *link) expired() bool {
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
func (l *link) replaced(w welcome) {
	if l.id != 0 && w.id != l.id {
		l.tied.Store(true)
		l.endEpoch()
	}
}

// rejecting is the protocol version with which ClickHouse Keeper and RaftKeeper reject a
// connection.
const rejecting = 42

var (
	errNoLeader = errors.New("the server has no leader")
	errBygone   = errors.New("the session ended while zksh was connecting")
)

// judged is what a connect reply means for who asked for a session, 0 for a new one. That
// of a session that is over comes back with id 0.
//
// To ZooKeeper's own client a timeout up to 0 is the end of the session, whatever the id
// is. RaftKeeper reports an expiry so, with the old id and the rejecting version, which
// otherwise only says that there is no leader.
func (w welcome) judged(version int32, asked int64) (welcome, error) {
	over := w.timeout <= 0
	switch {
	case over && asked != 0:
		return welcome{}, nil
	case version == rejecting && (asked == 0 || w.id != asked):
		return w, errNoLeader
	case over:
		return welcome{}, nil
	}
	return w, nil
}
