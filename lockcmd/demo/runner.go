package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// A runner runs scenes one after the other. It owns the contenders' sessions and the root znode
// below which the contenders work.
type runner struct {
	env     *commands.Env
	timeout time.Duration // session timeout that the contenders request, or that the servers have chosen
	root    string
	display *display
	wires   wireCounter
	slots   []*sessionSlot
}

// A sessionSlot contains the session of one contender. The next scene uses the same session
// again.
type sessionSlot struct {
	client  *zkconn.Session
	session *zkconn.Pinned

	guard   sync.Mutex
	conn    net.Conn // the session's current connection to a server
	dropped bool     // whether the session must not reconnect, because its client was killed
}

// maxParallel is the maximum number of sessions that are opened or closed at the same time.
const maxParallel = 16

// open replaces sessions that have ended, and opens more of them until there are n.
func (st *runner) open(ctx context.Context, n int) error {
	for _, s := range st.slots {
		if s.ended() {
			s.close()
		}
	}
	st.slots = slices.DeleteFunc(st.slots, (*sessionSlot).ended)
	had := len(st.slots)
	for len(st.slots) < n {
		st.slots = append(st.slots, &sessionSlot{})
	}
	failures := forEach(st.slots[had:], func(s *sessionSlot) error { return s.open(ctx, st) })
	if failures == nil {
		st.timeout = st.slots[0].client.Info().Timeout // the servers may have chosen another one
	}
	if failures == nil || ctx.Err() != nil {
		return failures
	}
	opened := 0
	for _, s := range st.slots {
		if s.session != nil {
			opened++
		}
	}
	if opened == 0 {
		return failures
	}
	return fmt.Errorf("%d contenders need %d sessions, but lockdemo could open only %d; by default, a server accepts"+
		" 60 connections from one address (maxClientCnxns), so try a smaller -n: %w", n-1, n, opened, firstError(failures))
}

// firstError returns the first of several joined errors. If err does not join errors, it returns
// err itself.
func firstError(err error) error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()[0]
	}
	return err
}

// forEach calls do for each element of list, running at most maxParallel calls at a time. It
// returns when all calls have returned.
func forEach[T any](list []T, do func(T) error) error {
	errs := make([]error, len(list))
	var working sync.WaitGroup
	room := make(chan struct{}, maxParallel)
	for i, v := range list {
		room <- struct{}{}
		working.Go(func() {
			errs[i] = do(v)
			<-room
		})
	}
	working.Wait()
	return errors.Join(errs...)
}

func (s *sessionSlot) open(ctx context.Context, st *runner) (err error) {
	s.client, err = st.env.Session.Another(st.timeout, func(c net.Conn) net.Conn {
		return s.connect(st.wires.wrap(c))
	})
	if err != nil {
		return err
	}
	if err := s.client.Ready(ctx); err != nil {
		return err
	}
	s.session, err = s.client.Ensemble().Pin(ctx)
	return err
}

// connect records a new connection of the session. If the contender has been killed, it closes
// the connection at once.
func (s *sessionSlot) connect(c net.Conn) net.Conn {
	s.guard.Lock()
	defer s.guard.Unlock()
	if s.conn = c; s.dropped {
		c.Close()
	}
	return c
}

// dropConnection cuts the session's connection and prevents a reconnect, as if the client had
// been killed. The servers expire the session after the session timeout.
func (s *sessionSlot) dropConnection() {
	s.guard.Lock()
	defer s.guard.Unlock()
	s.dropped = true
	s.conn.Close()
}

// ended reports whether the slot has no session that is still usable.
func (s *sessionSlot) ended() bool {
	if s.session == nil {
		return true
	}
	s.guard.Lock()
	defer s.guard.Unlock()
	return s.dropped || !s.client.Live()
}

// close closes the session, so that the servers end it at once.
func (s *sessionSlot) close() error {
	if s.client == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpTimeout)
	defer cancel()
	return s.client.Close(ctx)
}

// cleanUpTimeout limits the time to close a session, and the time to delete the znodes.
const cleanUpTimeout = 5 * time.Second

// createFolder creates a folder znode with the shell's own session.
func (st *runner) createFolder(ctx context.Context, path string) error {
	p, err := st.env.Session.Ensemble().Pin(ctx)
	if err != nil {
		return err
	}
	return st.createFolderIn(ctx, p, path)
}

// createFolderIn creates a folder znode with the session p. The folder is a container, if the
// servers support that. If lockdemo is killed, the servers delete a container once the contenders'
// sessions have expired. The servers may also delete a container that is only empty for a moment,
// even the root znode between two scenes.
func (st *runner) createFolderIn(ctx context.Context, p *zkconn.Pinned, path string) error {
	err := p.CreateContainer(ctx, path, zkconn.OpenACL())
	if isNoNode(err) && path != st.root {
		if err := st.createFolderIn(ctx, p, st.root); err != nil {
			return err
		}
		err = p.CreateContainer(ctx, path, zkconn.OpenACL())
	}
	if errors.Is(err, zkconn.NodeExists) { // another contender was faster
		return nil
	}
	return err
}

// cleanUp closes the contenders' sessions and deletes the root znode, even if the context of the
// command has been canceled.
func (st *runner) cleanUp() error {
	closing := forEach(st.slots, (*sessionSlot).close)
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpTimeout)
	defer cancel()
	if err := st.remove(ctx, st.root); err != nil {
		return fmt.Errorf("cannot delete %s, but the servers will delete it once it is empty: %w", st.root, err)
	}
	return closing
}

// remove deletes the znode at path and all its descendants.
func (st *runner) remove(ctx context.Context, path string) error {
	_, err := zktree.Delete(ctx, st.env.Session.Client, path, zktree.DefaultBatch, nil)
	if isNoNode(err) {
		return nil
	}
	return err
}
