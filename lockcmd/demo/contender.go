package demo

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zkconn"
)

// A contender is one client in a scene that competes for the lock. Its methods are the steps from
// which the lock recipes are built.
type contender struct {
	*scene
	*slot
	number int  // 0 for the starter, which holds the lock until all others are in the queue
	reader bool // whether the contender wants the shared lock instead of the exclusive one

	node    string            // name of the contender's znode in the folder
	wake    chan zk.EventType // receives the events of the contender's watches; capacity 1
	arrived chan struct{}     // closed once the contender waits for the lock, holds it or has ended

	activity // guarded by timeline.mu
}

// create creates the contender's znode in the folder. If the servers have deleted the empty folder,
// create creates it again.
func (c *contender) create(ctx context.Context, name string, mode zkconn.CreateMode) error {
	for {
		made, err := zkconn.Do(ctx, c.session, zkconn.Create(c.path(name), nil, zkconn.OpenACL(), mode))
		if err == nil {
			c.node = path.Base(made.Path())
			c.setTicket(sequenceNumber(c.node))
		}
		if !isNoNode(err) {
			return err
		}
		// The servers may delete the folder again before the next attempt.
		if err := c.createFolder(ctx, c.session, c.folder); err != nil {
			return err
		}
	}
}

// createNumbered creates the contender's znode with a sequence number at the end of its name.
func (c *contender) createNumbered(ctx context.Context, name string) error {
	return c.create(ctx, name, zkconn.CreateMode{Ephemeral: true, Sequential: true})
}

// unlock releases the lock by deleting the contender's znode, as in most recipes.
func (c *contender) unlock(ctx context.Context) error { return c.delete(ctx, c.node) }

func (c *contender) delete(ctx context.Context, name string) error {
	return zkconn.Exec(ctx, c.session, zkconn.Delete(c.path(name), -1))
}

// list returns the names of the znodes in the folder, sorted by sequence number. If watch is set,
// it also watches the children of the folder.
func (c *contender) list(ctx context.Context, watch bool) ([]string, error) {
	var wake chan<- zk.EventType
	if watch {
		wake = c.wake
	}
	names, err := zkconn.Do(ctx, c.session, zkconn.GetChildren(c.folder).Wake(wake))
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Compare(sequenceNumber(a), sequenceNumber(b))
	})
	return names, err
}

// writerMark is part of the name of a writer's znode in a read-write lock.
const writerMark = "-W-"

// listAhead returns the names in the folder that precede the contender's own znode and exclude the
// contender. The last of them is the nearest.
func (c *contender) listAhead(ctx context.Context, watch bool) ([]string, error) {
	names, err := c.list(ctx, watch)
	if err != nil {
		return nil, err
	}
	at := slices.Index(names, c.node)
	if at < 0 {
		return nil, errors.New(c.path(c.node) + " was deleted by another client")
	}
	return slices.DeleteFunc(names[:at], func(name string) bool {
		return c.reader && !strings.Contains(name, writerMark)
	}), nil
}

// watchAndWait sets a data watch on a znode and waits until the watch fires. If the znode does
// not exist, it sets no watch and does not wait.
func (c *contender) watchAndWait(ctx context.Context, name string) error {
	_, _, err := c.session.Get(ctx, c.path(name), c.wake)
	switch {
	case isNoNode(err):
		return nil
	case err != nil:
		return err
	}
	return c.waitForWatch(ctx)
}

// waitForWatch waits until one of the contender's watches fires.
func (c *contender) waitForWatch(ctx context.Context) error {
	c.beginWait()
	select {
	case <-c.wake:
	case <-c.session.Ended():
		return zkconn.SessionExpired
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.record(woken)
	return nil
}

// pollInterval is the time between two attempts of a contender that polls.
const pollInterval = 100 * time.Millisecond

// waitForPoll waits for the poll interval before the next attempt to acquire the lock. The first
// wait is shorter and random, because real clients do not start at the same moment. Contender 0,
// which gets the lock first, does not wait at all.
func (c *contender) waitForPoll(ctx context.Context) error {
	switch first := c.beginWait(); {
	case c.number == 0:
		return nil
	case first:
		return pause(ctx, rand.N(pollInterval))
	}
	return pause(ctx, pollInterval)
}

func (c *contender) path(name string) string { return c.folder + "/" + name }

func isNoNode(err error) bool { return errors.Is(err, zkconn.NoNode) }

// sequenceNumber returns the sequence number at the end of a znode's name, or noTicket if the
// name has none.
func sequenceNumber(name string) int {
	const digits = 10
	n, err := strconv.Atoi(name[max(0, len(name)-digits):])
	if err != nil {
		return noTicket
	}
	return n
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run plays the contender's part in the scene: it acquires the lock, holds it for a while and
// releases it. With --kill-holder, the contender that acquires the lock in the middle of the scene
// is killed instead.
func (c *contender) run(ctx context.Context) error {
	recipe := c.scheme.recipe(c)
	if err := recipe.lock(ctx); err != nil {
		return err
	}
	dies := c.acquired() == len(c.contenders)/2+1 && c.killHolder
	var err error
	if !dies {
		err = c.work(ctx)
	}
	c.record(releases)
	if err != nil {
		return err
	}
	if dies {
		c.client.Abandon()
		c.record(killed)
		return nil
	}
	if err := recipe.unlock(ctx); err != nil {
		return err
	}
	c.record(left)
	return nil
}

// work holds the lock for as long as the scene requires.
func (c *contender) work(ctx context.Context) error {
	switch {
	case c.number == 0:
		select {
		case <-c.startSignal:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	case c.step != nil:
		return c.waitForEnter(ctx)
	}
	return pause(ctx, c.hold)
}
