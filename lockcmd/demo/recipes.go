package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/zklock"
	"github.com/zksh/zksh/lockcmd/zklock/ensemble"
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
		recipe: func(c *contender) recipe { return queue{c, "temp", nothing} }, formula: pollFormula},
	{name: "parent", about: "Each contender watches the whole queue.",
		recipe: func(c *contender) recipe { return queue{c, "temp", folder} }, formula: herdFormula},
	{name: "predecessor", about: "Each contender watches only the one before it.",
		recipe: func(c *contender) recipe { return queue{c, "temp", nearest} }, formula: chainFormula},
	{name: "shared-herd", about: "Readers share the lock; all watch the whole queue.", shared: true,
		recipe: func(c *contender) recipe { return queue{c, c.sharedName(), folder} }, formula: herdFormula},
	{name: "shared", about: "Readers share the lock; each watches one that excludes it.", shared: true,
		recipe: func(c *contender) recipe { return queue{c, c.sharedName(), nearest} }, formula: chainFormula},
	{name: "local", about: "Only one thread of each process joins the queue.",
		recipe: func(c *contender) recipe { return local{c} }},
	{name: "curator", about: "This is Curator's InterProcessMutex.",
		recipe: func(c *contender) recipe { return queue{c, c.curatorName(), nearest} }, formula: chainFormula},
	{name: "zksh", about: "This is the command lock of zksh.", leased: true,
		recipe: func(c *contender) recipe { return &zkshLock{contender: c} }, formula: leaseFormula},
	{name: "semaphore", about: "A semaphore with one lease: first a mutex, then the lease.",
		recipe: func(c *contender) recipe { return &zkshLock{contender: c, semaphore: true} }},
}

// queue is a recipe in which each contender creates a sequential znode, and holds the lock when no
// znode of a contender that excludes it is ahead in the list.
type queue struct {
	*contender
	name    string // name of the contender's znode without the sequence number
	watches watched
}

// watched names the znodes that a contender of a queue watches while it waits.
type watched int

const (
	// nothing: the contender lists the folder at regular intervals, so there are no notifications.
	nothing watched = iota
	// folder: after each change, every waiter wakes up, lists the folder and watches it again,
	// although only one of them can acquire the lock. The holder does not list the folder again, but
	// its last watch still fires at the next change.
	folder
	// nearest: the contender watches the nearest znode ahead that excludes it, so that a release
	// wakes only contenders that may be able to acquire the lock.
	nearest
)

func (q queue) lock(ctx context.Context) error {
	if err := q.createNumbered(ctx, q.name); err != nil {
		return err
	}
	for {
		if q.watches == nothing {
			if err := q.waitForPoll(ctx); err != nil { // wait before the first list request, too
				return err
			}
		}
		ahead, err := q.listAhead(ctx, q.watches == folder)
		if err != nil || len(ahead) == 0 {
			return err
		}
		switch q.watches {
		case folder:
			err = q.waitForWatch(ctx)
		case nearest:
			err = q.watchAndWait(ctx, ahead[len(ahead)-1])
		}
		if err != nil {
			return err
		}
	}
}

// sharedName returns the name of a znode in a read-write lock, which distinguishes readers from
// writers.
func (c *contender) sharedName() string {
	if c.reader {
		return "[localhost]-R-"
	}
	return "[localhost]" + writerMark
}

// curatorName returns the name of a znode of Curator. It contains a unique id, by which a client
// finds its znode if the reply to the create request is lost.
func (c *contender) curatorName() string {
	return fmt.Sprintf("_c_%08x-0000-4000-8000-%012x-lock-", c.number, c.session.ID()&(1<<48-1))
}

// naive is a lock that consists of a single znode: the client that creates it holds the lock. All
// other clients watch the folder and try again after each change. All of them wake up, and any
// one of them acquires the lock, because there is no queue.
type naive struct{ *contender }

func (l naive) lock(ctx context.Context) error {
	for {
		err := l.create(ctx, "lock", zkconn.CreateMode{Ephemeral: true})
		if !errors.Is(err, zkconn.NodeExists) {
			return err
		}
		l.record(refused)
		names, err := l.list(ctx, true)
		// The znode, and perhaps the folder, was deleted before the watch was set.
		if isNoNode(err) || err == nil && len(names) == 0 {
			continue
		}
		if err != nil {
			return err
		}
		if err := l.waitForWatch(ctx); err != nil {
			return err
		}
	}
}

// local combines a lock inside each process with a lock in ZooKeeper. Only the thread that holds
// its process's lock queues in ZooKeeper, so few clients wait there.
//
// To release the ZooKeeper lock, a thread deletes the first znode in the list, because it assumes
// that this znode is its own. The next thread of the process continues after the previous one has
// ended.
type local struct{ *contender }

// threadsPerProcess is the number of contenders that simulate the threads of one process.
const threadsPerProcess = 5

func (l local) lock(ctx context.Context) error {
	l.beginWait()
	process := l.processes[(l.number+threadsPerProcess-1)/threadsPerProcess]
	select {
	case process <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	// When this contender ends, release the lock of its process, so that the next thread may
	// continue.
	context.AfterFunc(ctx, func() { <-process })
	return queue{l.contender, fmt.Sprintf("_c_%032x-lock-", l.session.ID()), nearest}.lock(ctx)
}

func (l local) unlock(ctx context.Context) error {
	names, err := l.list(ctx, false)
	if err != nil || len(names) == 0 {
		return err
	}
	return l.delete(ctx, names[0])
}

// zkshLock is the recipe of zksh's own command lock. It creates its znode and lists the folder in
// one round trip. It watches its own znode in addition to its predecessor.
//
// A holder that did not have to wait sends one more request for the watch on its own znode. A
// holder also sends requests to renew its lease if it holds the lock for long; the formula does
// not include these.
//
// As a semaphore, it is the recipe of the command lock -c 1, which is also that of Curator's
// InterProcessSemaphoreV2. The semaphore has a single lease, so that its cost can be compared with
// that of a lock. Each contender is woken twice: when it gets the mutex, and when it gets the lease.
type zkshLock struct {
	*contender
	semaphore bool
	lease     *zklock.Lease
	waited    bool // whether the contender had to wait; used only by onStatus
}

func (l *zkshLock) lock(ctx context.Context) (err error) {
	// Ask whether the server is standalone. The answer is cached, so this costs one request per
	// connection, not one per lock.
	if _, err := l.session.Standalone(ctx); err != nil {
		return err
	}
	options := zklock.Options{Notify: l.onStatus}
	if l.semaphore {
		l.lease, err = zklock.NewSemaphore(l, l.folder, 1, options).Acquire(ctx)
	} else {
		l.lease, err = zklock.New(l, l.folder, options).Lock(ctx)
	}
	return err
}

func (l *zkshLock) unlock(ctx context.Context) error { return l.lease.Unlock(ctx) }

// Session implements zklock.Conn.
func (l *zkshLock) Session(context.Context) (zklock.Session, error) {
	return ensemble.Adapt(l.session), nil
}

// onStatus records changes of the lock's status.
func (l *zkshLock) onStatus(s zklock.Status) {
	switch s.State {
	case zklock.Queued:
		l.waited = true
		l.setTicket(sequenceNumber(s.Node))
		l.beginWait()
	case zklock.Held:
		l.setTicket(sequenceNumber(s.Node))
		if l.waited {
			l.record(woken)
		}
	}
}
