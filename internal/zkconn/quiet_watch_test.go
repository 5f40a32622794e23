package zkconn_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

// woken waits for a value on a wake channel.
func woken(t *testing.T, what string, wake <-chan zk.EventType) {
	t.Helper()
	select {
	case <-wake:
	case <-time.After(zktest.Patience):
		t.Fatal("no wake for " + what)
	}
}

// Quiet watches wake their channel, cause no visible events, survive reconnects, and do not
// affect the user's watches on the same znode.
func TestQuietWatches(t *testing.T) {
	t.Parallel()
	f := openFaulty(t, zktest.Patience)
	ctx := zktest.Within(t)
	f.must(f.create(f.observer, "/dir", zkconn.CreateMode{}))
	err := zkconn.Exec(ctx, f, zkconn.List(f.root+"/dir").Watch(true)) // the user has a watch of the same kind
	f.must(err)
	f.must(f.create(f.observer, "/dir/first", zkconn.CreateMode{}))
	f.event("NodeChildrenChanged /dir")
	f.must(f.create(f.observer, "/other", zkconn.CreateMode{}))
	err = zkconn.Exec(ctx, f, zkconn.List(f.root+"/other").Watch(true))
	f.must(err)
	p, err := f.Ensemble().Pin(ctx)
	f.must(err)
	wake := make(chan zk.EventType, 1)
	watch := func() {
		t.Helper()
		err := zkconn.Exec(ctx, p, zkconn.GetChildren(f.root+"/dir").Wake(wake))
		f.must(err)
	}

	watch()
	f.must(f.create(f.observer, "/dir/a", zkconn.CreateMode{}))
	woken(t, "a child", wake)

	watch()
	f.cut(func() { f.must(f.create(f.observer, "/dir/b", zkconn.CreateMode{})) })
	woken(t, "a child made meanwhile", wake)

	watch()
	f.cut(func() {})
	f.must(f.create(f.observer, "/dir/c", zkconn.CreateMode{}))
	woken(t, "a child made on another connection", wake)
	f.noNodeEvents()

	if err := zkconn.Exec(ctx, p, zkconn.Exists(f.root+"/later").Wake(wake)); !errors.Is(err, zkconn.NoNode) {
		t.Fatal(err)
	}
	f.must(f.create(f.observer, "/later", zkconn.CreateMode{}))
	woken(t, "a creation", wake)

	watch()
	p.Unwatch(f.root+"/dir", wake)
	f.must(f.create(f.observer, "/dir/d", zkconn.CreateMode{}))
	f.must(zkconn.Exec(ctx, f, zkconn.Sync(f.root)))
	f.noNodeEvents()
	if len(wake) > 0 {
		t.Error("a wake after Unwatch")
	}

	// A change of the children does not fire the user's data watch, nor the other way round.
	watch()
	err = zkconn.Exec(ctx, f, zkconn.GetData(f.root+"/dir").Watch(true))
	f.must(err)
	f.must(f.create(f.observer, "/dir/e", zkconn.CreateMode{}))
	woken(t, "a child beside a data watch", wake)
	f.noNodeEvents()
	watch()
	err = zkconn.Exec(ctx, f.observer, zkconn.SetData(f.root+"/dir", []byte("x"), -1))
	f.must(err)
	f.event("NodeDataChanged /dir")
	if len(wake) > 0 {
		t.Error("a wake by data")
	}
	err = zkconn.Exec(ctx, f, zkconn.List(f.root+"/dir").Watch(true))
	f.must(err)
	f.must(f.create(f.observer, "/dir/f", zkconn.CreateMode{}))
	woken(t, "a child that the user watches too", wake)
	f.event("NodeChildrenChanged /dir")
}

func TestPipeReads(t *testing.T) {
	t.Parallel()
	f := openFaulty(t, zktest.Patience)
	ctx := zktest.Within(t)
	err := zkconn.Exec(ctx, f.observer, zkconn.SetData(f.root, []byte("data"), -1))
	f.must(err)
	p, err := f.Pipe(ctx, f.root)
	f.must(err)
	get, stat, none := zkconn.Add(p, zkconn.GetData(f.root)), zkconn.Add(p, zkconn.Exists(f.root)), zkconn.Add(p, zkconn.GetData(f.root+"/none"))
	n, err := get.Wait(ctx)
	if err != nil || string(n.Data) != "data" || n.Stat.Version != 1 {
		t.Errorf("%+v, %v", n, err)
	}
	if s, err := stat.Wait(ctx); err != nil || *s != *n.Stat {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := none.Wait(ctx); !errors.Is(err, zkconn.NoNode) {
		t.Error(err)
	}
}
