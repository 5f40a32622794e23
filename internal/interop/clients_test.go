package interop

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// client has a session of its own and at most one lock at a time.
type client interface {
	// acquire waits for a lock until ctx ends. It returns the fencing token of our
	// own locks, and 0 of others.
	acquire(ctx context.Context, kind, path string) (token int64, err error)
	release(ctx context.Context) error
}

// sessionTimeout outlasts any pause of a slow machine: sessions end by a close.
const sessionTimeout = 30 * time.Second

// drivers are the programs whose clients the tests share.
type drivers struct {
	curator, kazoo *driver
	names          atomic.Int64
}

// jars are Debian's; their manifests name what else they need.
const jars = "/usr/share/java/curator-recipes.jar:/usr/share/java/zookeeper-recipes-lock.jar:/usr/share/java/slf4j-nop.jar"

func startDrivers(t *testing.T) *drivers {
	curator, kazoo := driverPrograms(t)
	return &drivers{curator: startDriver(t, curator), kazoo: startDriver(t, kazoo)}
}

// driverPrograms are the command lines of the drivers.
func driverPrograms(t *testing.T) (curator, kazoo []string) {
	zktest.Need(t, exec.Command(python, "-c", "import kazoo").Run() == nil, "python3-kazoo")
	_, err := exec.LookPath("javac")
	ok := err == nil
	for jar := range strings.SplitSeq(jars, ":") {
		ok = ok && exists(jar)
	}
	zktest.Need(t, ok, "default-jdk-headless libcurator-recipes-java libzookeeper-java")
	dir := t.TempDir()
	cp := jars + ":" + dir
	if out, err := exec.Command("javac", "-J-XX:TieredStopAtLevel=1", "-d", dir, "-cp", cp, "testdata/Locks.java").CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	return []string{"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", cp, "Locks"}, []string{python, "testdata/locks.py"}
}

// open makes a client that can take locks of a kind, see testdata/locks.txt.
func (d *drivers) open(ctx context.Context, t *testing.T, addr, kind string) (client, error) {
	name := fmt.Sprint("c", d.names.Add(1))
	switch maker(kind) {
	case "C":
		return d.curator.client(ctx, t, name, addr)
	case "K":
		return d.kazoo.client(ctx, t, name, addr)
	case "G":
		return openGo(t, addr)
	}
	return openOurs(ctx, t, addr, nil)
}

// maker tells kinds apart by the client they need: C, K, G, or none for ours.
func maker(kind string) string {
	m, _, found := strings.Cut(kind, "-")
	switch {
	case !found:
		return ""
	case m == "Z": // in the same program as Curator
		return "C"
	}
	return m
}

// ours is a client that locks with zklock.
type ours struct {
	*zkconn.Session
	notify func(zklock.Status)
	lease  *zklock.Lease
}

func openOurs(ctx context.Context, t *testing.T, addr string, notify func(zklock.Status)) (*ours, error) {
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
	return &ours{Session: s, notify: notify}, s.WaitReady(ctx)
}

// pinner makes a client into what zklock wants.
type pinner struct{ s *zkconn.Session }

func (p pinner) Session(ctx context.Context) (zklock.Session, error) { return p.s.Ensemble().Pin(ctx) }

func (o *ours) acquire(ctx context.Context, kind, path string) (int64, error) {
	family, mode, _ := strings.Cut(kind, ".")
	lock := zklock.New(pinner{o.Session}, path, zklock.Options{Family: zklock.Family(family), Notify: o.notify})
	take := lock.Lock
	if mode == "s" {
		take = lock.RLock
	}
	lease, err := take(ctx)
	if err != nil {
		return 0, err
	}
	o.lease = lease
	return lease.Token(), o.check(ctx)
}

// check compares a lock's token with what the server knows.
func (o *ours) check(ctx context.Context) error {
	st, err := zkconn.Do(ctx, o, zkconn.Exists(o.lease.Node()))
	if err == nil && st.Czxid != o.lease.Token() {
		err = fmt.Errorf("token %#x of a znode made by %#x", o.lease.Token(), st.Czxid)
	}
	return err
}

func (o *ours) release(ctx context.Context) error { return o.lease.Unlock(ctx) }

// goClient locks with go-zookeeper.
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

// acquire cannot give up its wait: when ctx ends first it goes on until the
// connection is closed, with the test.
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
