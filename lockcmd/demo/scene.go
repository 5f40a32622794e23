package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// A scheme is a lock recipe with a name, and a formula that predicts its cost.
type scheme struct {
	name    string
	recipe  func(*contender) recipe
	formula *formula // prediction of the recipe's cost, or nil if there is none
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
	{name: "naive", recipe: func(c *contender) recipe { return naive{c} }},
	{name: "poll", recipe: func(c *contender) recipe { return poll{c} }, formula: pollFormula},
	{name: "parent", recipe: func(c *contender) recipe { return parent{c} }, formula: herdFormula},
	{name: "predecessor", recipe: func(c *contender) recipe { return predecessor{c} }, formula: chainFormula},
	{name: "shared-herd", recipe: func(c *contender) recipe { return sharedHerd{c} }, formula: herdFormula, shared: true},
	{name: "shared", recipe: func(c *contender) recipe { return shared{c} }, formula: chainFormula, shared: true},
	{name: "local", recipe: func(c *contender) recipe { return local{c} }},
	{name: "curator", recipe: func(c *contender) recipe { return curator{c} }, formula: chainFormula},
	{name: "zksh", recipe: func(c *contender) recipe { return &zkshLock{contender: c} }, formula: leaseFormula},
	{name: "semaphore", recipe: func(c *contender) recipe { return &semaphore{zkshLock{contender: c}} }},
}

// A scene is one run of a scheme: n contenders queue for the lock, and then each of them acquires
// and releases it.
type scene struct {
	*runner
	scheme      scheme
	n           int
	folder      string
	contenders  []*contender
	processes   []chan struct{} // one lock for each simulated process; used by the scheme local
	startSignal chan struct{}   // closed once all contenders are in the queue
	stepping    sync.Mutex      // held by the contender that waits for the user to press Enter
	referee
}

func (st *runner) newScene(s scheme, n int) *scene {
	sc := &scene{runner: st, scheme: s, n: n, folder: fmt.Sprintf("%s/%s-%d", st.root, s.name, n), startSignal: make(chan struct{})}
	for i := range n + 1 {
		sc.contenders = append(sc.contenders, &contender{scene: sc, sessionSlot: st.slots[i], number: i, reader: s.shared && i > 0 && sc.isReader(i),
			wake: make(chan zk.EventType, 1), arrived: make(chan struct{}), refereeState: refereeState{ticket: noTicket}})
	}
	for range n/threadsPerProcess + 2 {
		sc.processes = append(sc.processes, make(chan struct{}, 1))
	}
	return sc
}

// readerCount returns the number of contenders that are readers.
func (sc *scene) readerCount() int {
	switch {
	case !sc.scheme.shared:
		return 0
	case sc.readers < 0:
		return sc.n * 3 / 4
	}
	return min(sc.readers, sc.n)
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
		var own context.Context
		own, c.kill = context.WithCancelCause(ctx)
		playing.Go(func() { // ends when the contender has ended or ctx is canceled
			if err := c.run(own); err != nil {
				cancel(err)
			}
			c.kill(nil)
		})
		playing.Go(func() { // ends when the contender has ended
			if c.lostConnection(own) {
				cancel(errCutOff)
			}
		})
		if c.number == 0 || !sc.classic { // the threads in the article do not wait for each other
			c.waitArrived(ctx)
		}
	}
	for _, c := range sc.contenders {
		c.waitArrived(ctx)
	}
	r, err := sc.measure(ctx, func() {
		close(sc.startSignal)
		playing.Wait()
	})
	if err != nil {
		return nil, err
	}
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

// measure calls run, and returns the cost of the hand-offs that happen during the call.
func (sc *scene) measure(ctx context.Context, run func()) (*result, error) {
	if err := sc.settle(ctx); err != nil {
		return nil, err
	}
	var idle, open, end *serverCounters
	s := sc.env.Session
	servers, shell, begun := sc.servers(), s.Info(), time.Now()
	before, err := sc.wires.freeze(ctx, func() { idle, open = readServerCounters(ctx, s, servers), readServerCounters(ctx, s, servers) })
	if err != nil {
		return nil, err
	}
	sc.mu.Lock()
	sc.baseline, sc.notifiedBefore = &before, before.notifications
	sc.mu.Unlock()
	run()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	fences, err := sc.syncAll(ctx)
	if err != nil {
		return nil, err
	}
	after, err := sc.wires.freeze(ctx, func() { end = readServerCounters(ctx, s, servers) })
	if err != nil {
		return nil, err
	}
	t := after.since(before)
	t.requests -= fences
	ours, pings := len(sc.slots), 0
	if slices.Contains(servers, shell.Addr) {
		ours++
	}
	// A changed LastContact shows that the shell's own session may have sent pings. It sends about
	// three per session timeout.
	if now := sc.env.Session.Info().LastContact; !now.Equal(shell.LastContact) {
		pings = 1 + int(3*time.Since(begun)/shell.Timeout)
	}
	return sc.result(t, newAudit(after.since(before), ours, pings, servers, idle, open, end)), nil
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
				return nil // the contenders of the scheme poll never stop sending requests
			}
			return err
		}
	}
	return nil
}

var errUnsettled = errors.New("the contenders did not stop sending requests in time")
