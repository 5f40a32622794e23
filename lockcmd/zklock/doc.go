// # The lease
//
// A held lock is a znode, the znode is a session's, and the session is the
// leader's to end: when it has not heard of it for the session's timeout T. A
// client that wants to be gone before that must know since when the leader
// counts. An answered ping does not tell: a follower answers it by itself
// (FinalRequestProcessor), also when it is cut off from the leader together with
// its client. So only what the leader is proven to have heard of, with a quorum
// behind it, extends the lease. The type proof, in rounds.go, is the rule.
//
// What a ZooKeeper does (classes and methods of org.apache.zookeeper.server and
// .quorum, read in 3.8.0):
//
//   - A follower notes each session it has a request of (ZooKeeperServer.touch,
//     LearnerSessionTracker.touchSession), and tells the leader in one place
//     only: its answer to the leader's ping (Learner.ping). The leader pings each
//     half tick (Leader.lead), and counts anew as it takes the answer
//     (LearnerHandler.run, PING: Leader.touch).
//   - A sync or a transaction that a follower passes on touches nothing at the
//     leader (LearnerHandler.run, REQUEST: LeaderZooKeeperServer.submitLearnerRequest).
//     A client of the leader itself touches with each request. To attach a session
//     touches at the leader wherever it is done (ZooKeeperServer.revalidateSession,
//     Learner.validateSession, Leader.revalidateSession). To make a session is a
//     transaction, and the leader counts from it (PrepRequestProcessor:
//     trackSession).
//   - Leader and follower speak over one stream each way, in order, and each side
//     takes one packet after the other (LearnerHandler.queuePacket and run,
//     Follower.followLeader, Learner.writePacket). When the stream ends the
//     follower closes its clients' connections: one connection of a client never
//     outlives it.
//   - A sync needs no quorum (Leader.processSync). A transaction does, and the
//     leader refuses it to a session that it is ending (SessionTrackerImpl.checkSession,
//     called by PrepRequestProcessor for each check of a multi).
//   - A leader that has lost its quorum goes on for up to a tick if it sees the
//     connections closed, for up to syncLimit + 1 ticks if not (Leader.lead,
//     LearnerHandler.synced). A new leader gives each session its full T, from a
//     moment after a quorum has left the old one (Leader.lead: waitForNewLeaderAck,
//     then startZkServer; the constructor of SessionTrackerImpl).
//
// The rule. A round is a sync, its answer, a wait of w = T/16, a sync, its answer,
// and a transaction that checks the own znode. The next round begins D = T/4 after
// the end of the last. When a round ends with OK, the leader surely counts from
// the sending of the first sync of the round before, or from later: the lease is
// T from then, less a hundredth for clocks.
//
// The argument. Call that sending s.
//
//   - The server had noted the session by the answer to that first sync, so after
//     s. This round's first sync reaches the leader D + w later at the least. No
//     session is shorter than two ticks, so D is half a tick or more: since the
//     server's note the leader has sent a ping, or one is due. If one is due, its
//     loop stood still with the rest of it, and comes within w. So there is a ping
//     in the stream to the server, after the note, and before the answer to the
//     second sync.
//   - That answer has come, so the server had taken the ping before, and put its
//     reply, which names the session, in the stream to the leader. (Or an earlier
//     ping's reply named it already, after the note as well.) The check was sent
//     after the answer, so it stands behind the reply in the stream. The leader
//     took the reply first: it touched the session later than s. It did not refuse
//     the check: the session was not being ended, so the touch counted.
//   - The check is committed: after s, each server of a quorum still followed this
//     leader. Any new leader needs one of them, so it begins after s, and gives T
//     from then. No session ends before s + T under either.
//
// Nothing here rests on how long a packet takes, nor on what the client does late.
// What is proven says what a leader has heard; a lost connection does not take it
// back. But the round under way is void then, for the new server's table is empty.
// Instead the attach itself has touched the leader, if a quorum stands behind it,
// which one committed check proves: then the lease is T from the sending of the
// connect request. The attach alone proves nothing: an old leader grants it too. In
// the same way the transaction that makes the first lock's znode proves the connect
// request that made the session. The first round after such a check is about its
// sending, and begins D + w after it, as the first sync of a round does after that of
// the round before. A lease that is over is given again by a later proof alone.
//
// A lock on an old connection. Where nothing was held there were no rounds, and a
// lock should not wait w. There the making of the znode and a check right after it
// prove the sending of an older request (a ping, mostly) that had been answered
// D + w before: a round without its wait. The first full round begins D + w later; if
// an answer came between that older one and the lock, the first round is about that,
// as if it had been the first sync of a round before, and begins when it is D + w old.
// So the lease never falls below a quarter of T meanwhile.
//
// A server that is known to stand alone is leader and quorum: there each answered
// request proves its own sending. It is known by its configuration
// (/zookeeper/config), which is empty there and lists the members in an ensemble;
// a server that does not tell counts as a member of one.
//
// A server that ends a session with its connection. ClickHouse Keeper does: it never
// restores a session, and deletes its ephemeral znodes when it notices the disconnect. So
// nothing that was proven outlives the connection there. The lease is over at the
// disconnect, and with it the time that a command has to end in. Others may get the lock
// at the same moment: nothing that the client does can be sooner. The server is recognized
// in the round trip that makes the lock's znode, or by a reconnect that brings another
// session: from then on all sessions of that ensemble count as such.
//
// A reconnect that brings another session, or none, ends the old one. What is answered in
// the new session proves nothing of the old one: its lease stays where it was, and the
// lock is lost, whatever is left of it.
//
// What it costs: two syncs and a transaction each 5T/16 and the round trips; for
// T = 30 s, 0.32 requests a second. Right before a round ends, 5T/16 of the lease
// is left, less a hundredth of T. Nothing is sent while nothing is held. Ask for
// T >= 10 s: w is 0.6 s then.
//
// rounds_model_test.go explores all this, with the very code, in every order: links
// of any delay, a cut in each direction, a leader that pauses, that the rest leaves
// noticed or not, a client that moves; it finds no state in which the lease stands
// and the session is over. Pings, syncs or writes alone, rounds without the wait,
// without the rest between them, with less of it after a check alone or before what
// leans on an older answer, or with an attach taken for a proof, reach one.
//
// What it assumes. The client's clock and the leader's differ in rate by less than
// a hundredth. The client looks at the lease each time it counts: one that stands
// still does not. The loop of a leader that has come to itself runs within w.
//
// What stays unsafe, in the model or in the sources:
//
//   - Two pauses of the leader with its loop not run in between, each in its place
//     within one round, or one pause and a loop that comes w late.
//   - For a lock on an old connection, until its first full round: one pause of
//     the leader, two thirds of T long or so, which ends as the lock is taken, or, for
//     a T of two ticks, a loop that comes w late just then. (A leader whose followers
//     have left it by then, after syncLimit ticks, takes no lock.)
//   - A check that the leader takes between the end of the session's time and the
//     mark that says so, two statements apart (SessionTrackerImpl.run), after a pause
//     and with the server's reply on the way until then.
//   - A note that is lost in the server, as the table is changed for an empty one
//     (LearnerSessionTracker.touchSession beside snapshot).
//   - minSessionTimeout below two ticks; an observer behind an ObserverMaster, whose
//     pings lag half a tick more, for T below four ticks; a quorum by an oracle; a
//     restored snapshot.
//
// Against those there is the Token, for a store that refuses an older one.
package zklock
