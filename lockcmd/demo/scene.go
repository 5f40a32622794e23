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

// A setting describes a scene.
type setting struct {
	scheme scheme
	n      int           // number of contenders
	shown  bool          // whether an audience follows the scene; otherwise, it only counts
	hold   time.Duration // how long each contender holds the lock
	// opening is the time between the moment at which all contenders wait and the first release. It
	// lets an audience see the queue.
	opening    time.Duration
	killHolder bool // whether to kill the contender that acquires the lock in the middle of the scene
	// step waits until the user presses Enter. It is nil without --step.
	step func(context.Context) error
}

func (s setting) title() string { return fmt.Sprintf("%s, %d contenders", s.scheme.name, s.n) }

// expectedTime estimates how long the scene takes. timeout is the contenders' session timeout.
func (s setting) expectedTime(timeout time.Duration) time.Duration {
	d := s.opening + time.Duration(s.n)*s.hold
	if s.scheme.polls { // on average, the next contender looks after half of the interval
		d += time.Duration(s.n) * pollInterval / 2
	}
	if s.killHolder {
		d += timeout
	}
	return d
}

// A scene is one run of a scheme: n contenders queue for the lock, and then each of them acquires
// and releases it.
type scene struct {
	*stage
	setting
	timeline
	folder      string
	contenders  []*contender
	processes   []chan struct{}         // one lock for each simulated process; used by the scheme local
	startSignal chan struct{}           // closed when the first holder must release the lock
	baseline    atomic.Pointer[traffic] // traffic before the measurement, or nil if it has not begun
	result      atomic.Pointer[result]  // nil until the scene is over

	drawing sync.Mutex // held while the scene is shown, and while the user is asked
	printed int        // number of events that have been printed; guarded by drawing
}

func (st *stage) newScene(s setting) *scene {
	sc := &scene{stage: st, setting: s, folder: fmt.Sprintf("%s/%s-%d", st.root, s.scheme.name, s.n),
		startSignal: make(chan struct{})}
	for i := range s.n + 1 {
		c := &contender{scene: sc, number: i, reader: sc.isReader(i), wake: make(chan zk.EventType, 1),
			arrived: make(chan struct{}), activity: activity{ticket: noTicket}}
		if i < len(st.slots) {
			c.slot = st.slots[i]
		}
		sc.contenders = append(sc.contenders, c)
	}
	for range s.n/threadsPerProcess + 2 {
		sc.processes = append(sc.processes, make(chan struct{}, 1))
	}
	return sc
}

// hasReaders reports whether some of the contenders are readers.
func (s setting) hasReaders() bool { return s.scheme.shared && s.n > 1 }

// isReader reports whether contender number i is a reader. Each writer is followed by three readers,
// which share the lock.
func (s setting) isReader(i int) bool { return s.scheme.shared && i > 0 && i%4 != 1 }

// run runs the scene and shows it meanwhile. It returns the measured cost.
func (sc *scene) run(ctx context.Context) (*result, error) {
	if err := sc.createFolder(ctx, sc.slots[0].session, sc.folder); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sc.start = time.Now()
	over := make(chan struct{})
	var r *result
	var err error
	go func() { // ends when the scene is over or ctx is canceled
		defer close(over)
		r, err = sc.play(ctx)
		sc.result.Store(r)
	}()
	if failed := sc.follow(over); failed != nil {
		cancel(failed)
		<-over
		return nil, failed
	}
	return r, err
}

// play waits until all contenders are in the queue, and then makes them acquire and release the lock
// one after another. It returns the measured cost.
func (sc *scene) play(ctx context.Context) (*result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var playing sync.WaitGroup
	defer func() {
		cancel(nil)
		playing.Wait()
	}()
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
		select {
		case <-c.arrived:
		case <-ctx.Done():
		}
	}
	if err := sc.settle(ctx); err != nil {
		return nil, err
	}
	if err := pause(ctx, sc.opening); err != nil {
		return nil, err
	}
	baseline := sc.wires.read()
	sc.baseline.Store(&baseline)
	close(sc.startSignal)
	playing.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	syncs, err := sc.syncAll(ctx)
	if err != nil {
		return nil, err
	}
	cost := sc.costSoFar()
	cost.requests -= syncs
	return sc.measure(cost, sc.tally()), nil
}

// costSoFar returns the traffic since the measurement began.
func (sc *scene) costSoFar() traffic {
	if before := sc.baseline.Load(); before != nil {
		return sc.wires.read().since(*before)
	}
	return traffic{}
}

var errCutOff = errors.New("a contender lost its connection, so the counts are not valid; run lockdemo again")

// lostConnection waits until the contender ends or loses its connection. It reports whether the
// connection was lost first.
func (c *contender) lostConnection(ctx context.Context) bool {
	for ctx.Err() == nil {
		changed := c.session.Changed()
		if !c.session.Connected() {
			return c.client.Live()
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return false
}

// syncAll makes each live session send a sync request, and waits for the replies. After that, all
// earlier notifications have arrived. It returns the number of requests.
func (sc *scene) syncAll(ctx context.Context) (int, error) {
	alive := slices.DeleteFunc(slices.Clone(sc.contenders), func(c *contender) bool { return !c.client.Live() })
	return len(alive), forEach(alive, func(c *contender) error { return c.session.Sync(ctx, sc.folder) })
}

// settleTimeout is the maximum time that settle waits for the contenders to become idle.
const settleTimeout = 2 * time.Second

// settle waits until the contenders no longer send requests in response to each other's arrival. If
// that takes too long, it returns nil, because the formula notices requests that are not part of a
// hand-off.
func (sc *scene) settle(ctx context.Context) error {
	if _, err := sc.syncAll(ctx); err != nil {
		return err
	}
	busy := func(c *contender) bool { return !c.idle() }
	deadline := time.Now().Add(settleTimeout)
	for calm := 0; calm < 3 && time.Now().Before(deadline); {
		if calm++; slices.ContainsFunc(sc.contenders, busy) {
			calm = 0
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
