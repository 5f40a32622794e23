package lockcmd

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/queue"
)

// showQueue is the answer of locks PATH: who holds the lock and who waits. The
// error is a StatusError without a text if there is anybody, which is all that a
// script wants of a quiet one.
func showQueue(ctx context.Context, env *commands.Env, path string, quiet bool) error {
	read := queue.Look
	if quiet {
		read = queue.Read
	}
	q, err := read(ctx, ensemble{env.Session}, path)
	if err != nil {
		return err
	}
	if !quiet {
		if err := env.Screen.Print(q); err != nil {
			return err
		}
		for _, remark := range q.Remarks() {
			env.Screen.Note(remark)
		}
	}
	if q.Free() {
		return nil
	}
	return &commands.StatusError{Status: commands.StatusNotLocked}
}

// ensemble is what package queue reads from.
type ensemble struct{ s *zkconn.Session }

var _ queue.Ensemble = ensemble{}

// Children is part of queue.Ensemble.
func (e ensemble) Children(ctx context.Context, path string) ([]string, error) {
	names, _, err := e.s.Children(ctx, path, false)
	return names, err
}

// Nodes is part of queue.Ensemble. The Stats of znodes that are not for us to read
// come in a second flight.
func (e ensemble) Nodes(ctx context.Context, paths []string) ([]queue.Node, error) {
	p, err := e.s.Pipe(ctx, paths[0])
	if err != nil {
		return nil, err
	}
	nodes := make([]queue.Node, len(paths))
	gets := make([]*zkconn.Pending[zkconn.Node], len(paths))
	stats := map[int]*zkconn.Pending[*zk.Stat]{}
	for i, path := range paths {
		gets[i] = p.Get(path)
	}
	for i, get := range gets {
		got, err := get.Wait(ctx)
		switch {
		case errors.Is(err, zkconn.NoAuth):
			nodes[i].Hidden = true
			stats[i] = p.Exists(paths[i])
		case err != nil && !errors.Is(err, zkconn.NoNode):
			return nil, err
		default:
			nodes[i].Data, nodes[i].Stat = got.Data, got.Stat
		}
	}
	for i, stat := range stats {
		if nodes[i].Stat, err = stat.Wait(ctx); err != nil && !errors.Is(err, zkconn.NoNode) {
			return nil, err
		}
	}
	return nodes, nil
}

// Hosts is part of queue.Ensemble.
func (e ensemble) Hosts() []string { return e.s.Servers().Hosts }

// Word is part of queue.Ensemble.
func (e ensemble) Word(ctx context.Context, addr, word string) (string, error) {
	return zkconn.FourLetter(ctx, addr, word)
}

// Config is part of queue.Ensemble.
func (e ensemble) Config(ctx context.Context) (string, error) {
	config, _, err := e.s.Absolute().Get(ctx, zkconn.ConfigPath, false)
	return string(config), err
}

// Self is part of queue.Ensemble.
func (e ensemble) Self() (session int64, since time.Time) {
	info := e.s.Info()
	return info.ID, info.Since
}
