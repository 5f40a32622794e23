package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// A scheme is a lock recipe with a name, and a formula that predicts its cost.
type scheme struct {
	name    string
	about   string // what the audience must know to understand the lanes, in at most 58 columns
	recipe  func(*contender) recipe
	formula formula // prediction of the recipe's cost, or nil if there is none
	polls   bool    // whether contenders look at the queue at intervals
	// leased means that holders renew a lease. The formula does not include these requests.
	leased bool
	// shared means that some contenders are readers, which share the lock. With readers, the
	// formula does not apply.
	shared bool
}

// A recipe is a contender's way to acquire and release the lock.
type recipe interface {
	lock(ctx context.Context) error
	unlock(ctx context.Context) error
}

var schemes = []scheme{
	{name: "naive", about: "All try to create one znode, again after each change.",
		recipe: func(c *contender) recipe { return naive{c} }},
	{name: "poll", about: "Each contender lists the queue ten times a second.", polls: true,
		recipe: func(c *contender) recipe { return poll{c} }, formula: pollFormula},
	{name: "parent", about: "Each contender watches the whole queue.",
		recipe: func(c *contender) recipe { return parent{c} }, formula: herdFormula},
	{name: "predecessor", about: "Each contender watches only the one before it.",
		recipe: func(c *contender) recipe { return predecessor{c} }, formula: chainFormula},
	{name: "shared-herd", about: "Readers share the lock; all watch the whole queue.", shared: true,
		recipe: func(c *contender) recipe { return sharedHerd{c} }, formula: herdFormula},
	{name: "shared", about: "Readers share the lock; each watches one that excludes it.", shared: true,
		recipe: func(c *contender) recipe { return shared{c} }, formula: chainFormula},
	{name: "local", about: "Only one thread of each process joins the queue.",
		recipe: func(c *contender) recipe { return local{c} }},
	{name: "curator", about: "This is Curator's InterProcessMutex.",
		recipe: func(c *contender) recipe { return curator{c} }, formula: chainFormula},
	{name: "zksh", about: "This is the command lock of zksh.", leased: true,
		recipe: func(c *contender) recipe { return &zkshLock{contender: c} }, formula: leaseFormula},
	{name: "semaphore", about: "A semaphore with one lease: first a mutex, then the lease.",
		recipe: func(c *contender) recipe { return &semaphore{zkshLock{contender: c}} }},
}

// rules contains the settings of a scene.
type rules struct {
	hold time.Duration // how long each contender holds the lock
	// opening is the time between the moment at which all contenders wait and the first release. It
	// lets an audience see the queue.
	opening    time.Duration
	killHolder bool // whether to kill the contender that acquires the lock in the middle of the scene
	// step waits until the user presses Enter. It is nil without --step.
	step func(context.Context) error
}

// expectedTime estimates how long a scene takes. timeout is the contenders' session timeout.
func (r rules) expectedTime(s scheme, n int, timeout time.Duration) time.Duration {
	d := r.opening + time.Duration(n)*r.hold
	if s.polls { // on average, the next contender looks after half of the interval
		d += time.Duration(n) * pollInterval / 2
	}
	if r.killHolder {
		d += timeout
	}
	return d
}

// A scene is one run of a scheme: n contenders queue for the lock, and then each of them acquires
// and releases it.
type scene struct {
	*runner
	rules
	scheme      scheme
	n           int
	folder      string
	contenders  []*contender
	processes   []chan struct{}         // one lock for each simulated process; used by the scheme local
	startSignal chan struct{}           // closed when the first holder must release the lock
	stepping    sync.Mutex              // held by the contender that waits for the user to press Enter
	baseline    atomic.Pointer[traffic] // traffic before the measurement, or nil if it has not begun
	referee
}

func (st *runner) newScene(s scheme, n int, r rules) *scene {
	sc := &scene{runner: st, rules: r, scheme: s, n: n, folder: fmt.Sprintf("%s/%s-%d", st.root, s.name, n),
		startSignal: make(chan struct{})}
	for i := range n + 1 {
		sc.contenders = append(sc.contenders, &contender{scene: sc, sessionSlot: st.slots[i], number: i,
			reader: s.shared && i > 0 && sc.isReader(i), wake: make(chan zk.EventType, 1), arrived: make(chan struct{}),
			refereeState: refereeState{ticket: noTicket}})
	}
	for range n/threadsPerProcess + 2 {
		sc.processes = append(sc.processes, make(chan struct{}, 1))
	}
	return sc
}

