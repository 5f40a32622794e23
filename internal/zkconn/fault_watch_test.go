package zkconn_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

// One-shot watches survive a reconnect and fire once, for a change made meanwhile or a later
// one.
func TestOneShotWatchesSurvive(t *testing.T) {
	t.Parallel()
	f := openFaulty(t, zktest.Patience)
	ctx := zktest.Within(t)
	for _, when := range []string{"/meanwhile", "/later"} {
		f.must(f.create(f.observer, when, zkconn.CreateMode{}))
		err := zkconn.Exec(ctx, f, zkconn.GetData(f.root+when).Watch(true))
		f.must(err)
		err = zkconn.Exec(ctx, f, zkconn.List(f.root+when).Watch(true))
		f.must(err)
		if err = zkconn.Exec(ctx, f, zkconn.Exists(f.root+when+"-born").Watch(true)); !errors.Is(err, zkconn.NoNode) {
			t.Fatal(err)
		}
	}
	change := func(when string) {
		err := zkconn.Exec(ctx, f.observer, zkconn.SetData(f.root+when, []byte("x"), -1))
		f.must(err)
		f.must(f.create(f.observer, when+"/child", zkconn.CreateMode{}))
		f.must(f.create(f.observer, when+"-born", zkconn.CreateMode{}))
	}
	expect := func(when string) {
		f.event("NodeDataChanged " + when)
		f.event("NodeChildrenChanged " + when)
		f.event("NodeCreated " + when + "-born")
	}
	f.cut(func() { change("/meanwhile") })
	expect("/meanwhile")
	f.noNodeEvents()
	change("/later")
	expect("/later")

	// Each watch has fired: neither another change nor another connection fires it again.
	again := func() {
		for _, when := range []string{"/meanwhile", "/later"} {
			err := zkconn.Exec(ctx, f.observer, zkconn.SetData(f.root+when, []byte("y"), -1))
			f.must(err)
			f.must(zkconn.Exec(ctx, f.observer, zkconn.Delete(f.root+when+"/child", -1)))
			f.must(zkconn.Exec(ctx, f.observer, zkconn.Delete(f.root+when+"-born", -1)))
		}
	}
	f.cut(again)
	f.noNodeEvents()
}

func TestPersistentWatchesSurvive(t *testing.T) {
	t.Parallel()
	f := openFaulty(t, zktest.Patience)
	ctx := zktest.Within(t)
	for _, p := range []string{"/p", "/r", "/r/deep"} {
		f.must(f.create(f.observer, p, zkconn.CreateMode{}))
	}
	f.must(zkconn.Exec(ctx, f, zkconn.AddWatch(f.root+"/p", false)))
	f.must(zkconn.Exec(ctx, f, zkconn.AddWatch(f.root+"/r", true)))
	for round := range 2 {
		f.cut(func() {})
		// Unlike one-shot watches, persistent ones do not report changes made before the server
		// has them again.
		f.must(zkconn.Exec(ctx, f, zkconn.Sync(f.root)))
		for _, p := range []string{"/p", "/r/deep"} {
			for range 2 {
				err := zkconn.Exec(ctx, f.observer, zkconn.SetData(f.root+p, []byte("x"), -1))
				f.must(err)
				f.event("NodeDataChanged " + p)
			}
		}
		name := fmt.Sprintf("/child%d", round)
		f.must(f.create(f.observer, "/p"+name, zkconn.CreateMode{}))
		f.event("NodeChildrenChanged /p")
		f.must(f.create(f.observer, "/r/deep"+name, zkconn.CreateMode{}))
		f.event("NodeCreated /r/deep" + name)
		f.noNodeEvents()
	}
	f.must(f.RemoveWatches(ctx, f.root+"/p", zkconn.AnyWatches, false))
	f.event("PersistentWatchRemoved /p")
	f.cut(func() {
		err := zkconn.Exec(ctx, f.observer, zkconn.SetData(f.root+"/p", []byte("x"), -1))
		f.must(err)
	})
	f.noNodeEvents()
}

func TestWatchesDieWithTheirSession(t *testing.T) {
	t.Parallel()
	f := openFaulty(t, 6*time.Second)
	f.must(f.create(f.observer, "/a", zkconn.CreateMode{}))
	f.must(zkconn.Exec(zktest.Within(t), f, zkconn.AddWatch(f.root+"/a", false)))
	f.expire()
	f.proxy.Refuse(false)
	f.event("Expired")
	f.must(f.WaitReady(zktest.Within(t)))
	err := zkconn.Exec(zktest.Within(t), f.observer, zkconn.SetData(f.root+"/a", []byte("x"), -1))
	f.must(err)
	for zkconn.Exec(zktest.Within(t), f, zkconn.Sync(f.root)) != nil {
		f.must(f.WaitReady(zktest.Within(t)))
	}
	f.noNodeEvents()
}

