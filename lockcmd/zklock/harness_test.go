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
)

func TestMain(m *testing.M) {
	if act() {
		return
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // most of the time the tests wait
		panic(err)
	}
	goleak.VerifyTestMain(zktest.M{M: m})
}

const (
	// usual is a session timeout that no test waits for. A silence of two 32nds of it moves
	// a session with a lock.
	usual = 40 * time.Second
	// tick is that of zktest's servers: a session expires up to so much late.
	tick = 500 * time.Millisecond
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type zk = zkconn.Session

// client is one ZooKeeper client with a session of its own.
type client struct {
	*zk
	proxy *zktest.Proxy // nil if it goes to the server directly
}

// Session is part of zklock.Conn.
func (c client) Session(ctx context.Context) (zklock.Session, error) { return c.Ensemble().Pin(ctx) }

func open(t *testing.T, servers string, timeout time.Duration) client {
	t.Helper()
	return client{zk: zksession.Open(t, zkconn.Config{Servers: servers, Timeout: timeout})}
}

// scene is a lock and all who take part in it. Its end checks what must hold
// whatever has happened.
type scene struct {
	*testing.T
	addr  string // of the server
	truth client // sees what is really there
	path  string
	start []string // children that were there before
	book  book
	shut  []*zktest.Proxy // see open

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
	return &scene{T: t, addr: addr, truth: open(t, addr, usual),
		path: fmt.Sprintf("/locks-%d/of/test", scenes.n), book: book{t: t}}
}

// shared is a scene on the package's common server.
func shared(t *testing.T) *scene {
	t.Helper()
	return newScene(t, zktest.Shared(t).Addr())
}

// children are the lock's at this moment.
func (s *scene) children() []string {
	s.Helper()
	must(s.T, zkconn.Exec(zktest.Within(s.T), s.truth, zkconn.Sync(s.path)))
	list, err := zkconn.Do(zktest.Within(s.T), s.truth, zkconn.List(s.path))
	if err != nil && !errors.Is(err, zkconn.NoNode) {
		s.Fatal(err)
	}
	slices.Sort(list.Names)
	return list.Names
}

func (s *scene) exists(path string) bool {
	s.Helper()
	must(s.T, zkconn.Exec(zktest.Within(s.T), s.truth, zkconn.Sync(path)))
	err := zkconn.Exec(zktest.Within(s.T), s.truth, zkconn.Exists(path))
	if err != nil && !errors.Is(err, zkconn.NoNode) {
		s.Fatal(err)
	}
	return err == nil
}

// watches counts the watched znodes of the lock.
func (s *scene) watches() int {
	s.Helper()
	return strings.Count(zktest.Ask(s.T, s.addr, "wchp"), s.path+"/")
}

// put makes a znode for everybody, and its parents.
func (s *scene) put(path string, acl []zookeeper.ACL) {
	s.Helper()
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			err := zkconn.Exec(zktest.Within(s.T), s.truth, zkconn.Create(path[:i], nil, zkconn.OpenACL(), zkconn.CreateMode{}))
			if err != nil && !errors.Is(err, zkconn.NodeExists) {
				s.Fatal(err)
			}
		}
	}
	err := zkconn.Exec(zktest.Within(s.T), s.truth, zkconn.Create(path, nil, acl, zkconn.CreateMode{}))
	must(s.T, err)
}

// end is deferred. While all sessions still live, no child of a lock may be left
// (CASES.md, I5), and no watch (I7).
func (s *scene) end() {
	s.Helper()
	if s.Failed() {
		return
	}
	for _, l := range s.locks {
		must(s.T, l.Drain(zktest.Within(s.T)))
	}
	zktest.Eventually(s.T, "nothing of the locks is left", func() bool { return slices.Equal(s.children(), s.start) })
	zktest.Eventually(s.T, "no watch is left", func() bool { return s.watches() == 0 })
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	if len(s.book.held) > 0 {
		s.Errorf("the test forgot to release %d", len(s.book.held))
	}
}

