package ensemble_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
	"github.com/zksh/zksh/lockcmd/zklock"
	"github.com/zksh/zksh/lockcmd/zklock/ensemble"
)

const (
	longTimeout  = 20 * time.Second // never awaited by a test
	shortTimeout = 4 * time.Second  // of sessions that are to expire
	// silentTimeout is for sessions that the server keeps while no answer arrives. It is
	// longer than the pauses between attempts to connect.
	silentTimeout = 10 * time.Second
	path          = "/locks/it"
)

func open(t *testing.T, box *zktest.Box, opt ensemble.Options) *ensemble.Client {
	t.Helper()
	return dial(t, box.Addr(), opt)
}

// dial returns a client, which is closed when the test ends.
func dial(t *testing.T, servers string, opt ensemble.Options) *ensemble.Client {
	t.Helper()
	c, err := ensemble.Dial(zktest.Within(t), servers, opt)
	zktest.Must(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

func withTimeout(timeout time.Duration) ensemble.Options { return ensemble.Options{Timeout: timeout} }

func TestClientsExcludeEachOther(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	var inside, done atomic.Int32
	var last int64 // guarded by the lock alone
	var all sync.WaitGroup
	for range 4 {
		lock := open(t, box, withTimeout(longTimeout)).Mutex(path)
		all.Go(func() {
			for range 10 {
				err := lock.Do(zktest.Within(t), func(ctx context.Context, token int64) error {
					if inside.Add(1) != 1 {
						t.Error("two owners are inside")
					}
					if token <= last {
						t.Errorf("token %#x comes after %#x", token, last)
					}
					last = token
					inside.Add(-1)
					done.Add(1)
					return ctx.Err()
				})
				zktest.Check(t, err)
			}
		})
	}
	all.Wait()
	if n := done.Load(); n != 40 {
		t.Errorf("%d were inside, want 40", n)
	}
}

// The loss of the lock cancels the function's context before another client holds the lock.
// Do reports the loss, whatever the function returns.
func TestLostSession(t *testing.T) {
	for name, f := range map[string]func(ctx context.Context) error{
		"nil":           func(context.Context) error { return nil },
		"cause":         context.Cause,
		"ctx.Err()":     func(ctx context.Context) error { return ctx.Err() },
		"another error": func(context.Context) error { return io.ErrUnexpectedEOF },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := zktest.Sandbox(t, sandbox.Options{})
			proxy := zktest.NewProxy(t, box.Addr())
			lock, next := dial(t, proxy.Addr(), withTimeout(shortTimeout)).Mutex(path), open(t, box, withTimeout(longTimeout)).Mutex(path)
			var want error
			err := lock.Do(zktest.Within(t), func(ctx context.Context, _ int64) error {
				proxy.Refuse(true)
				proxy.Cut()
				zktest.Must(t, next.Do(zktest.Within(t), func(context.Context, int64) error { return nil }))
				select { // the exact time is tested in virtual time
				case <-ctx.Done():
				case <-time.After(longTimeout):
					t.Error("another client has held the lock, and the context has not ended")
				}
				if cause := context.Cause(ctx); !errors.Is(cause, zklock.ErrLost) {
					t.Errorf("the context ended with %v", cause)
				}
				proxy.Refuse(false)
				want = f(ctx)
				return want
			})
			if !errors.Is(err, zklock.ErrLost) || want != nil && !errors.Is(err, want) {
				t.Errorf("Do: %v", err)
			} else if n := strings.Count(err.Error(), zklock.ErrLost.Error()); n != 1 {
				t.Errorf("the loss is reported %d times: %v", n, err)
			}
			zktest.Eventually(t, "the lock works on", func() bool { // its sessions are short
				return lock.Do(zktest.Within(t), func(context.Context, int64) error { return nil }) == nil
			})
		})
	}
}

