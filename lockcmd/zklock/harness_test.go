package zklock_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	zookeeper "github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
	"github.com/zksh/zksh/lockcmd/zklock"
	"github.com/zksh/zksh/lockcmd/zklock/ensemble"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // the tests mostly wait
		panic(err)
	}
	goleak.VerifyTestMain(zktest.M{M: m})
}

const (
	// longTimeout is a session timeout that no test waits for. A session that holds a lock
	// moves to another server after a silence of two 32nds of it.
	longTimeout = 40 * time.Second
	// tick is the tick of zktest's servers: a session expires at most one tick late.
	tick = 500 * time.Millisecond
)

type zk = zkconn.Session

// A client is a ZooKeeper client with one session.
type client struct {
	*zk
	proxy *zktest.Proxy // nil if it goes to the server directly
}

// Session implements zklock.Conn.
func (c client) Session(ctx context.Context) (zklock.Session, error) {
	return ensemble.Pin(ctx, c.Ensemble())
}

func open(t *testing.T, servers string, timeout time.Duration) client {
	t.Helper()
	return client{zk: zksession.Open(t, zkconn.Config{Servers: servers, Timeout: timeout})}
}

// A scene is a lock and all clients that use it. Its method finish checks the invariants.
type scene struct {
	*testing.T
	addr     string // address of the server
	observer client // shows the znodes on the server
	path     string
	start    []string // children that existed before
	holders  exclusionCheck
	refusing []*zktest.Proxy // see openAll

	mu    sync.Mutex
	locks []*zklock.Lock
}

var scenes struct {
	sync.Mutex
	n int
}

func newScene(t *testing.T, addr string) *scene {
	t.Helper()
	scenes.Lock()
	defer scenes.Unlock()
	scenes.n++
	return &scene{T: t, addr: addr, observer: open(t, addr, longTimeout),
		path: fmt.Sprintf("/locks-%d/of/test", scenes.n), holders: exclusionCheck{t: t}}
}

// sharedScene returns a scene on the server that the tests of this package share.
func sharedScene(t *testing.T) *scene {
	t.Helper()
	return newScene(t, zktest.Shared(t).Addr())
}

// children returns the current children of the lock.
func (s *scene) children() []string {
	s.Helper()
	zktest.Must(s.T, zkconn.Exec(zktest.Within(s.T), s.observer, zkconn.Sync(s.path)))
	list, err := zkconn.Do(zktest.Within(s.T), s.observer, zkconn.List(s.path))
	if err != nil && !errors.Is(err, zkconn.NoNode) {
		s.Fatal(err)
	}
	slices.Sort(list.Names)
	return list.Names
}

func (s *scene) exists(path string) bool {
	s.Helper()
	zktest.Must(s.T, zkconn.Exec(zktest.Within(s.T), s.observer, zkconn.Sync(path)))
	err := zkconn.Exec(zktest.Within(s.T), s.observer, zkconn.Exists(path))
	if err != nil && !errors.Is(err, zkconn.NoNode) {
		s.Fatal(err)
	}
	return err == nil
}

// watches returns the number of watched znodes of the lock.
func (s *scene) watches() int {
	s.Helper()
	return strings.Count(zktest.Ask(s.T, s.addr, "wchp"), s.path+"/")
}

// createWithParents creates a znode and its parents. The parents give everyone all
// permissions.
func (s *scene) createWithParents(path string, acl []zookeeper.ACL) {
	s.Helper()
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			err := zkconn.Exec(zktest.Within(s.T), s.observer, zkconn.Create(path[:i], nil, zkconn.OpenACL(), zkconn.CreateMode{}))
			if err != nil && !errors.Is(err, zkconn.NodeExists) {
				s.Fatal(err)
			}
		}
	}
	err := zkconn.Exec(zktest.Within(s.T), s.observer, zkconn.Create(path, nil, acl, zkconn.CreateMode{}))
	zktest.Must(s.T, err)
}

// finish checks, while all sessions still live, that no child of the lock is left
// (CASES.md, I5), and no watch (I7).
func (s *scene) finish() {
	s.Helper()
	if s.Failed() {
		return
	}
	for _, l := range s.locks {
		zktest.Must(s.T, l.Drain(zktest.Within(s.T)))
	}
	zktest.Eventually(s.T, "nothing of the locks is left", func() bool { return slices.Equal(s.children(), s.start) })
	zktest.Eventually(s.T, "no watch is left", func() bool { return s.watches() == 0 })
	s.holders.mu.Lock()
	defer s.holders.mu.Unlock()
	if len(s.holders.held) > 0 {
		s.Errorf("the test forgot to release %d", len(s.holders.held))
	}
}

// exclusionCheck checks that holders exclude each other (CASES.md, I1), and that fences
// grow (I2). A fence is the czxid of the holder's znode, so growing fences also show that
// exclusive holders came in order (I4).
type exclusionCheck struct {
	t         *testing.T
	mu        sync.Mutex
	held      []*zklock.Lease
	exclusive int64 // fence of the last exclusive holder
	any       int64 // greatest fence
	count     int
}