// book checks exclusion (CASES.md, I1), and that fences grow (I2). A fence is the czxid of
// the holder's znode, so those who exclude each other also came in order (I4).
type book struct {
	t         *testing.T
	mu        sync.Mutex
	held      []*zklock.Lease
	exclusive int64 // the last fence of an exclusive holder
	any       int64 // the greatest
	count     int
}

func (b *book) enter(l *zklock.Lease) {
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

func (b *book) leave(l *zklock.Lease) {
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

// actor opens a session. Servers may be empty: the scene's.
func (s *scene) actor(servers string, timeout time.Duration, opt zklock.Options) *actor {
	s.Helper()
	if servers == "" {
		servers = s.addr
	}
	return s.with(open(s.T, servers, timeout), opt)
}

// with makes another lock of a client.
func (s *scene) with(c client, opt zklock.Options) *actor {
	a := &actor{client: c, s: s, log: newLog()}
	opt.Notify = a.log.note
	a.lock = zklock.New(c, s.path, opt)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locks = append(s.locks, a.lock)
	return a
}

func (s *scene) plain() *actor {
	s.Helper()
	return s.actor("", usual, zklock.Options{})
}

// proxied is an actor behind a proxy of its own.
func (s *scene) proxied(timeout time.Duration, opt zklock.Options) *actor {
	s.Helper()
	p := zktest.NewProxy(s.T, s.addr)
	a := s.actor(p.Addr(), timeout, opt)
	a.proxy = p
	return a
}

func (a *actor) acquire(ctx context.Context, m zklock.Mode) (*zklock.Lease, error) {
	take := a.lock.Lock
	if m == zklock.Shared {
		take = a.lock.RLock
	}
	l, err := take(ctx)
	if err == nil {
		a.s.book.enter(l)
	}
	return l, err
}

// take takes the lock, which is free.
func (a *actor) take(m zklock.Mode) *zklock.Lease {
	a.s.Helper()
	l, err := a.acquire(zktest.Within(a.s.T), m)
	must(a.s.T, err)
	return l
}

// give releases the lock.
func (a *actor) give(l *zklock.Lease) {
	a.s.Helper()
	a.s.book.leave(l)
	if err := l.Unlock(zktest.Within(a.s.T)); err != nil {
		a.s.Errorf("unlock: %v", err)
	}
}

// lost is for a lease that was lost.
func (a *actor) lost(l *zklock.Lease) {
	a.s.Helper()
	isClosedSoon(a.s.T, "lost", l.Lost())
	a.s.book.leave(l)
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

// waiter is an attempt to get the lock.
type waiter struct {
	a      *actor
	cancel context.CancelFunc
	done   chan struct{}
	lease  *zklock.Lease
	err    error
}

// begin starts an attempt.
func (a *actor) begin(m zklock.Mode) *waiter {
	ctx, cancel := context.WithTimeout(a.s.Context(), 3*zktest.Patience)
	w := &waiter{a: a, cancel: cancel, done: make(chan struct{})}
	go func() { // ends with ctx, which ends with the test
		defer close(w.done)
		w.lease, w.err = a.acquire(ctx, m)
	}()
	a.s.Cleanup(func() { cancel(); <-w.done })
	return w
}

// wait starts an attempt and returns once it is queued.
func (a *actor) wait(m zklock.Mode) *waiter {
	a.s.Helper()
	from := a.log.len()
	w := a.begin(m)
	a.log.from(a.s.T, from, "queued", func(st zklock.Status) bool { return st.State == zklock.Queued })
	return w
}

// waits checks that the attempt has not ended.
func (w *waiter) waits() {
	w.a.s.Helper()
	select {
	case <-w.done:
		w.a.s.Errorf("it does not wait any more: %v", w.err)
	default:
	}
}

// got waits until the lock is held.
func (w *waiter) got() *zklock.Lease {
	w.a.s.Helper()
	isClosedSoon(w.a.s.T, "done waiting", w.done)
	must(w.a.s.T, w.err)
	return w.lease
}