// Do reports a lock that was presumed lost, even if the server, whose answers did not
// arrive, has kept the session: the function may have stopped in the middle.
func TestPresumedLost(t *testing.T) {
	t.Parallel()
	proxy := zktest.NewProxy(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	c := dial(t, proxy.Addr(), withTimeout(silentTimeout))
	lease, err := c.Mutex("/locks/by-hand").Lock(zktest.Within(t))
	zktest.Must(t, err)
	err = c.Mutex(path).Do(zktest.Within(t), func(ctx context.Context, _ int64) error {
		proxy.HoldReplies(true)
		waitDone(t, ctx)
		waitDone(t, lease.Context())
		proxy.HoldReplies(false)
		return nil
	})
	if !errors.Is(err, zklock.ErrLost) {
		t.Errorf("Do: %v", err)
	}
	zktest.Must(t, lease.Unlock(zktest.Within(t))) // the session was kept, so the lock was still held
}

// Do does not call its function if the process is stopped as it gets the lock, and resumes
// when the lease has ended.
func TestLostBeforeItBegins(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	proxy := zktest.NewProxy(t, box.Addr())
	next := open(t, box, withTimeout(longTimeout)).Mutex(path)
	stop := func(s zklock.Status) {
		if s.State == zklock.Held {
			proxy.Refuse(true)
			proxy.Cut()
			zktest.Must(t, next.Do(zktest.Within(t), func(context.Context, int64) error { return nil }))
			proxy.Refuse(false)
		}
	}
	lock := zklock.New(dial(t, proxy.Addr(), withTimeout(shortTimeout)), path, zklock.Options{Notify: stop})
	err := lock.Do(zktest.Within(t), func(context.Context, int64) error { t.Error("called"); return nil })
	if !errors.Is(err, zklock.ErrLost) {
		t.Errorf("Do: %v", err)
	}
}

// A client that deletes the holder's znode takes the lock away. The cause of the context
// says so.
func TestRemovedZnode(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	lease, err := open(t, box, withTimeout(longTimeout)).Mutex(path).Lock(zktest.Within(t))
	zktest.Must(t, err)
	held := lease.Context()
	zktest.Must(t, held.Err())
	other := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: longTimeout})
	zktest.Must(t, zkconn.Exec(zktest.Within(t), other, zkconn.Delete(lease.Node(), -1)))
	waitDone(t, held)
	if cause := context.Cause(held); !errors.Is(cause, zklock.ErrLost) || !strings.Contains(cause.Error(), "another client deleted") {
		t.Errorf("the context ended with %v", cause)
	}
	if lease.Context() != held {
		t.Error("the lease has another context now")
	}
}

func waitDone(t *testing.T, ctx context.Context) {
	t.Helper()
	select {
	case <-ctx.Done():
	case <-zktest.Within(t).Done():
		t.Fatal("the context never ends")
	}
}

// Do reports a loss that only the release finds out.
func TestReleaseFindsTheLoss(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	other := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: longTimeout})
	lock := open(t, box, withTimeout(longTimeout)).Mutex(path)
	err := lock.Do(zktest.Within(t), func(ctx context.Context, _ int64) error {
		list, err := zkconn.Do(zktest.Within(t), other, zkconn.List(path))
		zktest.Must(t, err)
		zktest.Must(t, zkconn.Exec(zktest.Within(t), other, zkconn.Delete(path+"/"+list.Names[0], -1)))
		return nil // before or after the holder has noticed the deletion
	})
	if !errors.Is(err, zklock.ErrLost) {
		t.Errorf("Do: %v", err)
	}
}

