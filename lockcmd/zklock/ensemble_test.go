package zklock_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// cluster is an ensemble of three servers.
type cluster struct {
	servers []*zktest.Server
	leader  int
}

func newCluster(t *testing.T) cluster {
	t.Helper()
	e := cluster{servers: zktest.Ensemble(t, 3)}
	e.leader = slices.IndexFunc(e.servers, (*zktest.Server).Leads)
	if e.leader < 0 {
		t.Fatal("nobody leads")
	}
	return e
}

// follower returns the index of a server that is not the leader; n is 1 or 2.
func (e cluster) follower(n int) int { return (e.leader + n) % len(e.servers) }

// actorOnServer returns an actor that knows all servers, each through a proxy, and is
// connected to one of them. Until openAll is called, it can reach no other server, so that
// a busy machine does not make it move.
func (s *scene) actorOnServer(e cluster, server int) (*actor, []*zktest.Proxy) {
	s.Helper()
	var proxies []*zktest.Proxy
	var addrs []string
	for i, srv := range e.servers {
		p := zktest.NewProxy(s.T, srv.Addr())
		p.Refuse(i != server)
		proxies, addrs = append(proxies, p), append(addrs, p.Addr())
	}
	s.refusing = append(s.refusing, proxies...)
	return s.actor(strings.Join(addrs, ","), longTimeout, zklock.Options{}), proxies
}

// openAll lets all actors reach all servers.
func (s *scene) openAll() {
	for _, p := range s.refusing {
		p.Refuse(false)
	}
}

// The holder and the waiters keep their places when the leader is killed, whether they are
// clients of the leader or of a follower.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	s := newScene(t, e.servers[e.follower(1)].Addr())
	defer s.finish()
	holder, _ := s.actorOnServer(e, e.leader)
	first, _ := s.actorOnServer(e, e.follower(1))
	second, _ := s.actorOnServer(e, e.leader)
	lease := holder.take(zklock.Exclusive)
	w1 := first.queue(zklock.Exclusive)
	w2 := second.queue(zklock.Exclusive)
	node := lease.Node()

	s.openAll()
	e.servers[e.leader].Stop()
	holder.log.waitForState(t, zklock.Suspended)
	holder.waitForState(1, zklock.Held)
	w1.stillWaits()
	w2.stillWaits()
	isOpen(t, "lost", lease.Lost())
	if lease.Node() != node || !s.exists(node) {
		t.Errorf("the znode was %s, now %s", node, lease.Node())
	}
	holder.release(lease)
	got := w1.awaitLease()
	w2.stillWaits()
	first.release(got)
	second.release(w2.awaitLease())
	a, _ := s.actorOnServer(e, e.follower(1))
	a.release(a.take(zklock.Exclusive))
}

// If the answer to the create is lost and the client changes servers, the new server
// catches up with the leader before the client looks for its znode.
func TestCreateAnswerLostAndServerChanged(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	s := newScene(t, e.servers[e.leader].Addr())
	defer s.finish()
	a, proxies := s.actorOnServer(e, e.follower(1))
	a.release(a.take(zklock.Exclusive))
	s.openAll()
	gone := proxies[e.follower(1)]
	cut := gone.CutAfterRequest(jute.OpCreate)
	gone.Refuse(true)
	w := a.start(zklock.Exclusive)
	isClosedSoon(t, "cut off", cut)
	lease := w.awaitLease()
	var sent []int32 // requests to the other servers until the lock is held
	for i, p := range proxies {
		if i != e.follower(1) {
			sent = append(sent, p.Requests()...)
		}
	}
	if names := s.children(); len(names) != 1 {
		t.Errorf("children %q, want one", names)
	}
	sent = slices.DeleteFunc(sent, func(op int32) bool { return op != jute.OpSync && op != jute.OpGetChildren && op != jute.OpCreate })
	if want := []int32{jute.OpSync, jute.OpGetChildren}; !slices.Equal(sent, want) {
		t.Errorf("the other server was sent %v, want %v", sent, want)
	}
	a.release(lease)
}

// A session moves away from a frozen follower before it expires.
func TestFollowerFrozen(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	s := newScene(t, e.servers[e.leader].Addr())
	defer s.finish()
	frozen := e.servers[e.follower(1)]
	a, _ := s.actorOnServer(e, e.follower(1))
	b, _ := s.actorOnServer(e, e.leader)
	lease := a.take(zklock.Exclusive)
	w := b.queue(zklock.Exclusive)
	s.openAll()
	frozen.Pause()
	a.log.waitForState(t, zklock.Suspended)
	a.waitForState(1, zklock.Held)
	w.stillWaits()
	isOpen(t, "lost", lease.Lost())
	a.release(lease)
	b.release(w.awaitLease())
}

// Rounds keep the lease alive for longer than the session timeout, on the leader and on a
// follower.
func TestRoundsOnAnEnsemble(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	for name, server := range map[string]int{"leader": e.leader, "follower": e.follower(1)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkLockKept(t, e, server)
		})
	}
}

func checkLockKept(t *testing.T, e cluster, server int) {
	s := newScene(t, e.servers[e.leader].Addr())
	p := zktest.NewProxy(t, e.servers[server].Addr())
	a := s.actor(p.Addr(), 15*time.Second, zklock.Options{})
	a.proxy = p
	lease := a.take(zklock.Exclusive)
	var sent []int32
	count := func(op int32) (n int) {
		for _, o := range sent {
			if o == op {
				n++
			}
		}
		return n
	}
	zktest.Eventually(t, "rounds for longer than a session lasts", func() bool {
		sent = append(sent, requests(a)...)
		return count(jute.OpMulti) > 5
	})
	isOpen(t, "lost", lease.Lost())
	reported := a.log.states() // a busy ensemble may be silent for so long that the session moves
	if syncs := count(jute.OpSync); len(reported) == 1 && (syncs < 10 || syncs > 14) {
		t.Errorf("%d syncs for %d checks", syncs, count(jute.OpMulti))
	}
	if slices.ContainsFunc(reported, func(s zklock.State) bool { return s != zklock.Held && s != zklock.Suspended }) {
		t.Errorf("reported %v", reported)
	}
	a.release(lease)
	s.finish()
}
