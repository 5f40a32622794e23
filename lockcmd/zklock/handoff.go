// # The hand-off
//
// Who waits lists the contenders again when the one ahead has gone, for others may be
// ahead of it still: see queue.go. In one case there is nobody, and the lock is held
// without another list:
//
//   - The last list showed one conflicting contender ahead, whose znode is that of a
//     plain mutex: Curator's, go-zookeeper's, kazoo's Lock, or ours of these names.
//     Our number is one that the server gives before its counter overflows.
//   - What is heard of it first is that it was deleted.
//   - The list, both watches and that event belong to one connection, and nothing has
//     been heard of the own znode, which is watched.
//
// The argument. All that a server tells on one connection is one history, and in order:
// a list, the answers with which watches were left, their events
// (FinalRequestProcessor; a watch of the connection is told at once as the change is
// made, DataTree.processTxn). Call the list's place in that history l, and that of the
// deletion d.
//
//   - The own znode is there from l to d. If it had been deleted in between, its event
//     would have come before the other one. This is not so on another connection, which
//     tells in any order what has happened meanwhile (DataTree.setWatches): there the
//     contenders are listed again.
//   - So the parent is there from l to d, for it has a child, and its counter goes on.
//     A sequential znode made after l has a greater number than the own one, made before
//     l, or one that comes last: see rank. (A parent that was removed and made again
//     counts from 0. That is why the list right behind the create cannot be spared, as
//     little as its number tells about it.)
//   - A znode with a number that its maker has chosen is made by a downgrade alone: a
//     shared one with the number of the exclusive one that it follows. Curator's lets
//     the exclusive one of a read and write lock go later, with nothing to tell it by
//     (InterProcessReadWriteLock); so its names are not a plain mutex's, nor are ours.
//     Of the plain mutexes ours alone become shared, and Lease.Unlock writes to the
//     znode that goes in the same transaction, before it is removed: that change is
//     heard of first.
//   - None of those that were listed before the own znode comes to conflict: a shared
//     one never becomes exclusive but with a new number.
//
// So at d nobody conflicting is ahead, and nobody will be as long as the own znode is
// there. Whether it still is when the event arrives, no list would tell better: one may
// be as old. What tells of its end later is the watch, and of the session's end the
// lease, which is proven, if need be, before the lock counts as held.
package zklock

import "github.com/go-zookeeper/zk"

// plain are the kinds of exclusive znodes that never become shared under their number
// without a change of their data before.
var plain = map[string]bool{"Curator mutex": true, "go-zookeeper lock": true, "kazoo lock": true}

// last reports whether the end of those ahead can leave nobody ahead.
func (e *entry) last(ahead []string) bool {
	if len(ahead) > 1 {
		return false
	}
	n, _ := ParseName(ahead[0])
	own, _ := ParseName(e.names[0])
	return plain[n.Kind] && trusted(own.Number)
}

// undisturbed reports whether an event of the one ahead says that it has gone, and all
// that was heard since the last list was asked for came on one connection, nothing of
// the own znode among it.
func (e *entry) undisturbed(what zk.EventType) bool {
	select {
	case <-e.own:
		e.armed = false
	default:
	}
	return what == zk.EventNodeDeleted && e.armed && !e.asked.IsZero() && begunAt(e.s).Equal(e.asked)
}
