// # The hand-off
//
// When the contender ahead is gone, a waiter normally lists the contenders again, because
// others may still be ahead of it (see queue.go). In one case no other contender can be
// ahead, and the waiter holds the lock without another list. All of the following must be
// true:
//
//   - The last list showed exactly one conflicting contender ahead. Its znode is a plain
//     mutex of Curator, of go-zookeeper, of kazoo's Lock, or of this package under
//     one of these names. Our own number is below the overflow of the server's counter.
//   - The first event of that znode is its deletion.
//   - The list, both watches and the event belong to one connection, and no event of our own
//     znode, which is watched, has arrived on it.
//
// Why this is safe: a server reports one history, in order, on one connection. Lists, the
// answers that set watches, and the events of these watches follow each other in that order
// (FinalRequestProcessor; DataTree.processTxn sends the event of a watch as it makes the
// change). Call the list's place in this history l, and the place of the deletion d.
//
//   - Our znode exists from l to d. If it had been deleted in between, that event would have
//     arrived before the event at d. This does not hold across connections: a new connection
//     reports the changes made in the meantime in any order (DataTree.setWatches). The waiter
//     then lists again.
//   - The parent exists from l to d, because it has a child, and its counter continues. A
//     sequential znode created after l therefore has a greater number than ours, which was
//     created before l, or a number that sorts last (see rank). A parent that was deleted and
//     created again counts from 0. For this reason the list right after the create cannot be
//     skipped, even for the lowest numbers.
//   - An owned lock and a downgrade create znodes with a number of the client's choice. An
//     owned lock replaces the waiting owner's znode by one with the same number; the same
//     transaction first writes to the waiting znode, and a waiter behind it sees that event
//     first. A downgrade creates a shared znode with the number of the exclusive znode that
//     it replaces. Curator deletes the exclusive znode of a read/write lock later, and no
//     event shows the difference from a release (InterProcessReadWriteLock). Therefore,
//     neither Curator's read/write names nor ours count as plain mutexes. Among the plain
//     mutexes, only ours can become shared; before Lease.Unlock deletes such a znode, it
//     writes to it in the same transaction, and the waiter sees that event first.
//   - No contender listed before our znode becomes a conflicting one later: a shared
//     contender becomes exclusive only under a new number.
//
// At d, therefore, no conflicting contender is ahead, and none will be as long as our znode
// exists. Another list would not show more reliably that our znode still exists when the
// event arrives, because the list may be as old as the event. If our znode is deleted later,
// its watch reports this. The lease covers the end of the session; it is proven, if
// necessary, before the lock counts as held.
package zklock

import "github.com/go-zookeeper/zk"

// plainMutexes contains kinds of znodes (see Name.Kind). If the first event of such a znode is
// its deletion, its owner no longer holds the lock. A znode of any other kind may instead have
// been replaced with a shared znode of the same number. No earlier event shows the difference.
var plainMutexes = map[string]bool{"Curator mutex": true, "go-zookeeper lock": true, "kazoo lock": true}

// mayHandOff reports whether e holds the lock as soon as the znode ahead is deleted. If so, e
// need not list the contenders again. ahead contains the names of all conflicting znodes ahead.
func (e *entry) mayHandOff(ahead []string) bool {
	if len(ahead) > 1 {
		return false
	}
	n, _ := ParseName(ahead[0])
	own, _ := ParseName(e.name)
	return plainMutexes[n.Kind] && trusted(own.Number)
}

// undisturbed reports whether the last list of contenders is still reliable. This is the case
// if event is the deletion of the znode ahead, the list was requested on the current
// connection, and no event of our own znode has arrived since.
func (e *entry) undisturbed(event zk.EventType) bool {
	select {
	case <-e.ownEvents:
		e.watched = false
	default:
	}
	return event == zk.EventNodeDeleted && e.watched && !e.listedOn.IsZero() && begunAt(e.s).Equal(e.listedOn)
}
