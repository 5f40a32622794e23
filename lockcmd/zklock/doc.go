// Package zklock implements distributed locks for Go programs on top of ZooKeeper: mutexes,
// read/write locks and semaphores, which consist of ephemeral sequential znodes. It uses the
// znode names of Curator, go-zookeeper and kazoo, so that programs can share locks with users of
// these libraries.
//
// An [Owned] is a lock that belongs to a name instead of a session, and outlives the process.
//
// Begin reading at [New], [Lock] and [Lease]. A program that has no ZooKeeper client yet
// connects with package ensemble, the shortest way to a lock. A program that already has a
// client implements [Conn] and [Session] for it.
//
// This package and package ensemble are the only packages of this module that are meant to be
// imported. Their exported names follow semantic versioning. New features of a session become
// optional interfaces, such as [Guarder], or fields of [SessionState]: the interface Session
// itself gets no new methods.
//
// # Guarantees
//
//   - Exclusion. A lock is reported as held only after the list of contenders has shown its
//     own znode with no conflicting znode before it, or after the only conflicting znode
//     was deleted (see The hand-off).
//   - Order. Contenders get the lock in the order in which they arrived.
//   - Notice of loss. The channel of [Lease.Lost] is closed when the lease ends, before
//     another client can hold the lock (see The lease).
//   - Cleanup. However a lock or an attempt to acquire it ends, its znode is removed. The
//     removal is repeated, in the background if necessary, until the server has confirmed it
//     or the session has ended.
//   - Sessions do not mix. A request that was made in one session never runs in another.
//
// # Limits
//
// A lock belongs to a session, and the leader of the ensemble ends a session if it hears
// nothing from it for the negotiated timeout. A lock therefore counts as held only as long as
// the leader is proven to keep the session. The section What stays unsafe lists the cases
// that this proof does not cover.
//
// A process that was suspended notices the end of its lease only when it runs again. Data
// that must never have two writers needs a store that checks [Lease.Token]: each new holder
// gets a larger token, and the store rejects a token that is smaller than the last.
//
// # The lease
//
// A held lock is a znode, the znode belongs to a session, and the leader ends the session
// when it has not heard from it for the session timeout T. A client that wants to stop before
// that needs to know the moment from which the leader counts.
//
// An answered ping does not show that moment. A follower answers pings without asking the
// leader (FinalRequestProcessor), even when the follower and its client are cut off from the
// leader. The lease is therefore extended only by a proof that the leader has heard of the
// session while a quorum followed that leader. The type proof, in rounds.go, implements this
// rule.
//
// # The rule
//
// The client proves its session in rounds. A round is a sync, a wait of w = T/16 after its
// answer, a second sync, and a transaction that checks the lock's own znode. The next round
// begins D = T/4 after the end of the last one.
//
//	   round 1                               round 2
//	sync       sync  check                sync       sync  check
//	 |          |     |                    |          |     |
//	 |<-- w --->|     |<------- D -------->|<-- w --->|     |
//	 s                                                      | OK
//	 ^                                                      |
//	 +---------------------- proves s ----------------------+
//
// Let s be the time at which the client sends the first sync of a round. When the next round
// ends with OK, the leader counts the session's time from s or later. The lease then ends at
// s + T, less T/100 for clocks that run at different rates.
//
// # What ZooKeeper does
//
// The argument relies on the following behaviour of ZooKeeper. The classes and methods are
// those of org.apache.zookeeper.server and .quorum in version 3.8.0.
//
//   - A follower notes every session that sends it a request (ZooKeeperServer.touch,
//     LearnerSessionTracker.touchSession). It reports these sessions to the leader only in
//     its replies to the leader's pings (Learner.ping).
//   - The leader pings its followers every half tick (Leader.lead). It restarts a session's
//     timeout when it processes a reply that names the session (LearnerHandler.run, PING:
//     Leader.touch).
//   - A sync or a transaction that a follower forwards does not restart the timeout
//     (LearnerHandler.run, REQUEST: LeaderZooKeeperServer.submitLearnerRequest). Every
//     request from a client that is connected to the leader itself does.
//   - Attaching a session to a new connection restarts the timeout at the leader, whichever
//     server the client connects to (ZooKeeperServer.revalidateSession,
//     Learner.validateSession, Leader.revalidateSession). Creating a session is a
//     transaction, and the leader counts from it (PrepRequestProcessor: trackSession).
//   - Leader and follower have one ordered stream in each direction, and each of them
//     processes one packet after another (LearnerHandler.queuePacket and run,
//     Follower.followLeader, Learner.writePacket). When the stream ends, the follower closes
//     the connections of its clients: a client's connection never outlives the stream.
//   - A sync needs no quorum (Leader.processSync). A transaction does, and the leader rejects
//     the transaction if it is already ending the session (SessionTrackerImpl.checkSession,
//     which PrepRequestProcessor calls for every check of a multi).
//   - A leader that has lost its quorum continues for up to a tick if it sees the
//     connections close, and for up to syncLimit + 1 ticks if it does not (Leader.lead,
//     LearnerHandler.synced).
//   - A new leader gives every session its full T, counted from a moment after a quorum has
//     left the old leader (Leader.lead: waitForNewLeaderAck, then startZkServer; the
//     constructor of SessionTrackerImpl).
//
// # Why a round proves s
//
// In this diagram, sync 1 is the first sync of one round. Sync 2, sync 3 and the check are
// the next round. Time runs downwards.
//
//	client              its server, a follower         leader
//
//	s: sync 1 ------->  notes the session
//	          <-------  answer
//	   (D + w or more)
//	sync 2 ---------->  ---------------------------->
//	          <-------  <----------------------------  answer
//	   (w)
//	                    <----------------------------  ping: here at the latest
//	                    reply, names the session --->  touches the session: after s
//	sync 3 ---------->  ---------------------------->
//	          <-------  <----------------------------  answer, sent after the ping
//	check ----------->  ---------------------------->  takes the check after the reply
//	          <-------  <----------------------------  OK: a quorum has committed it
//
// The server notes the session after s, before it answers sync 1.
//
// The leader sends a ping to the server after that note and before the answer to sync 3. Sync
// 2 reaches the leader at least D + w after the note, and D is at least half a tick, because
// no session is shorter than two ticks. By then, the leader has sent a ping, or a ping is
// due. If it is only due, the leader's loop was paused together with the rest of the leader;
// the loop then runs within w of the answer to sync 2, which is before sync 3.
//
// The server replies to the ping before it passes on the answer to sync 3, because the ping
// comes first in the stream. This reply names the session, unless the reply to an earlier
// ping already did. That reply was also sent after the note.
//
// The leader processes the reply before the check, because the client sends the check after
// the answer to sync 3, and both travel in the same stream. The leader thus touches the
// session after s. It accepts the check, so it was not ending the session, and the touch
// counted.
//
// The check is committed, so each server of a quorum still followed this leader after s. A
// new leader needs at least one of these servers, so its term begins after s, and it gives
// the session T from then on. Under either leader, the session does not end before s + T.
//
// The argument does not depend on how long a packet takes, nor on how late the client acts.
//
// # A new connection
//
// A proof states what a leader has heard, so it stays valid when the connection is lost. The
// round in progress becomes void, because the next server has not noted the session yet.
//
// Attaching the session to the new connection has touched it at the leader. Attaching alone
// proves nothing, because a leader that has lost its quorum attaches sessions, too. One
// committed check afterwards proves the quorum; the lease is then T from the sending of the
// connect request. In the same way, the transaction that creates the znode of the first lock
// proves the connect request that created the session.
//
// The first round after such a check proves the sending of the check. It begins D + w after
// the check's answer, because this answer takes the place of the answer to sync 1.
//
// A lease that has ended begins again only with a later proof.
//
// # A lock on an old connection
//
// A client that holds no lock sends no rounds, and a new lock should not have to wait for w.
// The creation of its znode and a check right after it are a round without the wait. They
// prove the sending of an older request, usually a ping, that was answered at least D + w
// before.
//
// The first full round begins D + w later. If another answer came between that older request
// and the lock, the round proves the request of this answer instead, as if it had been the
// first sync of a round before, and begins D + w after it. The lease therefore never falls
// below T/4.
//
// # A standalone server
//
// A server that is known to be standalone is leader and quorum in one, so that every answered
// request proves its own sending. The znode /zookeeper/config shows the difference: it is
// empty on a standalone server, and lists the members of an ensemble otherwise. A server
// whose configuration cannot be read counts as a member of an ensemble.
//
// # A server that ends sessions with their connections
//
// ClickHouse Keeper never restores a session. It deletes the session's ephemeral znodes when
// it notices the disconnect, so no proof outlives the connection. The lease ends at the
// disconnect, and a command that runs under the lock has no time left in which to terminate.
// Another client may get the lock at the same moment, before this client can do anything.
//
// Such a server is recognized in the round trip that creates the lock's znode, or by a
// reconnect that results in another session. From then on, all sessions of that ensemble are
// assumed to end with their connections.
//
// A reconnect that results in another session, or in none, ends the old session, on any
// server. Answers in the new session prove nothing about the old one. The lock is lost,
// however much of its lease remains.
//
// # The cost
//
// A held lock sends two syncs and a transaction every 5T/16 plus the round trips: 0.32
// requests a second for T = 30 s. Right before a round ends, 5T/16 of the lease remains, less
// T/100. A client that holds no lock sends nothing. Ask for T >= 10 s; w is then 0.6 s.
//
// # Locks that belong to an owner
//
// A lock of type [Owned] has no lease, because it does not depend on a session. While the owner
// waits, its znode is ephemeral. When no conflicting contender is ahead any more, one
// transaction replaces the znode by a persistent one with the same sequence number:
//
//	create the persistent znode, setData on the ephemeral znode, delete it
//
// The place of the owner in the queue does not change, and no other contender can come in
// between: the transaction fails unless the ephemeral znode still exists, and as long as it has
// existed, nobody could overtake it. Clients of other libraries that watched the ephemeral znode
// wake up, list the contenders, and find a predecessor with the same number. A waiter of this
// package must not take the delete for a release; the setData before it prevents that (see The
// hand-off).
//
// The name of each znode contains a hash of the owner, and shows whether the owner waits or
// holds the lock. A later request of the same owner therefore finds the lock in the list of
// contenders, also if the answer to the transaction was lost. Several requests of one owner wait
// for each other, even if all of them are shared. Only the first can make its znode persistent,
// so an owner never has two places.
//
// An owned lock is held until it is released: if the owner forgets it, or its machine is gone,
// somebody else must release it. Its token is the czxid of the ephemeral znode, so that tokens
// grow in the order of the queue. The name of the persistent znode contains it.
//
// # The model
//
// rounds_model_test.go runs the code of the rule in a model of a client, its server, the
// leader and the rest of the ensemble. It tries every order of events: links of any delay, a
// cut in either direction, a leader that pauses, followers that leave the leader with or
// without its notice, and a client that changes servers. It reaches no state in which the
// session has ended while the lease lasts.
//
// Simpler rules do reach such a state in the same model:
//
//   - pings, syncs or writes alone
//   - rounds without the wait w
//   - rounds without the distance D
//   - a first round that begins earlier than D + w, after a check alone or after the older
//     answer that it builds on
//   - attaching alone as a proof
//
// # Assumptions
//
//   - The rates of the client's and of the leader's clock differ by less than a hundredth.
//   - The client checks the lease whenever it matters. A suspended client cannot do so.
//   - When a leader resumes after a pause, its loop runs within w.
//
// # What stays unsafe
//
// Two clients can hold the lock in these cases, found by the model or in the sources:
//
//   - The leader pauses twice without running its loop in between, each time at a certain
//     point of one round; or it pauses once and its loop runs w late.
//   - A lock on an old connection, until its first full round: the leader pauses once, for
//     about two thirds of T, and resumes as the lock is acquired; or, if T is two ticks, its
//     loop runs w late at that moment. (A leader whose followers have left it by then, after
//     syncLimit ticks, grants no lock.)
//   - The leader processes a check between the end of the session's time and the mark that
//     records this end, two statements apart (SessionTrackerImpl.run). This needs a pause
//     before, and a reply from the server that is in transit until then.
//   - The server loses its note of the session while it replaces the table of sessions with
//     an empty one (LearnerSessionTracker.touchSession concurrently with snapshot).
//   - minSessionTimeout is below two ticks; an observer follows an ObserverMaster, whose
//     pings are half a tick later, and T is below four ticks; an oracle decides about the
//     quorum; a snapshot was restored.
//
// Protection against these is [Lease.Token], with a store that rejects older tokens.
package zklock
