package lockcmd

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/queue"
)

// A follower shows a queue and its changes, for locks -f. Package queue reads the queue through
// the follower, which sets watches as it reads.
type follower struct {
	ensemble
	env     *commands.Env
	live    commands.Region // the part of the terminal where the queue is drawn
	path    string
	queue   *queue.Follower
	session *zkconn.Pinned    // the current session
	wake    chan zk.EventType // receives an event when a watched znode changes
	dirs    []string          // paths whose children are watched
	holders []string          // znodes whose data is watched while they exist
}

var _ queue.WatchableEnsemble = (*follower)(nil)

// redrawEvery is the interval at which the terminal is redrawn to update the ages of the
// contenders.
const redrawEvery = time.Second

// followQueue shows a queue and its changes until ctx ends. It continues after reconnects and in
// new sessions. It does not print the events of its own watches.
func followQueue(ctx context.Context, env *commands.Env, path string) error {
	f := &follower{ensemble: ensemble{env.Session}, env: env, path: path,
		live: env.Screen.Region(commands.Answers), wake: make(chan zk.EventType, 1)}
	f.queue = queue.Follow(f, path)
	for {
		var err error
		if f.session, err = env.Session.Ensemble().Pin(ctx); err == nil {
			err = f.followSession(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return errors.Join(context.Cause(ctx), f.live.Close(true))
		case !errors.Is(err, zkconn.SessionExpired):
			return err
		}
	}
}

// followSession shows the queue and its changes until the current session or ctx ends.
func (f *follower) followSession(ctx context.Context) error {
	f.dirs, f.holders = nil, nil
	defer func() {
		for _, path := range append(f.dirs, f.holders...) {
			f.session.Unwatch(path, f.wake)
		}
	}()
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	for {
		err := f.update(ctx)
		if errors.Is(err, zkconn.ConnectionLoss) {
			if err = f.session.Await(ctx); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		if err := f.waitForChange(ctx, tick.C); err != nil {
			return err
		}
	}
}

// waitForChange waits for the next change of the queue. Meanwhile, it redraws the terminal at
// each tick.
func (f *follower) waitForChange(ctx context.Context, tick <-chan time.Time) error {
	for {
		select {
		case <-f.wake:
			return nil
		case <-tick:
			connected := f.session.Connected()
			if columns, _ := f.live.Size(); columns > 0 && connected {
				f.queue.AskServers(ctx)
			}
			if err := f.draw(connected); err != nil {
				return err
			}
		case <-f.session.Ended():
			return &zkconn.Error{Code: zkconn.SessionExpired, Path: f.path}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Children implements queue.Ensemble. It sets a watch on the children of path or, if path does
// not exist, on its creation.
func (f *follower) Children(ctx context.Context, path string) ([]string, error) {
	if !slices.Contains(f.dirs, path) {
		f.dirs = append(f.dirs, path)
	}
	for {
		names, err := zkconn.Do(ctx, f.session, zkconn.GetChildren(path).Wake(f.wake))
		if !errors.Is(err, zkconn.NoNode) {
			return names, err
		}
		if err := zkconn.Exec(ctx, f.session, zkconn.Exists(path).Wake(f.wake)); err != nil {
			return nil, err
		}
	}
}

// Watch implements queue.WatchableEnsemble. It reads znodes and sets a data watch on each of
// them. Package queue calls it only for the holders of the lock. There are few holders, unless
// many clients hold a read lock.
func (f *follower) Watch(ctx context.Context, paths []string) ([]queue.Node, error) {
	f.holders = paths
	nodes, errs := make([]queue.Node, len(paths)), make([]error, len(paths))
	var reading sync.WaitGroup
	for i, path := range paths {
		reading.Go(func() { nodes[i], errs[i] = f.watchNode(ctx, path) }) // returns when the answer arrives or ctx ends
	}
	reading.Wait()
	return nodes, errors.Join(errs...)
}

func (f *follower) watchNode(ctx context.Context, path string) (n queue.Node, err error) {
	n.Data, n.Stat, err = f.session.Get(ctx, path, f.wake)
	if errors.Is(err, zkconn.NoAuth) {
		n.Hidden = true
		// Use Exists, which sets no data watch. A deletion of this znode is reported by the watch
		// on the children.
		n.Stat, err = statOrNil(f.session.Exists(ctx, path))
	}
	if errors.Is(err, zkconn.NoNode) {
		return queue.Node{}, nil
	}
	return n, err
}

// update reads the queue again and shows the changes.
func (f *follower) update(ctx context.Context) error {
	changes, err := f.queue.Update(ctx)
	if err != nil {
		return err
	}
	if columns, _ := f.live.Size(); columns > 0 {
		return f.draw(true)
	}
	for _, c := range changes {
		if err := f.env.Screen.Print(c); err != nil {
			return err
		}
	}
	return nil
}

// draw shows the queue and the time of day on a terminal. Without a terminal, it does nothing.
func (f *follower) draw(connected bool) error {
	columns, rows := f.live.Size()
	if columns == 0 {
		return nil
	}
	lines := f.queue.Picture(columns, rows, connected)
	if len(lines) > 0 {
		lines[0] += "  " + time.Now().Format(time.TimeOnly)
	}
	return f.live.Draw(lines...)
}
