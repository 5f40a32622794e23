package zklock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	zookeeper "github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// A fault is a failure of one request of a faultySession.
type fault int

const (
	requestLost fault = iota // it is not sent, and fails with a connection error
	answerLost               // it takes effect, and fails with a connection error
	diesBefore               // the process dies before it sends the request
	diesAfter                // the process dies after the request took effect
	canceled                 // the caller cancels after the request took effect, and the answer is lost
)

var faults = []fault{requestLost, answerLost, diesBefore, diesAfter, canceled}

func (f fault) String() string {
	return [...]string{"request lost", "answer lost", "dies before", "dies after", "canceled"}[f]
}

// A faultySession is a session with a fault in its n-th request.
type faultySession struct {
	zklock.Session
	c *faultyClient
}

type faultyClient struct {
	client
	fault  fault
	at     int // number of the request with the fault
	cancel context.CancelFunc
	mu     sync.Mutex // guards n while requests are sent
	n      int        // number of requests so far
}

var errDied = errors.New("the process died")

func (c *faultyClient) Session(ctx context.Context) (zklock.Session, error) {
	if c.dead() {
		return nil, errDied
	}
	s, err := c.client.Session(ctx)
	return &faultySession{s, c}, err
}

// dead reports whether the process has died: it sends nothing any more.
func (c *faultyClient) dead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n >= c.at && (c.fault == diesBefore || c.fault == diesAfter)
}

// do sends a request, with the fault if this is its turn.
func (c *faultyClient) do(request func() error) error {
	if c.dead() {
		return errDied
	}
	c.mu.Lock()
	c.n++
	faulty := c.n == c.at
	c.mu.Unlock()
	if !faulty {
		return request()
	}
	switch c.fault {
	case requestLost:
		return zookeeper.ErrConnectionClosed
	case diesBefore:
		return errDied
	}
	err := request()
	switch c.fault {
	case canceled:
		c.cancel()
	case diesAfter:
		return errDied
	}
	if err != nil {
		return err
	}
	return zookeeper.ErrConnectionClosed
}

func (s *faultySession) CreateAndList(ctx context.Context, req *zookeeper.CreateRequest, dir string) (
	node string, czxid int64, children []string, err error) {
	err = s.c.do(func() (err error) {
		node, czxid, children, err = s.Session.CreateAndList(ctx, req, dir)
		return err
	})
	if err != nil {
		node, children = "", nil
	}
	return node, czxid, children, err
}

func (s *faultySession) Multi(ctx context.Context, ops ...any) error {
	return s.c.do(func() error { return s.Session.Multi(ctx, ops...) })
}

func (s *faultySession) Children(ctx context.Context, path string, wake chan<- zookeeper.EventType) (names []string, err error) {
	err = s.c.do(func() (err error) { names, err = s.Session.Children(ctx, path, wake); return err })
	return names, err
}

func (s *faultySession) Sync(ctx context.Context, path string) error {
	return s.c.do(func() error { return s.Session.Sync(ctx, path) })
}

func (s *faultySession) Get(ctx context.Context, path string, wake chan<- zookeeper.EventType) (data []byte, st *zookeeper.Stat, err error) {
	err = s.c.do(func() (err error) { data, st, err = s.Session.Get(ctx, path, wake); return err })
	return data, st, err
}

func (s *faultySession) Exists(ctx context.Context, path string) (st *zookeeper.Stat, err error) {
	err = s.c.do(func() (err error) { st, err = s.Session.Exists(ctx, path); return err })
	return st, err
}

// faultyOwned returns the lock for an owner whose request number at has the fault. The context
// belongs to its calls.
func (s *scene) faultyOwned(owner string, family zklock.Family, f fault, at int) (context.Context, *faultyClient, *zklock.Owned) {
	s.Helper()
	ctx, cancel := context.WithCancel(zktest.Within(s.T))
	s.Cleanup(cancel)
	c := &faultyClient{client: open(s.T, s.addr, longTimeout), fault: f, at: at, cancel: cancel}
	return ctx, c, zklock.NewOwned(c, s.path, owner, zklock.Options{Family: family})
}

