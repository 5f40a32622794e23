package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// A stage contains the things that scenes have in common: the screen, the contenders' sessions, and
// the root znode below which the contenders work.
type stage struct {
	env     *commands.Env
	region  commands.Region // the lanes on the terminal
	timeout time.Duration   // session timeout that the contenders request, or that the servers have chosen
	root    string
	wires   *wireCounter
	slots   []*slot
}

func newStage(env *commands.Env, timeout time.Duration) *stage {
	return &stage{env: env, region: env.Screen.Region(commands.Answers), timeout: timeout,
		root: "/zksh-lockdemo-" + strings.ToLower(rand.Text()[:8]), wires: newWireCounter()}
}

// A slot contains the session of one contender. The next scene uses the same session again.
type slot struct {
	client  *zkconn.Session
	session *zkconn.Pinned
}

// maxParallel is the maximum number of sessions that are opened or closed at the same time.
const maxParallel = 16

// open makes sure that there are n sessions, and replaces those that have ended.
func (st *stage) open(ctx context.Context, n int) error {
	for len(st.slots) < n {
		st.slots = append(st.slots, &slot{})
	}
	err := forEach(st.slots[:n], func(s *slot) error { return s.open(ctx, st) })
	if err == nil {
		st.timeout = st.slots[0].client.Info().Timeout // the servers may have chosen another one
		return nil
	}
	opened := 0
	for _, s := range st.slots {
		if s.session != nil {
			opened++
		}
	}
	if opened == 0 || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%d contenders need %d sessions, but lockdemo could open only %d; by default, a server accepts"+
		" 60 connections from one address (maxClientCnxns), so try a smaller -n: %w", n-1, n, opened, err)
}

// forEach calls do for each element of list, running at most maxParallel calls at a time. It returns
// when all calls have returned, with the error of the first element for which there is one.
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
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// open opens the session of the slot, unless it is still usable.
func (s *slot) open(ctx context.Context, st *stage) (err error) {
	if s.session != nil && s.client.Live() {
		return nil
	}
	s.session = nil
	if s.client, err = st.env.Session.Another(st.timeout, st.wires); err != nil {
		return err
	}
	if err := s.client.Ready(ctx); err != nil {
		return err
	}
	s.session, err = s.client.Ensemble().Pin(ctx)
	return err
}

// close closes the session, so that the servers end it at once.
func (s *slot) close() error {
	if s.client == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpTimeout)
	defer cancel()
	return s.client.Close(ctx)
}

// cleanUpTimeout limits the time to close a session, and the time to delete the znodes.
const cleanUpTimeout = 5 * time.Second

// createFolder creates a folder znode with the session p. The folder is a container, if the
// servers support that. If lockdemo is killed, the servers delete a container once the contenders'
// sessions have expired. The servers may also delete a container that is only empty for a moment,
// even the root znode between two scenes.
func (st *stage) createFolder(ctx context.Context, p *zkconn.Pinned, path string) error {
	for {
		err := p.CreateContainer(ctx, path, zkconn.OpenACL())
		switch {
		case errors.Is(err, zkconn.NodeExists): // another contender was faster
			return nil
		case !isNoNode(err) || path == st.root:
			return err
		}
		if err := st.createFolder(ctx, p, st.root); err != nil {
			return err
		}
	}
}

// cleanUp closes the contenders' sessions and deletes the root znode, even if the context of the
// command has been canceled.
func (st *stage) cleanUp() error {
	closing := forEach(st.slots, (*slot).close)
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpTimeout)
	defer cancel()
	_, err := zktree.Delete(ctx, st.env.Session.Client, st.root, zktree.DefaultBatch, nil, nil)
	if err != nil && !isNoNode(err) {
		return fmt.Errorf("cannot delete %s, but the servers will delete it once it is empty: %w", st.root, err)
	}
	return closing
}
