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

// rules say how scenes are played.
type rules struct {
	hold, poll time.Duration
	moment     time.Duration // how long a contender that was woken rests before it looks
	readers    int           // of the contenders; below 0: three of four
	classic    bool          // with the flaws of the articles

	killHolder, killMiddle bool
	timeout                time.Duration               // of the contenders' sessions
	step                   func(context.Context) error // waits for the person to go on; may be nil
}

// stage is where scenes are played: the sessions, and a folder of their own.
type stage struct {
	rules
	env   *commands.Env
	root  string
	show  *show
	wires wires
	seats []*seat
}

// seat is one contender's session, for one scene after another.
type seat struct {
	client  *zkconn.Session
	session *zkconn.Pinned

	guard sync.Mutex
	conn  *tap // the present one
	dead  bool // it does not connect again
}

// atOnce is how many sessions are opened or closed at a time.
const atOnce = 16

// open has n sessions ready. Those that have ended are replaced.
func (st *stage) open(ctx context.Context, n int) error {
	for _, s := range st.seats {
		if s.over() {
			s.close()
		}
	}
	st.seats = slices.DeleteFunc(st.seats, (*seat).over)
	had := len(st.seats)
	for len(st.seats) < n {
		st.seats = append(st.seats, &seat{})
	}
	failures := each(st.seats[had:], func(s *seat) error { return s.open(ctx, st) })
	if failures == nil || ctx.Err() != nil {
		return failures
	}
	opened := 0
	for _, s := range st.seats {
		if s.session != nil {
			opened++
		}
	}
	if opened == 0 {
		return failures
	}
	return fmt.Errorf("%d contenders need %d sessions, but lockdemo could open only %d; by default, a server accepts 60 connections"+
		" from one address (maxClientCnxns), so try a smaller -n: %w", n-1, n, opened, first(failures))
}

// first is the first of joined errors.
func first(err error) error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()[0]
	}
	return err
}

// each does something for all of a list, some at a time, and waits for it.
func each[T any](list []T, do func(T) error) error {
	errs := make([]error, len(list))
	var working sync.WaitGroup
	room := make(chan struct{}, atOnce)
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

func (s *seat) open(ctx context.Context, st *stage) (err error) {
	s.client, err = st.env.Session.Another(st.timeout, func(c net.Conn) net.Conn { return s.connect(st.wires.tap(c)) })
	if err != nil {
		return err
	}
	if err := s.client.Ready(ctx); err != nil {
		return err
	}
	s.session, err = s.client.Ensemble().Pin(ctx)
	return err
}

// connect takes a new connection, unless the contender is dead.
func (s *seat) connect(t *tap) net.Conn {
	s.guard.Lock()
	defer s.guard.Unlock()
	if s.conn = t; s.dead {
		t.Close()
	}
	return t
}

// die cuts the connection and does not come back, as if the process had been
// killed: the session ends when the server has not heard of it for its timeout.
func (s *seat) die() {
	s.guard.Lock()
	defer s.guard.Unlock()
	s.dead = true
	s.conn.Close()
}

// over reports whether the seat has no session any more.
func (s *seat) over() bool {
	if s.session == nil {
		return true
	}
	s.guard.Lock()
	defer s.guard.Unlock()
	return s.dead || !s.client.Live()
}

// close ends the session.
func (s *seat) close() error {
	if s.client == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanUp)
	defer cancel()
	return s.client.Close(ctx)
}

// cleanUp is how long what has to be put away may take.
const cleanUp = 5 * time.Second

// servers are those the contenders are connected to.
func (st *stage) servers() []string {
	var addrs []string
	for _, s := range st.seats {
		if a := s.client.Info().Addr; a != "" && !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// build makes a folder.
func (st *stage) build(ctx context.Context, path string) error {
	p, err := st.env.Session.Ensemble().Pin(ctx)
	if err != nil {
		return err
	}
	return st.buildBy(ctx, p, path)
}

// buildBy makes a folder by somebody's session. It is a container, where the servers know those: if this process is
// killed, the servers remove it once the sessions have timed out. They do so too whenever they look and it has lost
// its last child, so that the root may be gone between two scenes.
func (st *stage) buildBy(ctx context.Context, p *zkconn.Pinned, path string) error {
	err := p.CreateContainer(ctx, path, zkconn.OpenACL())
	if gone(err) && path != st.root {
		if err := st.buildBy(ctx, p, st.root); err != nil {
			return err
		}
		err = p.CreateContainer(ctx, path, zkconn.OpenACL())
	}
	if errors.Is(err, zkconn.NodeExists) { // somebody else was faster
		return nil
	}
	return err
}

// strike ends the sessions and removes the folder, also after ctx has ended.
func (st *stage) strike() error {
	closing := each(st.seats, (*seat).close)
	ctx, cancel := context.WithTimeout(context.Background(), cleanUp)
	defer cancel()
	if err := st.remove(ctx, st.root); err != nil {
		return fmt.Errorf("cannot delete %s, but the servers will delete it once it is empty: %w", st.root, err)
	}
	return closing
}

// remove deletes a znode and all below it, whoever made them.
func (st *stage) remove(ctx context.Context, path string) error {
	_, err := zktree.Delete(ctx, st.env.Session.Client, path, zktree.DefaultBatch, nil)
	if gone(err) {
		return nil
	}
	return err
}