// In each step of acquiring an owned lock, a fault happens. Afterwards, the owner has one place
// or none, and asking again shows which.
func TestFaultsWhileOwnedIsAcquired(t *testing.T) {
	t.Parallel()
	for _, family := range []zklock.Family{zklock.Mutex, zklock.Kazoo} {
		for _, f := range faults {
			t.Run(fmt.Sprint(family, " ", f), func(t *testing.T) {
				t.Parallel()
				s := sharedScene(t)
				defer s.finish()
				for at := 1; ; at++ {
					ctx, c, o := s.faultyOwned("web-1", family, f, at)
					got, err := o.Lock(ctx)
					zktest.Must(t, o.Drain(zktest.Within(t)))
					zktest.Must(t, c.Close(zktest.Within(t))) // a session that has ended takes its ephemeral znodes with it
					reached := c.n >= at
					switch wantError := f != requestLost && f != answerLost && reached; {
					case err == nil:
						if own := s.holds("web-1"); own.Token != got.Token || got.Before {
							t.Errorf("request %d: got %+v, but holds %+v", at, got, own)
						}
					case !wantError:
						t.Errorf("request %d: %v", at, err)
					case f == canceled && len(s.places("web-1")) > 0:
						t.Errorf("request %d: canceled with %v, but it has %q", at, err, s.places("web-1"))
					}
					if n := len(s.places("web-1")); n > 1 || n > 0 && s.holds("web-1").Node == "" {
						t.Errorf("request %d: %q", at, s.places("web-1"))
					}
					s.lockOwned("web-1", zklock.Options{Family: family})
					s.holds("web-1")
					s.unlockOwned("web-1")
					if n := s.places("web-1"); len(n) > 0 {
						t.Fatalf("request %d: left behind: %q", at, n)
					}
					if !reached {
						return
					}
				}
			})
		}
	}
}

// The same for each step of releasing it.
func TestFaultsWhileOwnedIsReleased(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			s := sharedScene(t)
			defer s.finish()
			for at := 1; ; at++ {
				s.lockOwned("web-1", zklock.Options{})
				ctx, c, o := s.faultyOwned("web-1", zklock.Mutex, f, at)
				released, err := o.Unlock(ctx)
				held := len(s.places("web-1")) > 0
				switch {
				case err == nil && (!released || held):
					t.Errorf("request %d: released %t, but it has %q", at, released, s.places("web-1"))
				case err != nil && (f == requestLost || f == answerLost):
					t.Errorf("request %d: %v", at, err)
				case err != nil && !held && f == canceled && !errors.Is(err, zklock.ErrUnconfirmed):
					t.Errorf("request %d: released, but the error is %v", at, err)
				}
				_, err = s.owned("web-1", zklock.Options{}).Unlock(zktest.Within(t))
				zktest.Must(t, err)
				if c.n < at {
					return
				}
			}
		})
	}
}

// The session of an owner ends while the outcome of a request is unknown.
func TestSessionEndsWhileOwnedIsAcquired(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	for at := 1; ; at++ {
		proxy := zktest.NewProxy(t, s.addr)
		c := &faultyClient{client: open(t, proxy.Addr(), tick), fault: canceled, at: at}
		zktest.Must(t, c.Ready(zktest.Within(t)))
		id := c.Info().ID
		c.cancel = func() { // does not cancel: do calls it after the request took effect
			proxy.Refuse(true)
			proxy.Cut()
			zktest.Eventually(t, "the session has expired", func() bool { return !strings.Contains(zktest.Ask(t, s.addr, "dump"), fmt.Sprintf("0x%x", id)) })
			proxy.Refuse(false)
		}
		got, err := zklock.NewOwned(c, s.path, "web-1", zklock.Options{}).Lock(zktest.Within(t))
		zktest.Must(t, err)
		if own := s.holds("web-1"); own.Token != got.Token || got.Before {
			t.Errorf("request %d: got %+v, but holds %+v", at, got, own)
		}
		other := s.simpleActor()
		waiting := other.queue(zklock.Exclusive)
		s.unlockOwned("web-1")
		other.release(waiting.awaitLease())
		if c.n < at {
			return
		}
	}
}
