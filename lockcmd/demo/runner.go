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

// rules contains the settings that apply to all scenes.
type rules struct {
	hold, poll time.Duration
	wakeDelay  time.Duration // how long a woken contender waits before it lists the folder
	readers    int           // number of readers; negative means three out of four contenders
	classic    bool          // reproduce the flaws of the article

	killHolder, killMiddle bool
	timeout                time.Duration               // session timeout of the contenders
	step                   func(context.Context) error // waits until the user presses Enter; nil without --step
}

// runner runs scenes. It owns the sessions of the contenders and the root znode below which they
// work.
type runner struct {
	rules
	env     *commands.Env
	root    string
	display *display
	wires   wireCounter
	slots   []*sessionSlot
}

// sessionSlot contains the session of one contender. It is reused in the next scene.
type sessionSlot struct {
	client  *zkconn.Session
	session *zkconn.Pinned

	guard   sync.Mutex
	conn    *countingConn // the current connection
	dropped bool          // the session must not reconnect
}

// maxParallel is the maximum number of sessions to open or close at the same time.
const maxParallel = 16

// open opens sessions until there are n of them, and replaces sessions that have ended.
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
	return fmt.Errorf("%d contenders need %d sessions, but lockdemo could open only %d; by default, a server accepts 60 connections"+
		" from one address (maxClientCnxns), so try a smaller -n: %w", n-1, n, opened, firstError(failures))
}

// firstError returns the first error of err, if err joins several errors, and otherwise err
// itself.
func firstError(err error) error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()[0]
	}
	return err
}

// forEach calls do for all elements of list, with at most maxParallel calls at a time, and waits
// until all calls have returned.
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
	s.client, err = st.env.Session.Another(st.timeout, func(c net.Conn) net.Conn { return s.connect(st.wires.wrap(c)) })
	if err != nil {
		return err
	}
	if err := s.client.Ready(ctx); err != nil {
		return err
	}
	s.session, err = s.client.Ensemble().Pin(ctx)
	return err
}

// connect records a new connection of the session. If the contender was killed, it closes the
// connection.
func (s *sessionSlot) connect(t *countingConn) net.Conn {
	s.guard.Lock()
	defer s.guard.Unlock()
	if s.conn = t; s.dropped {
		t.Close()
	}
	return t
}

// dropConnection closes the connection and prevents a reconnect, as if the process had been
// killed. The servers expire the session when they have received nothing from it for the session
// timeout.
func (s *sessionSlot) dropConnection() {
	s.guard.Lock()
	defer s.guard.Unlock()
	s.dropped = true
	s.conn.Close()
}

// ended reports whether the slot no longer has a session.
func (s *sessionSlot) ended() bool {
	if s.session == nil {
		return true
	}
	s.guard.Lock()
	defer s.guard.Unlock()
	return s.dropped || !s.client.Live()
}

// close closes the session, which ends it at once.
func (s *sessionSlot) close() error {
	if s.client == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpTimeout)
	defer cancel()
	return s.client.Close(ctx)
}

// cleanUpTimeout is the maximum time for closing a session, and for deleting the znodes.
const cleanUpTimeout = 5 * time.Second

// servers returns the addresses of the servers to which the contenders are connected.
func (st *runner) servers() []string {
	var addrs []string
	for _, s := range st.slots {
		if a := s.client.Info().Addr; a != "" && !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// createFolder creates a folder znode in the session of the shell.
func (st *runner) createFolder(ctx context.Context, path string) error {
	p, err := st.env.Session.Ensemble().Pin(ctx)
	if err != nil {
		return err
	}
	return st.createFolderIn(ctx, p, path)
}

// createFolderIn creates a folder znode in the session p. If the servers support containers, the
// folder is a container. If this process is killed, the servers then delete the folder after the
// contenders' sessions have expired. They also delete a container whenever they find it without
// children, so the root znode may disappear between two scenes.
func (st *runner) createFolderIn(ctx context.Context, p *zkconn.Pinned, path string) error {
	err := p.CreateContainer(ctx, path, zkconn.OpenACL())
	if isNoNode(err) && path != st.root {
		if err := st.createFolderIn(ctx, p, st.root); err != nil {
			return err
		}
		err = p.CreateContainer(ctx, path, zkconn.OpenACL())
	}
	if errors.Is(err, zkconn.NodeExists) { // another contender has already created it
		return nil
	}
	return err
}

// cleanUp closes the contenders' sessions and deletes the root znode, even if the context of the
// command has ended.
func (st *runner) cleanUp() error {
	closing := forEach(st.slots, (*sessionSlot).close)
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpTimeout)
	defer cancel()
	if err := st.remove(ctx, st.root); err != nil {
		return fmt.Errorf("cannot delete %s, but the servers will delete it once it is empty: %w", st.root, err)
	}
	return closing
}

// remove deletes a znode and all znodes below it.
func (st *runner) remove(ctx context.Context, path string) error {
	_, err := zktree.Delete(ctx, st.env.Session.Client, path, zktree.DefaultBatch, nil)
	if isNoNode(err) {
		return nil
	}
	return err
}
