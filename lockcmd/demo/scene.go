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

// scheme is one way to lock.
type scheme struct {
	name    string
	recipe  func(*contender) recipe
	formula *formula // nil: there is none
	shared  bool     // readers hold together; the formula is for writers alone
}

// recipe is how one contender gets the lock, and gives it back.
type recipe interface {
	lock(ctx context.Context) error
	unlock(ctx context.Context) error
}

var schemes = []scheme{
	{name: "naive", recipe: func(c *contender) recipe { return naive{c} }},
	{name: "poll", recipe: func(c *contender) recipe { return poll{c} }, formula: silence},
	{name: "parent", recipe: func(c *contender) recipe { return parent{c} }, formula: herd},
	{name: "predecessor", recipe: func(c *contender) recipe { return predecessor{c} }, formula: chain},
	{name: "shared-herd", recipe: func(c *contender) recipe { return sharedHerd{c} }, formula: herd, shared: true},
	{name: "shared", recipe: func(c *contender) recipe { return shared{c} }, formula: chain, shared: true},
	{name: "local", recipe: func(c *contender) recipe { return local{c} }},
	{name: "curator", recipe: func(c *contender) recipe { return curator{c} }, formula: chain},
	{name: "zksh", recipe: func(c *contender) recipe { return &own{contender: c} }, formula: leased},
}

// scene is one scheme with n contenders: all queue, then the lock goes through them.
type scene struct {
	*stage
	scheme    scheme
	n         int
	folder    string
	cast      []*contender
	processes []chan struct{} // the local locks, of the scheme local
	opened    chan struct{}   // closed when all have queued
	referee
}

func (st *stage) newScene(s scheme, n int) *scene {
	sc := &scene{stage: st, scheme: s, n: n, folder: fmt.Sprintf("%s/%s-%d", st.root, s.name, n), opened: make(chan struct{})}
	for i := range n + 1 {
		sc.cast = append(sc.cast, &contender{scene: sc, seat: st.seats[i], number: i, reader: s.shared && i > 0 && sc.reads(i),
			wake: make(chan zk.EventType, 1), queued: make(chan struct{}), role: role{ticket: noTicket}})
	}
	for range n/threads + 2 {
		sc.processes = append(sc.processes, make(chan struct{}, 1))
	}
	return sc
}

// readerCount is how many of the contenders read.
func (sc *scene) readerCount() int {
	switch {
	case !sc.scheme.shared:
		return 0
	case sc.readers < 0:
		return sc.n * 3 / 4
	}
	return min(sc.readers, sc.n)
}

// reads reports whether the i-th contender is a reader: the writers stand evenly
// among them, the first of all is one.
func (sc *scene) reads(i int) bool {
	writers := sc.n - sc.readerCount()
	for w := range writers {
		if w*sc.n/writers == i-1 {
			return false
		}
	}
	return true
}

// settling is how long is waited for the contenders to have looked at the queue.
const settling = 2 * time.Second

// play has all queue, then starts, and returns what it has cost until the last has
// released the lock.
func (sc *scene) play(ctx context.Context) (*result, error) {
	if err := sc.build(ctx, sc.folder); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var playing sync.WaitGroup
	defer func() {
		cancel(nil)
		playing.Wait()
	}()
	sc.start = time.Now()
	sc.show.begin(sc)
	for _, c := range sc.cast {
		var own context.Context
		own, c.kill = context.WithCancelCause(ctx)
		playing.Go(func() { // until its part is over, or cancel
			if err := c.play(own); err != nil {
				cancel(err)
			}
			c.kill(nil)
		})
		playing.Go(func() { // until its part is over
			if c.loses(own) {
				cancel(errCutOff)
			}
		})
		if c.number == 0 || !sc.classic { // the threads of the article all begin at once
			c.await(ctx)
		}
	}
	for _, c := range sc.cast {
		c.await(ctx)
	}
	r, err := sc.measure(ctx, func() {
		close(sc.opened)
		playing.Wait()
	})
	if err != nil {
		return nil, err
	}
	sc.show.finish(r)
	return r, sc.remove(ctx, sc.folder)
}

var errCutOff = errors.New("a contender lost its connection, so the counts are not valid; run lockdemo again")

// loses waits until the contender's part is over, and reports whether its connection
// was lost before.
func (c *contender) loses(ctx context.Context) bool {
	for ctx.Err() == nil {
		changed := c.session.Changed()
		if !c.session.Connected() {
			return !c.over()
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return false
}

// await is until the contender has queued.
func (c *contender) await(ctx context.Context) {
	select {
	case <-c.queued:
	case <-ctx.Done():
	}
}

// measure counts what run costs.
func (sc *scene) measure(ctx context.Context, run func()) (*result, error) {
	if err := sc.settle(ctx); err != nil {
		return nil, err
	}
	var idle, open, end *ledger
	s := sc.env.Session
	servers, shell, begun := sc.servers(), s.Info(), time.Now()
	before, err := sc.wires.cut(ctx, func() { idle, open = readLedger(ctx, s, servers), readLedger(ctx, s, servers) })
	if err != nil {
		return nil, err
	}
	sc.mu.Lock()
	sc.base, sc.notified = &before, before.notifications
	sc.mu.Unlock()
	run()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	fences, err := sc.fence(ctx)
	if err != nil {
		return nil, err
	}
	after, err := sc.wires.cut(ctx, func() { end = readLedger(ctx, s, servers) })
	if err != nil {
		return nil, err
	}
	t := after.since(before)
	t.requests -= fences
	ours, pings := len(sc.seats), 0
	if slices.Contains(servers, shell.Addr) {
		ours++
	}
	if now := sc.env.Session.Info().LastContact; !now.Equal(shell.LastContact) { // it pings three times a timeout
		pings = 1 + int(3*time.Since(begun)/shell.Timeout)
	}
	return sc.result(t, newAudit(after.since(before), ours, pings, servers, idle, open, end)), nil
}

// fence asks each contender's server for something small, and returns how many have
// been asked. Behind the answer no notification is left to come.
func (sc *scene) fence(ctx context.Context) (int, error) {
	alive := slices.DeleteFunc(slices.Clone(sc.cast), func(c *contender) bool { return c.over() })
	return len(alive), each(alive, func(c *contender) error { return c.session.Sync(ctx, sc.folder) })
}

// settle waits until those that were woken by others' coming have looked.
func (sc *scene) settle(ctx context.Context) error {
	if _, err := sc.fence(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, settling, errUnsettled)
	defer cancel()
	for calm := 0; calm < 3; {
		calm++
		for _, c := range sc.cast {
			if !c.idle() {
				calm = 0
			}
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			if errors.Is(err, errUnsettled) {
				return nil // some poll all the time
			}
			return err
		}
	}
	return nil
}

var errUnsettled = errors.New("the contenders did not stop sending requests in time")