func TestCredentialsSurvive(t *testing.T) {
	t.Parallel()
	f := openFaulty(t, 6*time.Second)
	ctx := zktest.Within(t)
	f.must(f.AddAuth(ctx, "digest", []byte("user:secret")))
	has := func() {
		t.Helper()
		ids, err := zkconn.Do(ctx, f, zkconn.WhoAmI())
		f.must(err)
		for _, id := range ids {
			if id.Scheme == "digest" && id.User == "user" {
				return
			}
		}
		t.Errorf("authenticated as %v", ids)
	}
	has()
	f.cut(func() {})
	has()
	f.expire()
	f.proxy.Refuse(false)
	f.event("Expired")
	f.must(f.WaitReady(ctx))
	has()
	// Connecting to another server drops the credentials.
	f.must(f.Connect(ctx, zktest.Shared(t).Addr()))
	f.must(f.WaitReady(ctx))
	ids, err := zkconn.Do(ctx, f, zkconn.WhoAmI())
	if err != nil || len(ids) != 1 {
		t.Errorf("after connect: %v, %v", ids, err)
	}
}

func TestWrongCredentials(t *testing.T) {
	t.Parallel()
	f := openFaulty(t, zktest.Patience)
	ctx := zktest.Within(t)
	err := f.AddAuth(ctx, "nosuchscheme", []byte("x"))
	if !errors.Is(err, zkconn.AuthFailed) || !strings.Contains(err.Error(), "nosuchscheme") {
		t.Errorf("got %v", err)
	}
	f.event("AuthFailed")
	if s := f.State(); s != zkconn.StateAuthFailed || f.Live() {
		t.Errorf("state %s", s)
	}
	if err := zkconn.Exec(ctx, f, zkconn.GetData("/")); !errors.Is(err, zkconn.ErrNotConnected) {
		t.Errorf("got %v", err)
	}
	f.must(f.Connect(ctx, ""))
	f.must(f.WaitReady(ctx))
	err = zkconn.Exec(ctx, f, zkconn.GetData("/"))
	f.must(err)
}

func TestReadOnlyServer(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t, zktest.ReadOnlyEnsemble(), zktest.Heap(64)).Addr()
	s := zksession.Open(t, zkconn.Config{Servers: server, Timeout: zktest.Patience, ReadOnly: true})
	if st := s.State(); st != zkconn.StateConnectedReadOnly {
		t.Errorf("state %s", st)
	}
	zktest.Check(t, zkconn.Exec(zktest.Within(t), s, zkconn.GetData("/")))
	err := zkconn.Exec(zktest.Within(t), s, zkconn.Create("/a", nil, zkconn.OpenACL(), zkconn.CreateMode{}))
	if !errors.Is(err, zkconn.NotReadOnly) || !strings.Contains(err.Error(), "Not a read-only call: /a") {
		t.Errorf("got %v", err)
	}
	// Without the option ReadOnly, a read-only server counts as unreachable.
	w, err := zkconn.Open(zkconn.Config{Servers: server, Timeout: 2 * time.Second})
	zktest.Must(t, err)
	if err := w.Ready(zktest.Within(t)); !errors.As(err, new(*zkconn.NoServerError)) {
		t.Errorf("got %v", err)
	}
	zktest.Check(t, w.Close(zktest.Within(t)))
}

// Replies larger than ZooKeeper's usual limit of 1 MiB arrive completely.
func TestLargeReplies(t *testing.T) {
	t.Parallel()
	f := openFaulty(t, zktest.Patience)
	ctx := zktest.Within(t)
	const n = 4000
	long := strings.Repeat("x", 300)
	errs := make(chan error, n)
	slots := make(chan struct{}, 64)
	for i := range n {
		slots <- struct{}{}
		go func() {
			errs <- f.create(f.observer, fmt.Sprintf("/%s-%04d", long, i), zkconn.CreateMode{})
			<-slots
		}()
	}
	for range n {
		f.must(<-errs)
	}
	list, err := zkconn.Do(ctx, f, zkconn.List(f.root))
	if err != nil || len(list.Names) != n || int(list.Stat.NumChildren) != n || len(list.Names[0]) != 305 {
		t.Fatalf("%d names, %v", len(list.Names), err)
	}
	big := bytes.Repeat([]byte("0123456789"), 100_000)
	err = zkconn.Exec(ctx, f, zkconn.SetData(f.root, big, -1))
	f.must(err)
	node, err := zkconn.Do(ctx, f, zkconn.GetData(f.root))
	if err != nil || !bytes.Equal(node.Data, big) {
		t.Errorf("%d bytes, %v", len(node.Data), err)
	}
	// A request that is too large is not sent.
	err = zkconn.Exec(ctx, f, zkconn.SetData(f.root, make([]byte, 1<<20), -1))
	var tooLarge *zkconn.TooLargeError
	if !errors.As(err, &tooLarge) || !strings.Contains(err.Error(), "jute.maxbuffer") {
		t.Errorf("got %v", err)
	}
	if err := f.Ready(ctx); err != nil {
		t.Errorf("the connection is gone: %v", err)
	}
}
