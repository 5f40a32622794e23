package interop

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
	"github.com/zksh/zksh/lockcmd/zklock/ensemble"
)

// A client has its own session and holds at most one lock at a time.
type client interface {
	// acquire waits for a lock until ctx ends. It returns the fencing token of zksh's locks,
	// and 0 for other locks.
	acquire(ctx context.Context, kind, path string) (token int64, err error)
	release(ctx context.Context) error
}

// sessionTimeout is longer than any pause of a slow machine, so that sessions do not expire.
const sessionTimeout = 30 * time.Second

// drivers are the programs that run the clients of Curator and kazoo. The tests share them.
type drivers struct {
	curator, kazoo *driver
	names          atomic.Int64
}

// jars lists jars of Debian's packages. Their manifests name the other required jars.
const jars = "/usr/share/java/curator-recipes.jar:/usr/share/java/zookeeper-recipes-lock.jar:/usr/share/java/slf4j-nop.jar"

func startDrivers(t *testing.T) *drivers {
	curator, kazoo := driverPrograms(t)
	return &drivers{curator: startDriver(t, curator), kazoo: startDriver(t, kazoo)}
}

// driverPrograms returns the command lines of the drivers. It compiles the one in Java.
func driverPrograms(t *testing.T) (curator, kazoo []string) {
	needKazoo(t)
	ok := true
	for jar := range strings.SplitSeq(jars, ":") {
		ok = ok && exists(jar)
	}
	zktest.Need(t, ok, "libcurator-recipes-java libzookeeper-java")
	zktest.NeedProgram(t, "javac", "default-jdk-headless")
	dir := t.TempDir()
	cp := jars + ":" + dir
	compile(t, dir, cp, "testdata/Locks.java")
	return []string{"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", cp, "Locks"}, []string{python, "testdata/locks.py"}
}

// open returns a client that can take locks of a kind. The kinds are in testdata/locks.txt.
func (d *drivers) open(ctx context.Context, t *testing.T, addr, kind string) (client, error) {
	name := fmt.Sprint("c", d.names.Add(1))
	switch library(kind) {
	case "C":
		return d.curator.client(ctx, t, name, addr)
	case "K":
		return d.kazoo.client(ctx, t, name, addr)
	case "G":
		return openGo(t, addr)
	}
	return openOurs(ctx, t, addr, nil)
}

// library returns the client library that a kind of lock needs: C (Curator), K (kazoo),
// G (go-zookeeper), or "" for zksh.
func library(kind string) string {
	m, _, found := strings.Cut(kind, "-")
	switch {
	case !found:
		return ""
	case m == "Z": // ZooKeeper's own recipe, which is in the same program as Curator
		return "C"
	}
	return m
}

// A zkshClient locks with package zklock.
type zkshClient struct {
	*zkconn.Session
	notify func(zklock.Status)
	lease  *zklock.Lease
	owned  *zklock.Owned // the lock that this client has acquired as an owner; nil if it holds a lease
}

func openOurs(ctx context.Context, t *testing.T, addr string, notify func(zklock.Status)) (*zkshClient, error) {
	s, err := zkconn.Open(zkconn.Config{Servers: addr, Timeout: sessionTimeout})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), zktest.Patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &zkshClient{Session: s, notify: notify}, s.WaitReady(ctx)
}

// A sessionPinner provides zklock with sessions of a zkconn.Session.
type sessionPinner struct{ s *zkconn.Session }

func (p sessionPinner) Session(ctx context.Context) (zklock.Session, error) {
	return ensemble.Pin(ctx, p.s.Ensemble())
}

