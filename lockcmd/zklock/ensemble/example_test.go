package ensemble_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
	"github.com/zksh/zksh/lockcmd/zklock/ensemble"
)

// servers is the connect string of the examples.
var servers string

func TestMain(m *testing.M) {
	box := sandbox.New(sandbox.Options{})
	addr, err := box.Listen("127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	servers = addr.String()
	goleak.VerifyTestMain(running{zktest.M{M: m}, box})
}

// running closes the examples' server before goleak checks for goroutines.
type running struct {
	zktest.M
	box *sandbox.Server
}

func (r running) Run() int {
	status := r.M.Run()
	_ = r.box.Close() // all its clients are closed
	for end := time.Now().Add(zktest.Patience); goleak.Find() != nil && time.Now().Before(end); {
		// A client that is closed while it connects needs a second to end.
	}
	return status
}

// Do holds a lock while a function runs.
func Example() {
	ctx := context.Background()
	c, err := ensemble.Dial(ctx, servers, ensemble.Options{Timeout: 15 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	err = c.Mutex("/locks/backup").Do(ctx, func(ctx context.Context, token int64) error {
		fmt.Println("alone, token:", token > 0, "lost:", ctx.Err() != nil)
		return nil
	})
	fmt.Println("released, error:", err)
	// Output:
	// alone, token: true lost: false
	// released, error: <nil>
}

// Lock waits for the lock and returns a lease, which is held until Unlock.
func ExampleClient_Mutex() {
	ctx := context.Background()
	c, err := ensemble.Dial(ctx, servers, ensemble.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	lease, err := c.Mutex("/locks/deploy").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	select {
	case <-lease.Lost():
		fmt.Println("lost")
	default:
		fmt.Println("held for some time:", lease.Left() > time.Second)
	}
	fmt.Println("unlock:", lease.Unlock(ctx))
	// Output:
	// held for some time: true
	// unlock: <nil>
}

// TryLock does not wait: if another owner holds the lock, the error is zklock.ErrBusy.
func Example_tryLock() {
	ctx := context.Background()
	c, err := ensemble.Dial(ctx, servers, ensemble.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	report := func() error {
		lease, err := c.Mutex("/locks/report").TryLock(ctx)
		if errors.Is(err, zklock.ErrBusy) {
			fmt.Println("another client is writing the report")
			return nil
		} else if err != nil {
			return err
		}
		fmt.Println("writing the report")
		return lease.Unlock(ctx)
	}
	other, err := c.Mutex("/locks/report").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report())
	fmt.Println(other.Unlock(ctx))
	fmt.Println(report())
	// Output:
	// another client is writing the report
	// <nil>
	// <nil>
	// writing the report
	// <nil>
}

// A store rejects the writes of a holder after a later holder has written. A database does
// the same with a column for the token:
//
//	UPDATE report SET text = $1, token = $2 WHERE token <= $2
type store struct {
	mu    sync.Mutex
	token int64 // largest token of a write so far
	text  string
}

func (s *store) write(text string, token int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token < s.token {
		return errors.New("a later holder has written")
	}
	s.text, s.token = text, token
	return nil
}

// The token of each holder is larger than those of all holders before it. A store that
// compares tokens is safe even from a holder that does not know yet that it has lost the
// lock.
func Example_fencing() {
	ctx := context.Background()
	c, err := ensemble.Dial(ctx, servers, ensemble.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	var s store
	var old int64
	for _, text := range []string{"first", "second"} {
		err := c.Mutex("/locks/store").Do(ctx, func(_ context.Context, token int64) error {
			if old == 0 {
				old = token
			}
			return s.write(text, token)
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("late write of the first holder:", s.write("late", old))
	fmt.Println("the store has:", s.text)
	// Output:
	// late write of the first holder: a later holder has written
	// the store has: second
}

// If the data is in ZooKeeper itself, a transaction that checks the lock's znode writes only
// while the lock is held: the names of such znodes are never used again.
func Example_transaction() {
	ctx := context.Background()
	c, err := ensemble.Dial(ctx, servers, ensemble.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	lease, err := c.Mutex("/locks/config").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := c.Session(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	write := func(data string) error {
		return s.Multi(ctx,
			&zk.CheckVersionRequest{Path: lease.Node(), Version: -1},
			&zk.SetDataRequest{Path: "/locks/config", Data: []byte(data), Version: -1})
	}
	fmt.Println("with the lock:", write("new"))
	fmt.Println("unlock:", lease.Unlock(ctx))
	fmt.Println("after that:", errors.Is(write("late"), zk.ErrNoNode))
	data, _, err := s.Get(ctx, "/locks/config", nil)
	fmt.Println(string(data), err)
	// Output:
	// with the lock: <nil>
	// unlock: <nil>
	// after that: true
	// new <nil>
}

// Readers hold the lock together. Each owner has a Lock of its own.
func ExampleClient_RWMutex() {
	ctx := context.Background()
	c, err := ensemble.Dial(ctx, servers, ensemble.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	var both, readers sync.WaitGroup
	both.Add(2)
	for range 2 {
		readers.Go(func() {
			err := c.RWMutex("/locks/config").RDo(ctx, func(context.Context, int64) error {
				both.Done()
				both.Wait() // until the other one reads, too
				return nil
			})
			if err != nil {
				fmt.Println(err)
			}
		})
	}
	readers.Wait()
	fmt.Println("read at the same time")
	// Output: read at the same time
}

// A semaphore has several leases. Each owner has a Semaphore of its own. Here at most two hosts
// reboot at the same time.
func ExampleClient_Semaphore() {
	ctx := context.Background()
	c, err := ensemble.Dial(ctx, servers, ensemble.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	reboot := func(context.Context, int64) error {
		_, err := c.Semaphore("/reboot", 2).TryAcquire(ctx)
		fmt.Println("a third host:", err)
		return nil
	}
	err = c.Semaphore("/reboot", 2).Do(ctx, func(ctx context.Context, _ int64) error {
		return c.Semaphore("/reboot", 2).Do(ctx, reboot)
	})
	fmt.Println("released, error:", err)
	// Output:
	// a third host: other clients hold all 2 leases
	// released, error: <nil>
}

// A Client is a zklock.Conn, so zklock.New makes locks with more options. Here only clients
// with the same credential can read or delete the znode of the lock.
func ExampleClient_Session() {
	ctx := context.Background()
	c, err := ensemble.Dial(ctx, servers, ensemble.Options{
		Credentials: []ensemble.Credential{{Scheme: "digest", Auth: []byte("ann:secret")}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	ann := zklock.New(c, "/locks/private", zklock.Options{ACL: zk.AuthACL(zk.PermAll), Data: []byte("Ann deploys")})
	lease, err := ann.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = c.Mutex("/locks/private").TryLock(ctx)
	fmt.Println(errors.Is(err, zklock.ErrBusy), "-", err)
	fmt.Println("unlock:", lease.Unlock(ctx))
	fmt.Println("then:", context.Cause(lease.Context()))
	// Output:
	// true - another client holds the lock
	// unlock: <nil>
	// then: the lock is not held
}

// A lock that belongs to a machine is held while the machine reboots.
func ExampleClient_Owned() {
	ctx := context.Background()
	before, err := ensemble.Dial(ctx, servers, ensemble.Options{Timeout: 15 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	own, err := before.Owned("/locks/reboot", "web-1").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	before.Close()

	after, err := ensemble.Dial(ctx, servers, ensemble.Options{Timeout: 15 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer after.Close()
	if _, err := after.Owned("/locks/reboot", "web-2").TryLock(ctx); errors.Is(err, zklock.ErrBusy) {
		fmt.Println("web-2 has to wait")
	}
	again, held, err := after.Owned("/locks/reboot", "web-1").Held(ctx)
	fmt.Println("web-1 holds it:", held, "with the same token:", again.Token == own.Token, err)
	released, err := after.Owned("/locks/reboot", "web-1").Unlock(ctx)
	fmt.Println("released:", released, err)
	// Output:
	// web-2 has to wait
	// web-1 holds it: true with the same token: true <nil>
	// released: true <nil>
}
