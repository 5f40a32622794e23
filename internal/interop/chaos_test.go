//go:build linux

package interop

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

var (
	chaosTime = flag.Duration("chaos", 20*time.Second, "how long TestChaos makes faults; a minute in make full")
	chaosSeed = flag.Uint64("chaosseed", 0, "of TestChaos's faults; 0 takes one by chance")
)

// The leader expires a session after chaosTimeout. A follower that is cut off from the leader
// continues to answer its clients for longer than that.
const (
	chaosTick      = 500 * time.Millisecond
	chaosSyncLimit = 16 // ticks
	chaosTimeout   = 6 * time.Second
	longCut        = chaosSyncLimit*chaosTick + time.Second
)

// chaos is the state of TestChaos: the ensemble, its clients and the progress of the test.
type chaos struct {
	t        *testing.T
	split    *zktest.Split
	locks    []*oracle // one for each lock
	clients  []*chaosClient
	faultCtx context.Context // done at the end of the faults
	repaired chan struct{}   // closed when the faults are repaired and lost sessions have expired
	repairs  sync.WaitGroup

	mu     sync.Mutex
	trips  []*trip
	faults map[string]int
}

// Locks are safe under faults. Clients of all kinds compete for an exclusive lock, a read-write
// lock and a semaphore on an ensemble of three servers. The test kills and isolates servers; it
// cuts off, stops, terminates and kills clients. No two clients are in the critical section
// together, no command outlives its zksh, and every exit status is correct. After the
// repairs, every client gets the lock, and nothing is left in the queues.
//
// The test does not stop servers: the package comment of zklock says what two such pauses in
// a row can do. It also does not stop a zksh that holds a lock between two lines of a script,
// because there is no command that could be ended.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	zktest.NeedProgram(t, "flock", "util-linux")
	curator, kazoo := driverPrograms(t)
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-chaosseed %d", seed)
	c := &chaos{t: t, repaired: make(chan struct{}), faults: map[string]int{}}
	c.split = zktest.StartSplit(t, zktest.Heap(64), zktest.Ticks(int(chaosTick.Milliseconds()), 20, chaosSyncLimit))
	var stop context.CancelFunc
	c.faultCtx, stop = context.WithTimeout(t.Context(), *chaosTime)
	defer stop()

	alone := c.newLock("/alone")
	for i := range 4 {
		c.join(alone, exclusive, fmt.Sprint("command-", i), seed).trip = (*chaosClient).oneShot
	}
	c.join(alone, exclusive, "batch", seed).trip = (*chaosClient).batch
	told := c.join(alone, exclusive, "lines", seed)
	told.trip, told.neverStopped = (*chaosClient).lineBatch, true
	for i := range 2 {
		c.join(alone, exclusive, fmt.Sprint("owner-", i), seed).trip = (*chaosClient).holdAsOwner
	}
	c.join(alone, foreign, "curator", seed).trip = (&foreignClient{kind: "C-mutex", program: curator}).hold
	named := c.newLock("/kazoo")
	c.join(named, exclusive, "kazoo-command", seed).trip = (*chaosClient).oneShot
	c.join(named, exclusive, "kazoo-owner", seed).trip = (*chaosClient).holdAsOwner
	c.join(named, foreign, "kazoo", seed).trip = (&foreignClient{kind: "K-lock", program: kazoo}).hold
	both := c.newLock("/both")
	c.join(both, exclusive, "writer", seed).trip = (*chaosClient).oneShot
	for i := range 3 {
		c.join(both, shared, fmt.Sprint("reader-", i), seed).trip = (*chaosClient).oneShot
	}

	one := c.newLock("/one")
	for i := range 3 {
		c.join(one, exclusive, fmt.Sprint("lease-", i), seed).trip = (*chaosClient).oneShot
	}
	c.join(one, exclusive, "lease-owner", seed).trip = (*chaosClient).holdAsOwner

	var running sync.WaitGroup
	for _, z := range c.clients {
		running.Go(z.run)
	}
	running.Go(c.wantNoOrphans)
	c.repairs.Go(func() { c.breakClients(rand.New(rand.NewPCG(seed, 1))) })
	c.breakServers(rand.New(rand.NewPCG(seed, 2)))
	c.repairs.Wait()
	// Wait until the sessions of killed and unreachable clients have expired.
	time.Sleep(chaosTimeout + 2*chaosTick)
	close(c.repaired)
	c.waitForClients(&running)
	c.wantNothingLeft()
	c.judge()
}

