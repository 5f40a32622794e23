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

// running closes the examples' server before goleak looks.
type running struct {
	zktest.M
	box *sandbox.Server
}

func (r running) Run() int {
	status := r.M.Run()
	_ = r.box.Close() // all its clients have gone
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

// Each owner has a Lock of his own; readers hold it together.
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

// A Client is a zklock.Conn: New has what Mutex lacks. Here only who has the same
// credential can see or remove the lock's znode.
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