func (o *zkshClient) acquire(ctx context.Context, kind, path string) (int64, error) {
	family, mode, _ := strings.Cut(kind, ".")
	if mode, owned := strings.CutSuffix(mode, ownedSuffix); owned {
		return o.acquireAsOwner(ctx, mode, func(owner string) *zklock.Owned {
			return zklock.NewOwned(sessionPinner{o.Session}, path, owner, zklock.Options{Family: zklock.Family(family), Notify: o.notify})
		})
	}
	if number, owned := strings.CutPrefix(kind, "ownedleases:"); owned {
		n, err := strconv.Atoi(number)
		if err != nil {
			return 0, err
		}
		return o.acquireAsOwner(ctx, mode, func(owner string) *zklock.Owned {
			return zklock.NewOwnedLease(sessionPinner{o.Session}, path, owner, n, zklock.Options{})
		})
	}
	lease, err := o.method(kind, path)(ctx)
	if err != nil {
		return 0, err
	}
	o.lease, o.owned = lease, nil
	return lease.Token(), o.check(ctx)
}

// ownedSuffix ends the kinds of zksh's locks that belong to an owner. Each client is an owner.
const ownedSuffix = "o"

func (o *zkshClient) acquireAsOwner(ctx context.Context, mode string, lockOf func(owner string) *zklock.Owned) (int64, error) {
	owner := fmt.Sprintf("owner %#x", o.Info().ID)
	lock := lockOf(owner)
	take := lock.Lock
	if mode == "s" {
		take = lock.RLock
	}
	own, err := take(ctx)
	if err != nil {
		return 0, err
	}
	o.lease, o.owned = nil, lock
	if own.Before {
		return 0, fmt.Errorf("%s already holds %v", owner, own.Node)
	}
	return own.Token, nil
}

// method returns the method that acquires a lock of a kind.
func (o *zkshClient) method(kind, path string) func(context.Context) (*zklock.Lease, error) {
	if number, found := strings.CutPrefix(kind, "leases:"); found {
		n, _ := strconv.Atoi(number) // without a number, acquiring fails
		return zklock.NewSemaphore(sessionPinner{o.Session}, path, n, zklock.Options{Notify: o.notify}).Acquire
	}
	family, mode, _ := strings.Cut(kind, ".")
	lock := zklock.New(sessionPinner{o.Session}, path, zklock.Options{Family: zklock.Family(family), Notify: o.notify})
	if mode == "s" {
		return lock.RLock
	}
	return lock.Lock
}

// check compares the token of the lock with the czxid of its znode.
func (o *zkshClient) check(ctx context.Context) error {
	st, err := zkconn.Do(ctx, o, zkconn.Exists(o.lease.Node()))
	if err == nil && st.Czxid != o.lease.Token() {
		err = fmt.Errorf("token %#x of a znode made by %#x", o.lease.Token(), st.Czxid)
	}
	return err
}

func (o *zkshClient) release(ctx context.Context) error {
	if o.owned == nil {
		return o.lease.Unlock(ctx)
	}
	released, err := o.owned.Unlock(ctx)
	if err == nil && !released {
		err = errors.New("the owner held nothing")
	}
	return err
}

// A goClient locks with go-zookeeper.
type goClient struct {
	conn *zk.Conn
	lock *zk.Lock
}

func openGo(t *testing.T, addr string) (*goClient, error) {
	conn, events, err := zk.Connect([]string{addr}, sessionTimeout, zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	t.Cleanup(conn.Close)
	late := time.After(zktest.Patience)
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return &goClient{conn: conn}, nil
			}
		case <-late:
			return nil, fmt.Errorf("go-zookeeper has no session with %s", addr)
		}
	}
}

// acquire returns when ctx ends, but go-zookeeper cannot cancel the wait. The goroutine keeps
// waiting until the connection is closed at the end of the test.
func (g *goClient) acquire(ctx context.Context, _, path string) (int64, error) {
	g.lock = zk.NewLock(g.conn, path, zk.WorldACL(zk.PermAll))
	got := make(chan error, 1)
	go func() { got <- g.lock.Lock() }()
	select {
	case err := <-got:
		return 0, err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

func (g *goClient) release(context.Context) error { return g.lock.Unlock() }