// readerCount returns the number of contenders that are readers: three out of four if the scheme has
// readers.
func (sc *scene) readerCount() int {
	if !sc.scheme.shared {
		return 0
	}
	return sc.n * 3 / 4
}

// isReader reports whether contender number i is a reader. The contenders queue in groups of
// writers and then readers. A group has at least two readers if possible, because these share the
// lock.
func (sc *scene) isReader(i int) bool {
	readers := sc.readerCount()
	writers := sc.n - readers
	groups := max(1, min(writers, readers/2))
	group := (i - 1) * groups / sc.n
	first := (group*sc.n + groups - 1) / groups // number of contenders in the groups before
	return i-1-first >= (group+1)*writers/groups-group*writers/groups
}

// settleTimeout is the maximum time that settle waits for the contenders to become idle.
const settleTimeout = 2 * time.Second

// run runs the scene: it waits until all contenders are in the queue, and then makes them acquire
// and release the lock one after another. It returns the measured cost.
func (sc *scene) run(ctx context.Context) (*result, error) {
	if err := sc.createFolder(ctx, sc.folder); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var playing sync.WaitGroup
	defer func() {
		cancel(nil)
		playing.Wait()
	}()
	sc.start = time.Now()
	sc.display.begin(sc)
	for _, c := range sc.contenders {
		own, end := context.WithCancel(ctx)
		playing.Go(func() { // ends when the contender has ended or ctx is canceled
			if err := c.run(own); err != nil {
				cancel(err)
			}
			end()
		})
		playing.Go(func() { // ends when the contender has ended
			if c.lostConnection(own) {
				cancel(errCutOff)
			}
		})
		c.waitArrived(ctx)
	}
	if err := sc.settle(ctx); err != nil {
		return nil, err
	}
	if err := pause(ctx, sc.opening); err != nil {
		return nil, err
	}
	before := sc.wires.read()
	sc.baseline.Store(&before)
	close(sc.startSignal)
	playing.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	syncs, err := sc.syncAll(ctx)
	if err != nil {
		return nil, err
	}
	cost := sc.wires.read().since(before)
	cost.requests -= syncs
	r := sc.result(cost)
	sc.display.finish(r)
	return r, sc.remove(ctx, sc.folder)
}

var errCutOff = errors.New("a contender lost its connection, so the counts are not valid; run lockdemo again")

// lostConnection waits until the contender ends or loses its connection. It reports whether the
// connection was lost first.
func (c *contender) lostConnection(ctx context.Context) bool {
	for ctx.Err() == nil {
		changed := c.session.Changed()
		if !c.session.Connected() {
			return !c.ended()
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return false
}

// waitArrived waits until the contender is in the queue or ctx is canceled.
func (c *contender) waitArrived(ctx context.Context) {
	select {
	case <-c.arrived:
	case <-ctx.Done():
	}
}

// syncAll makes each live session send a sync request, and waits for the replies. After that, all
// earlier notifications have arrived. It returns the number of requests.
func (sc *scene) syncAll(ctx context.Context) (int, error) {
	alive := slices.DeleteFunc(slices.Clone(sc.contenders), func(c *contender) bool { return c.ended() })
	return len(alive), forEach(alive, func(c *contender) error { return c.session.Sync(ctx, sc.folder) })
}

// settle waits until the contenders no longer send requests in response to each other's arrival.
func (sc *scene) settle(ctx context.Context) error {
	if _, err := sc.syncAll(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, settleTimeout, errUnsettled)
	defer cancel()
	for calm := 0; calm < 3; {
		calm++
		for _, c := range sc.contenders {
			if !c.idle() {
				calm = 0
			}
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			if errors.Is(err, errUnsettled) {
				return nil // the formula notices requests that are not part of a hand-off
			}
			return err
		}
	}
	return nil
}

var errUnsettled = errors.New("the contenders did not stop sending requests in time")
