//go:build linux

package interop

import (
	"context"
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

// The leader ends a session that it has not heard of for chaosTimeout, and a
// follower that is cut off goes on answering its clients for longer than that.
const (
	chaosTick      = 500 * time.Millisecond
	chaosSyncLimit = 16 // ticks
	chaosTimeout   = 6 * time.Second
	longCut        = chaosSyncLimit*chaosTick + time.Second
)

// chaos is an ensemble, its clients, and how far it is.
type chaos struct {
	t       *testing.T
	split   *zktest.Split
	locks   []*oracle // one for each path
	clients []*contestant
	over    context.Context // no more faults are made
	calm    chan struct{}   // closed when they are mended, and sessions that had ended are gone
	mending sync.WaitGroup

	mu     sync.Mutex
	trips  []*trip
	faults map[string]int
}

// Three servers, of which one or another is killed or cut off; clients of all kinds
// for a lock, and for one of readers and writers, each on proxies of its own, of
// which one or another is cut off, stopped, told to end or killed: no two are in
// the critical section together, no command outlives its zksh, no status tells a
// lie, and when all is mended everybody gets the lock, and nothing is left.
//
// A server that stands still is not among the faults: see the package comment of
// zklock for what two such in a row can do. Nor does a zksh stand still that holds a
// lock between two lines of a batch, where there is no command that could be ended.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	zktest.Need(t, exec.Command("flock", "--version").Run() == nil, "util-linux")
	curator, kazoo := driverPrograms(t)
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-chaosseed %d", seed)
	c := &chaos{t: t, calm: make(chan struct{}), faults: map[string]int{}}
	c.split = zktest.StartSplit(t, zktest.Heap(64), zktest.Ticks(int(chaosTick.Milliseconds()), 20, chaosSyncLimit))
	var stop context.CancelFunc
	c.over, stop = context.WithTimeout(t.Context(), *chaosTime)
	defer stop()

	alone := c.newLock("/alone")
	for i := range 4 {
		c.join(alone, exclusive, fmt.Sprint("command-", i), seed).trip = (*contestant).oneShot
	}
	c.join(alone, exclusive, "batch", seed).trip = (*contestant).batch
	told := c.join(alone, exclusive, "lines", seed)
	told.trip, told.noStop = (*contestant).byLines, true
	c.join(alone, foreign, "curator", seed).trip = (&stranger{kind: "C-mutex", program: curator}).hold
	c.join(alone, foreign, "kazoo", seed).trip = (&stranger{kind: "K-lock", program: kazoo}).hold
	both := c.newLock("/both")
	c.join(both, exclusive, "writer", seed).trip = (*contestant).oneShot
	for i := range 3 {
		c.join(both, shared, fmt.Sprint("reader-", i), seed).trip = (*contestant).oneShot
	}

	var running sync.WaitGroup
	for _, z := range c.clients {
		running.Go(z.run)
	}
	c.mending.Go(func() { c.breakClients(rand.New(rand.NewPCG(seed, 1))) })
	c.breakServers(rand.New(rand.NewPCG(seed, 2)))
	c.mending.Wait()
	// Sessions of clients that were killed, and of those that are not heard of.
	time.Sleep(chaosTimeout + 2*chaosTick)
	close(c.calm)
	c.await(&running)
	c.wantNothingLeft()
	c.judge()
}

// newLock makes the path of a lock, which stays, so that the numbers of its znodes
// only grow.
func (c *chaos) newLock(path string) *oracle {
	o := newOracle(c.t, path)
	s := zksession.Open(c.t, zkconn.Config{Servers: c.split.Addr(0), Timeout: chaosTimeout})
	if err := zkconn.Exec(zktest.Within(c.t), s, zkconn.Create(path, nil, zkconn.OpenACL(), zkconn.CreateMode{})); err != nil {
		c.t.Fatal(err)
	}
	c.locks = append(c.locks, o)
	return o
}

func (c *chaos) join(o *oracle, m mode, name string, seed uint64) *contestant {
	z := &contestant{c: c, o: o, mode: m, name: name, r: rand.New(rand.NewPCG(seed, uint64(100+len(c.clients))))}
	for i := range 3 {
		z.proxies = append(z.proxies, zktest.NewProxy(c.t, c.split.Addr(i)))
	}
	c.clients = append(c.clients, z)
	return z
}

// await waits for the clients, each of which ends when it has had the lock once more.
func (c *chaos) await(running *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { running.Wait(); close(done) }() // ends with the clients
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
		z.signal(syscall.SIGABRT) // tells where
	}
	<-done
}

// wantNothingLeft wants the queues to be empty when all clients have ended, at the
// latest with their sessions, and no command to run.
func (c *chaos) wantNothingLeft() {
	s := zksession.Open(c.t, zkconn.Config{Servers: c.split.Addr(0), Timeout: chaosTimeout})
	if err := zkconn.Exec(zktest.Within(c.t), s, zkconn.Sync("/")); err != nil {
		c.t.Fatal(err)
	}
	for _, o := range c.locks {
		late := time.Now().Add(zktest.Patience)
		for {
			list, err := zkconn.Do(zktest.Within(c.t), s, zkconn.List(o.path))
			if err != nil {
				c.t.Fatal(err)
			}
			if len(list.Names) == 0 {
				break
			}
			if time.Now().After(late) {
				c.t.Errorf("%s: left behind: %q", o.path, list.Names)
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

// judge compares what the oracles have seen with what was said.
func (c *chaos) judge() {
	lost := 0 // locks, by zksh's
	for _, o := range c.locks {
		v := o.judge(c.t)
		for _, overlap := range v.overlaps {
			c.t.Errorf("%s: %s", o.path, overlap)
		}
		if by, err := os.ReadFile(filepath.Join(o.dir, "taken")); err == nil { // there is none if nobody found it so
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
			if trip.z.o != o {
				continue
			}
			statuses[trip.status()]++
			if lie := trip.lie(v); lie != "" {
				c.t.Errorf("%s tells a lie: %s\n%s", trip, lie, trip.errs)
			}
			if trip.killed || trip.exit.ExitStatus() == commands.StatusLockLost {
				lost++
			}
			if len(trip.left) > 0 {
				c.t.Errorf("%s: its command goes on: %q", trip, trip.left)
			}
		}
		c.t.Logf("%s: statuses %v", o.path, statuses)
	}
	c.t.Logf("faults: %v", c.faults)
	if lost == 0 && *chaosTime >= time.Minute { // in less there may be faults of other kinds alone
		c.t.Error("no lock was lost, and no holder killed: it was not chaos")
	}
}