// newLock creates the path of a lock. It is permanent, so that the numbers of the znodes
// below it only grow.
func (c *chaos) newLock(path string) *oracle {
	o := newOracle(c.t, path)
	s := zksession.Open(c.t, zkconn.Config{Servers: c.split.Addr(0), Timeout: chaosTimeout})
	zktest.Must(c.t, zkconn.Exec(zktest.Within(c.t), s, zkconn.Create(path, nil, zkconn.OpenACL(), zkconn.CreateMode{})))
	c.locks = append(c.locks, o)
	return o
}

func (c *chaos) join(o *oracle, m mode, name string, seed uint64) *chaosClient {
	z := &chaosClient{chaos: c, oracle: o, mode: m, name: name, rand: rand.New(rand.NewPCG(seed, uint64(100+len(c.clients))))}
	for i := range 3 {
		z.proxies = append(z.proxies, zktest.NewProxy(c.t, c.split.Addr(i)))
	}
	c.clients = append(c.clients, z)
	return z
}

// waitForClients waits until every client has had the lock once more. If this takes too long,
// it makes the hanging programs dump their goroutines.
func (c *chaos) waitForClients(running *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { running.Wait(); close(done) }() // ends when all clients have ended
	select {
	case <-done:
		return
	case <-time.After(3 * zktest.Patience):
	}
	for _, o := range c.locks {
		text, err := exec.CommandContext(zktest.Within(c.t), "zksh", "-server", c.split.Addr(0), "locks", o.path).CombinedOutput()
		c.t.Logf("locks %s: %v\n%s", o.path, err, text)
	}
	for _, z := range c.clients {
		if z.done.Load() {
			continue
		}
		c.t.Errorf("%s hangs", z.name)
		z.signal(syscall.SIGABRT) // makes the program dump its goroutines
	}
	<-done
}

// wantNothingLeft checks that no commands run and that the queues are empty. It waits, because
// some znodes disappear only when their sessions expire.
func (c *chaos) wantNothingLeft() {
	s := zksession.Open(c.t, zkconn.Config{Servers: c.split.Addr(0), Timeout: chaosTimeout})
	zktest.Must(c.t, zkconn.Exec(zktest.Within(c.t), s, zkconn.Sync("/")))
	for _, o := range c.locks {
		late := time.Now().Add(zktest.Patience)
		for {
			left := c.contenders(s, o.path)
			if len(left) == 0 {
				break
			}
			if time.Now().After(late) {
				c.t.Errorf("%s: left behind: %q", o.path, left)
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	for _, z := range c.clients {
		if left := survivors(c.t, z.mark()); len(left) > 0 {
			c.t.Errorf("commands of %s that are left: %q", z.name, left)
		}
	}
}

// contenders returns the names of the znodes of a lock or a semaphore that belong to clients.
func (c *chaos) contenders(s *zkconn.Session, dir string) (names []string) {
	list, err := zkconn.Do(zktest.Within(c.t), s, zkconn.List(dir))
	if err != nil && !errors.Is(err, zkconn.NoNode) {
		c.t.Fatal(err)
	}
	for _, name := range list.Names {
		if name == "leases" || name == "locks" {
			names = append(names, c.contenders(s, dir+"/"+name)...)
		} else {
			names = append(names, name)
		}
	}
	return names
}

// judge checks the logs of the oracles, and compares them with the results of the trips.
func (c *chaos) judge() {
	lost := 0 // number of locks that zksh lost
	for _, o := range c.locks {
		v := o.judge(c.t)
		for _, overlap := range v.overlaps {
			c.t.Errorf("%s: %s", o.path, overlap)
		}
		if by, err := os.ReadFile(filepath.Join(o.dir, "taken")); err == nil { // the file exists only if a client found the kernel's lock taken
			c.t.Logf("%s: found taken:\n%s", o.path, by)
		}
		held, late := map[string]int{}, map[string]int{}
		for s, last := range v.last {
			held[s.name]++
			if last.mode == foreign && v.late[s] {
				late[s.name]++
			}
		}
		c.t.Logf("%s: held %v; Curator's and kazoo's that believed in it for too long: %v", o.path, held, late)
		statuses := map[string]int{}
		for _, trip := range c.trips {
			if trip.client.oracle != o {
				continue
			}
			statuses[trip.status()]++
			if lie := trip.mismatch(v); lie != "" {
				c.t.Errorf("%s tells a lie: %s\n%s", trip, lie, trip.errs)
			}
			if trip.killed || trip.exit.ExitStatus() == commands.StatusLockLost {
				lost++
			}
			if len(trip.survivors) > 0 {
				c.t.Errorf("%s: its command goes on: %q", trip, trip.survivors)
			}
		}
		c.t.Logf("%s: statuses %v", o.path, statuses)
	}
	c.t.Logf("faults: %v", c.faults)
	if lost == 0 && *chaosTime >= time.Minute { // a shorter run may have only faults of other kinds
		c.t.Error("no lock was lost, and no holder killed: it was not chaos")
	}
}