// Do returns the function's error unchanged. The function's context ends with the caller's
// context, and the lock is released nevertheless.
func TestDoReturns(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	c := open(t, box, withTimeout(longTimeout))
	free := func(what string) {
		t.Helper()
		lease, err := c.Mutex(path).TryLock(zktest.Within(t))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		zktest.Must(t, lease.Unlock(zktest.Within(t)))
	}
	if err := c.Mutex(path).Do(zktest.Within(t), func(context.Context, int64) error { return io.EOF }); err != io.EOF {
		t.Errorf("got %v, want io.EOF itself", err)
	}
	free("after an error")

	mine := errors.New("mine")
	ctx, cancel := context.WithCancelCause(t.Context())
	var inner context.Context
	err := c.Mutex(path).Do(ctx, func(ctx context.Context, _ int64) error {
		inner = ctx
		cancel(mine)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if err != mine {
		t.Errorf("got %v, want the caller's cause", err)
	}
	free("after the caller's end")

	func() {
		defer func() {
			if recover() != "help" {
				t.Error("the panic was swallowed")
			}
		}()
		_ = c.Mutex(path).Do(t.Context(), func(ctx context.Context, _ int64) error {
			inner = ctx
			panic("help")
		})
	}()
	free("after a panic")
	if cause := context.Cause(inner); cause != zklock.ErrNotHeld {
		t.Errorf("the context of a function that is over ended with %v", cause)
	}
	if err := c.Mutex(path).Do(ctx, func(context.Context, int64) error { t.Error("called"); return nil }); !errors.Is(err, mine) {
		t.Errorf("with an ended context: %v", err)
	}
}

// Goroutines that the function has left running see the end of the context before the lock
// is released: here the release cannot finish before that.
func TestContextEndsBeforeTheRelease(t *testing.T) {
	t.Parallel()
	proxy := zktest.NewProxy(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	var left sync.WaitGroup
	err := dial(t, proxy.Addr(), withTimeout(silentTimeout)).Mutex(path).Do(zktest.Within(t), func(ctx context.Context, _ int64) error {
		proxy.HoldReplies(true)
		left.Go(func() {
			<-ctx.Done()
			proxy.HoldReplies(false)
		})
		return nil
	})
	if err != nil {
		t.Errorf("Do: %v", err)
	}
	left.Wait()
}

// The znodes have the names that other clients know.
func TestNames(t *testing.T) {
	t.Parallel()
	c := open(t, zktest.Sandbox(t, sandbox.Options{}), withTimeout(longTimeout))
	for _, want := range []struct {
		mark string
		take func(context.Context) (*zklock.Lease, error)
	}{{"-lock-", c.Mutex(path).Lock}, {"__WRIT__", c.RWMutex(path).Lock}, {"__READ__", c.RWMutex(path).RLock}} {
		lease, err := want.take(zktest.Within(t))
		zktest.Must(t, err)
		if !strings.Contains(lease.Node(), want.mark) {
			t.Errorf("%s lacks %s", lease.Node(), want.mark)
		}
		zktest.Must(t, lease.Unlock(zktest.Within(t)))
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	a, b := open(t, box, withTimeout(longTimeout)), open(t, box, withTimeout(longTimeout))
	lease, err := a.Mutex(path).Lock(zktest.Within(t))
	zktest.Must(t, err)
	if _, err := b.RWMutex(path).TryRLock(zktest.Within(t)); !errors.Is(err, zklock.ErrBusy) {
		t.Errorf("while the lock is held: %v", err)
	}
	zktest.Must(t, a.Close())
	waitDone(t, lease.Context())
	if cause := context.Cause(lease.Context()); !errors.Is(cause, zklock.ErrLost) {
		t.Errorf("the context ended with %v", cause)
	}
	if _, err := b.Mutex(path).TryLock(zktest.Within(t)); err != nil {
		t.Errorf("after the close: %v", err)
	}
	if _, err := a.Mutex(path).Lock(zktest.Within(t)); !errors.Is(err, ensemble.ErrClosed) {
		t.Errorf("lock of a closed client: %v", err)
	}
	zktest.Must(t, a.Close())
}

// The credentials are used in the next session, too, and paths begin at the chroot.
func TestCredentialsAndChroot(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	root := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: longTimeout})
	err := zkconn.Exec(zktest.Within(t), root, zkconn.Create("/app", nil, zkconn.OpenACL(), zkconn.CreateMode{}))
	zktest.Must(t, err)
	proxy := zktest.NewProxy(t, box.Addr())
	c := dial(t, proxy.Addr()+"/app", ensemble.Options{Timeout: shortTimeout,
		Credentials: []ensemble.Credential{{Scheme: "digest", Auth: []byte("ann:secret")}}})
	lock := zklock.New(c, path, zklock.Options{ACL: zk.AuthACL(zk.PermAll)})
	for range 2 {
		lease, err := lock.Lock(zktest.Within(t))
		zktest.Must(t, err)
		if err := zkconn.Exec(zktest.Within(t), root, zkconn.GetData("/app"+lease.Node())); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("another client reads the znode: %v", err)
		}
		proxy.Refuse(true)
		proxy.Cut()
		zktest.Eventually(t, "the session expires", func() bool {
			err := zkconn.Exec(zktest.Within(t), root, zkconn.Exists("/app"+lease.Node()))
			return errors.Is(err, zk.ErrNoNode)
		})
		proxy.Refuse(false)
	}
}

func TestDialFails(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx     context.Context
		servers string
		opt     ensemble.Options
		want    string
	}{
		{t.Context(), "", withTimeout(longTimeout), "contains no host"},
		{t.Context(), box.Addr(), withTimeout(-time.Second), "timeout -1s"},
		{t.Context(), box.Addr(), withTimeout(10000 * time.Hour), "timeout 10000h"},
		{t.Context(), "127.0.0.1:1", withTimeout(shortTimeout), "cannot connect: 127.0.0.1:1"},
		{ended, "127.0.0.1:1", withTimeout(longTimeout), "canceled"},
		{t.Context(), box.Addr(), ensemble.Options{Credentials: []ensemble.Credential{{Scheme: "nonsense"}}}, "rejected the credentials"},
	} {
		client, err := ensemble.Dial(c.ctx, c.servers, c.opt)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %v: %v, want %s", c.servers, c.opt, err, c.want)
		}
		if client != nil {
			t.Errorf("%q: a client with an error", c.servers)
		}
	}
}
