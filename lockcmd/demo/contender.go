package demo

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/zksh/zksh/internal/zkconn"
)

// contender is one who wants the lock: a session of its own, and a part in a scene.
// The schemes are written in its verbs.
type contender struct {
	*scene
	*seat
	number int  // 0 is the starter, who holds the lock until all have queued
	reader bool // wants the lock shared

	node   string            // its znode's name
	wake   chan zk.EventType // capacity 1: a watch has fired
	queued chan struct{}     // closed when it waits or holds for the first time, or its part is over
	kill   context.CancelCauseFunc

	role // the referee's book of it
}

// The errors that end one contender's part, and not the scene.
var (
	errKilled   = errors.New("killed")
	errLostTurn = errors.New("gave up")
)

// Whether create adds a number, and whether a list leaves a watch.
const (
	numbered, fixed    = true, false
	watched, unwatched = true, false
)

// create makes the contender's ephemeral znode in the folder. If the servers have
// removed that while it was empty, it is made again.
func (c *contender) create(ctx context.Context, name string, sequential bool) error {
	made, err := c.make(ctx, name, sequential)
	for gone(err) { // again and again: it can be filled, emptied and removed in between
		if err = c.buildBy(ctx, c.session, c.folder); err == nil {
			made, err = c.make(ctx, name, sequential)
		}
	}
	if errors.Is(err, zkconn.NodeExists) {
		c.tell(refused)
	}
	if err != nil {
		return err
	}
	c.node = path.Base(made)
	c.takeTicket(number(made))
	return nil
}

func (c *contender) make(ctx context.Context, name string, sequential bool) (path string, err error) {
	made, err := zkconn.Do(ctx, c.session, zkconn.Create(c.path(name), nil, zkconn.OpenACL(), zkconn.CreateMode{Ephemeral: true, Sequential: sequential}))
	return made.Path(), err
}

// unlock deletes the own znode, as most of the schemes release the lock.
func (c *contender) unlock(ctx context.Context) error { return c.delete(ctx, c.node) }

func (c *contender) delete(ctx context.Context, name string) error {
	return zkconn.Exec(ctx, c.session, zkconn.Delete(c.path(name), -1))
}

// list returns the names in the folder in the order of their numbers. The watch is
// a child watch.
func (c *contender) list(ctx context.Context, watch bool) ([]string, error) {
	var wake chan<- zk.EventType
	if watch {
		wake = c.wake
	}
	names, err := zkconn.Do(ctx, c.session, zkconn.GetChildren(c.folder).Wake(wake))
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	return names, err
}

// before lists the folder and returns those before the own znode, the nearest last.
func (c *contender) before(ctx context.Context, watch bool) ([]string, error) {
	names, err := c.list(ctx, watch)
	if err != nil {
		return nil, err
	}
	at := slices.Index(names, c.node)
	if at < 0 {
		return nil, errors.New(c.path(c.node) + " was deleted by another client")
	}
	return names[:at], nil
}

// follow reads a znode's data with a watch, and waits until that fires. The error
// is NoNode if there is no such znode any more; then no watch is left.
func (c *contender) follow(ctx context.Context, name string) error {
	if _, _, err := c.session.Get(ctx, c.path(name), c.wake); err != nil {
		return err
	}
	return c.wait(ctx)
}

// exists leaves a watch on a znode, or, if it is gone, on its return.
func (c *contender) exists(ctx context.Context, name string) (bool, error) {
	err := zkconn.Exec(ctx, c.session, zkconn.Exists(c.path(name)).Wake(c.wake))
	if gone(err) {
		return false, nil
	}
	return err == nil, err
}

// wait is until a watch fires.
func (c *contender) wait(ctx context.Context) error {
	c.park()
	select {
	case <-c.wake:
	case <-c.session.Ended():
		return zkconn.SessionExpired
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.tell(woken)
	return pause(ctx, c.moment)
}

// nap is the time from one look to the next. Before the first look it is some part
// of it: nobody starts all clients at once. Nobody lets the starter wait.
func (c *contender) nap(ctx context.Context) error {
	switch first := c.park(); {
	case c.number == 0:
		return nil
	case first:
		return pause(ctx, rand.N(c.poll+1))
	}
	return pause(ctx, c.poll)
}

// flag is how a client of the article learns that it is the first: its watcher sets
// a flag, at which it looks each second. But for --classic it learns at once.
func (c *contender) flag(ctx context.Context) error {
	if !c.classic || c.number == 0 {
		return nil
	}
	return pause(ctx, rand.N(c.poll+1))
}

func (c *contender) path(name string) string { return c.folder + "/" + name }

func last(names []string) string { return names[len(names)-1] }

func gone(err error) bool { return errors.Is(err, zkconn.NoNode) }

// number is the sequence number at the end of a name, or noTicket.
func number(name string) int {
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

// play is the contender's part: to queue, to hold the lock for a while, to let go.
func (c *contender) play(ctx context.Context) error {
	recipe := c.scheme.recipe(c)
	err := recipe.lock(ctx)
	if err == nil {
		c.enters()
		err = c.work(ctx)
		c.leaves()
	}
	if err == nil {
		err = recipe.unlock(ctx)
	}
	switch {
	case errors.Is(err, errKilled):
		c.seat.die()
		c.tell(killed)
	case errors.Is(err, errLostTurn):
		c.tell(lostTurn)
		return c.seat.close() // as the program ends, its session does
	case err == nil:
		c.tell(left)
	default:
		return err
	}
	return nil
}

// work is what is done under the lock.
func (c *contender) work(ctx context.Context) error {
	switch {
	case c.number == 0:
		select {
		case <-c.opened:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	case c.diesHolding():
		return errKilled
	case c.step != nil:
		return c.show.still(ctx, c.step)
	}
	return pause(ctx, c.hold)
}
