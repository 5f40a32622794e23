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

// follower shows a queue as it changes. It is what the queue is read from, with
// watches left.
type follower struct {
	ensemble
	env     *commands.Env
	live    commands.Region // the queue on a terminal
	path    string
	queue   *queue.Follower
	stats   *queue.Stats      // as they were drawn last
	p       *zkconn.Pinned    // the present session
	wake    chan zk.EventType // receives a value after a change
	dirs    []string          // whose children are watched
	holders []string          // whose data are watched, as long as they are there
}

var _ queue.Watched = (*follower)(nil)

// redrawEvery is how often a terminal is brought up to date: the ages go on.
const redrawEvery = time.Second

// followQueue shows a queue again and again, through reconnects and sessions,
// until ctx ends. The user sees nothing of its watches. With stats it counts what
// happens, and says at the end, and on a terminal always, what that comes to.
func followQueue(ctx context.Context, env *commands.Env, path string, stats bool) error {
	f := &follower{ensemble: ensemble{env.Session}, env: env, path: path,
		live: env.Screen.Region(commands.Answers), wake: make(chan zk.EventType, 1)}
	f.queue = queue.Follow(f, path)
	if stats {
		f.queue.Count(ctx)
	}
	for {
		var err error
		if f.p, err = env.Session.Ensemble().Pin(ctx); err == nil {
			err = f.follow(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return errors.Join(context.Cause(ctx), f.end())
		case !errors.Is(err, zkconn.SessionExpired):
			return err
		}
	}
}

// end shows what was counted: in the picture, which stays, or where there is none by itself.
func (f *follower) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), sumLimit)
	defer cancel()
	stats := f.queue.Stats(ctx)
	if columns, _ := f.live.Size(); columns == 0 && stats != nil {
		return errors.Join(f.live.Close(true), f.env.Screen.Print(stats))
	}
	var err error
	if stats != nil {
		f.stats = stats
		err = f.draw(f.p != nil && f.p.Connected())
	}
	return errors.Join(err, f.live.Close(true))
}

// sumLimit bounds how long the servers are asked at the end.
var sumLimit = time.Second

// follow does so in one session.
func (f *follower) follow(ctx context.Context) error {
	f.dirs, f.holders = nil, nil
	defer func() {
		for _, path := range append(f.dirs, f.holders...) {
			f.p.Unwatch(path, f.wake)
		}
	}()
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	for {
		err := f.update(ctx)
		if errors.Is(err, zkconn.ConnectionLoss) {
			if err = f.p.Await(ctx); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		if err := f.rest(ctx, tick.C); err != nil {
			return err
		}
	}
}

// rest waits for the next change, and keeps a terminal up to date meanwhile.
func (f *follower) rest(ctx context.Context, tick <-chan time.Time) error {
	for {
		select {
		case <-f.wake:
			return nil
		case <-tick:
			connected := f.p.Connected()
			if columns, _ := f.live.Size(); columns > 0 && connected {
				f.queue.AskServers(ctx)
				f.stats = f.queue.Stats(ctx)
			}
			if err := f.draw(connected); err != nil {
				return err
			}
		case <-f.p.Ended():
			return &zkconn.Error{Code: zkconn.SessionExpired, Path: f.path}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Children is part of queue.Ensemble: it has the next change of a path, or its
// creation, wake us.
func (f *follower) Children(ctx context.Context, path string) ([]string, error) {
	if !slices.Contains(f.dirs, path) {
		f.dirs = append(f.dirs, path)
	}
	for {
		names, err := zkconn.Do(ctx, f.p, zkconn.GetChildren(path).Wake(f.wake))
		if !errors.Is(err, zkconn.NoNode) {
			return names, err
		}
		if err := zkconn.Exec(ctx, f.p, zkconn.Exists(path).Wake(f.wake)); err != nil {
			return nil, err
		}
	}
}

// Watch is part of queue.Watched: it has the next change of a znode wake us. There
// are few holders, but for a crowd of readers.
func (f *follower) Watch(ctx context.Context, paths []string) ([]queue.Node, error) {
	f.holders = paths
	nodes, errs := make([]queue.Node, len(paths)), make([]error, len(paths))
	var reading sync.WaitGroup
	for i, path := range paths {
		reading.Go(func() { nodes[i], errs[i] = f.watchNode(ctx, path) }) // until its answer, or ctx ends
	}
	reading.Wait()
	return nodes, errors.Join(errs...)
}

func (f *follower) watchNode(ctx context.Context, path string) (n queue.Node, err error) {
	n.Data, n.Stat, err = f.p.Get(ctx, path, f.wake)
	if errors.Is(err, zkconn.NoAuth) {
		n.Hidden = true
		n.Stat, err = f.p.Exists(ctx, path) // the event might never be told; that it goes, the folder tells
	}
	if errors.Is(err, zkconn.NoAuth) {
		n.Stat, err = &zk.Stat{}, nil
	}
	if errors.Is(err, zkconn.NoNode) {
		return queue.Node{}, nil
	}
	return n, err
}

// update reads the queue and shows what is new.
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

// draw shows the queue on a terminal, with the time of day; elsewhere it does nothing.
func (f *follower) draw(connected bool) error {
	columns, rows := f.live.Size()
	if columns == 0 {
		return nil
	}
	lines := f.queue.Picture(columns, rows, connected, f.stats)
	if len(lines) > 0 {
		lines[0] += "  " + time.Now().Format(time.TimeOnly)
	}
	return f.live.Draw(lines...)
}