func (b *exclusionCheck) add(l *zklock.Lease) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range b.held {
		if o.Left() > 0 && !isClosed(o.Lost()) && (o.Mode() == zklock.Exclusive || l.Mode() == zklock.Exclusive) {
			b.t.Errorf("exclusion: %s got %s while %s was held %s", l.Node(), l.Mode(), o.Node(), o.Mode())
		}
	}
	before := b.exclusive
	if l.Mode() == zklock.Exclusive {
		before = b.any
		b.exclusive = l.Token()
	}
	if l.Token() <= before {
		b.t.Errorf("fence %#x comes after %#x", l.Token(), before)
	}
	b.any = max(b.any, l.Token())
	b.held = append(b.held, l)
	b.count++
}

func (b *exclusionCheck) remove(l *zklock.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = slices.DeleteFunc(b.held, func(o *zklock.Lease) bool { return o == l })
}

// actor is one client with a lock.
type actor struct {
	client
	s    *scene
	log  *log
	lock *zklock.Lock
}

// actor opens a session to servers, or to the scene's server if servers is empty, and
// creates a lock with opt.
func (s *scene) actor(servers string, timeout time.Duration, opt zklock.Options) *actor {
	s.Helper()
	if servers == "" {
		servers = s.addr
	}
	return s.actorOn(open(s.T, servers, timeout), opt)
}

// actorOn returns an actor with another lock of client c.
func (s *scene) actorOn(c client, opt zklock.Options) *actor {
	a := &actor{client: c, s: s, log: newLog()}
	opt.Notify = a.log.note
	a.lock = zklock.New(c, s.path, opt)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locks = append(s.locks, a.lock)
	return a
}

// simpleActor returns an actor with the default options and a long session timeout.
func (s *scene) simpleActor() *actor {
	s.Helper()
	return s.actor("", longTimeout, zklock.Options{})
}

// proxiedActor returns an actor behind a proxy of its own.
func (s *scene) proxiedActor(timeout time.Duration, opt zklock.Options) *actor {
	s.Helper()
	p := zktest.NewProxy(s.T, s.addr)
	a := s.actor(p.Addr(), timeout, opt)
	a.proxy = p
	return a
}

// acquire waits for the lock and records the holder.
func (a *actor) acquire(ctx context.Context, m zklock.Mode) (*zklock.Lease, error) {
	take := a.lock.Lock
	if m == zklock.Shared {
		take = a.lock.RLock
	}
	l, err := take(ctx)
	if err == nil {
		a.s.holders.add(l)
	}
	return l, err
}

// take acquires the lock, which is free.
func (a *actor) take(m zklock.Mode) *zklock.Lease {
	a.s.Helper()
	l, err := a.acquire(zktest.Within(a.s.T), m)
	zktest.Must(a.s.T, err)
	return l
}

// release releases the lock.
func (a *actor) release(l *zklock.Lease) {
	a.s.Helper()
	a.s.holders.remove(l)
	if err := l.Unlock(zktest.Within(a.s.T)); err != nil {
		a.s.Errorf("unlock: %v", err)
	}
}

// waitForLoss waits until the lease is lost.
func (a *actor) waitForLoss(l *zklock.Lease) {
	a.s.Helper()
	isClosedSoon(a.s.T, "lost", l.Lost())
	a.s.holders.remove(l)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func isClosedSoon(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(zktest.Patience):
		t.Fatalf("it is never %s", what)
	}
}

func isOpen(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	if isClosed(c) {
		t.Errorf("it is %s", what)
	}
}

// A waiter is an attempt to acquire the lock.
type waiter struct {
	a      *actor
	cancel context.CancelFunc
	done   chan struct{}
	lease  *zklock.Lease
	err    error
}

// start begins an attempt.
func (a *actor) start(m zklock.Mode) *waiter {
	ctx, cancel := context.WithTimeout(a.s.Context(), 3*zktest.Patience)
	w := &waiter{a: a, cancel: cancel, done: make(chan struct{})}
	go func() { // ends with ctx, which ends with the test
		defer close(w.done)
		w.lease, w.err = a.acquire(ctx, m)
	}()
	a.s.Cleanup(func() { cancel(); <-w.done })
	return w
}

// queue starts an attempt and returns once it is in the queue.
func (a *actor) queue(m zklock.Mode) *waiter {
	a.s.Helper()
	from := a.log.len()
	w := a.start(m)
	a.log.waitFor(a.s.T, from, "queued", func(st zklock.Status) bool { return st.State == zklock.Queued })
	return w
}

// stillWaits checks that the attempt has not ended.
func (w *waiter) stillWaits() {
	w.a.s.Helper()
	select {
	case <-w.done:
		w.a.s.Errorf("it does not wait any more: %v", w.err)
	default:
	}
}

// awaitLease waits until the lock is held.
func (w *waiter) awaitLease() *zklock.Lease {
	w.a.s.Helper()
	isClosedSoon(w.a.s.T, "done waiting", w.done)
	zktest.Must(w.a.s.T, w.err)
	return w.lease
}
