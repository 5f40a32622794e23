package interop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// zksh's locks and those of other clients exclude each other on the same paths, as
// testdata/locks.txt declares. All subtests share two driver programs.
func TestLocks(t *testing.T) {
	t.Parallel()
	d := startDrivers(t)
	t.Run("Real", func(t *testing.T) {
		t.Parallel()
		addr := realServer(t).addr
		testAllLocks(t, d, addr)
		t.Run("Contention", func(t *testing.T) { testContention(t, d, addr) })
	})
	t.Run("Sandbox", func(t *testing.T) {
		t.Parallel()
		testAllLocks(t, d, sandboxServer(t).addr)
	})
}

func testAllLocks(t *testing.T, d *drivers, addr string) {
	t.Run("Matrix", func(t *testing.T) { testMatrix(t, d, addr) })
	t.Run("Revoke", func(t *testing.T) { testRevoke(t, d, addr) })
	t.Run("Deadlock", func(t *testing.T) { testDeadlock(t, d, addr) })
	t.Run("Semaphore", func(t *testing.T) { testSemaphore(t, d, addr) })
}

// A cell is a case of the matrix: a contender for a lock that a holder holds.
type cell struct{ holder, contender string }

func (c cell) String() string { return c.holder + " holds, " + c.contender + " comes" }

// A matrix maps cells to the outcomes for their contenders: see testdata/locks.txt.
type matrix map[cell]string

func readMatrix(t *testing.T) matrix {
	text, err := os.ReadFile("testdata/locks.txt")
	zktest.Must(t, err)
	var kinds []string
	var rows [][]string
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) > 0 && words[0] != "#" {
			kinds = append(kinds, words[0])
			rows = append(rows, words[1:])
		}
	}
	m := matrix{}
	for i, row := range rows {
		if len(row) != len(kinds) {
			t.Fatalf("%s: %d cells in a matrix of %d", kinds[i], len(row), len(kinds))
		}
		for j, outcome := range row {
			m[cell{kinds[i], kinds[j]}] = outcome
		}
	}
	m.addOwned("mutex.x", "rw.x", "rw.s", "kazoo.x")
	return m
}

// addOwned adds cells for the same locks of zksh that belong to an owner. They have the same
// outcomes.
func (m matrix) addOwned(kinds ...string) {
	for c, outcome := range maps.Clone(m) {
		holder, contender := slices.Contains(kinds, c.holder), slices.Contains(kinds, c.contender)
		if holder {
			m[cell{c.holder + ownedSuffix, c.contender}] = outcome
		}
		if contender {
			m[cell{c.holder, c.contender + ownedSuffix}] = outcome
		}
		if holder && contender {
			m[cell{c.holder + ownedSuffix, c.contender + ownedSuffix}] = outcome
		}
	}
}

// exclude reports whether two kinds exclude each other in both directions. A kind that does
// not wait for the other can overtake it in the queue.
func (m matrix) exclude(a, b string) bool { return m[cell{a, b}] == "X" && m[cell{b, a}] == "X" }

// maxRetries is the number of times that ZooKeeper's own recipe may miss the end of another
// lock because of a race in the recipe. If zksh's locks failed to wake it, it would miss more:
// once in each cell with zksh.
const maxRetries = 5

// parallelPairs is the number of cells of the matrix that are tested in parallel.
const parallelPairs = 16

func testMatrix(t *testing.T, d *drivers, addr string) {
	m := readMatrix(t)
	start := time.Now()
	todo := make(chan cell, len(m))
	for c := range m {
		todo <- c
	}
	close(todo)
	var workers sync.WaitGroup
	for range parallelPairs {
		workers.Go(func() { tryAll(t, d, addr, m, todo) })
	}
	workers.Wait()
	if left := len(todo); left > 0 {
		t.Errorf("%d cells are not tried", left)
	}
	if again := d.curator.retries.Load(); again > maxRetries {
		t.Errorf("%d times ZooKeeper's own recipe was not woken", again)
	}
	t.Logf("%d cells in %v", len(m)-len(todo), time.Since(start).Round(time.Millisecond))
}

func tryAll(t *testing.T, d *drivers, addr string, m matrix, todo <-chan cell) {
	p, err := newPair(t, d, addr)
	if err != nil {
		t.Error(err)
		return
	}
	for c := range todo {
		got, err := p.try(t.Context(), c, m[c])
		if err != nil {
			t.Errorf("%v: %v", c, err)
			return // the clients of p are in an unknown state
		}
		if got.is != m[c] {
			t.Errorf("%v: %s %v, want %s", c, got.is, got.why, m[c])
		}
	}
}

// A pair tests one cell of the matrix at a time, each on a separate path.
type pair struct {
	holders, contenders map[string]client // by library
	watcher             *zkshClient
}

func newPair(t *testing.T, d *drivers, addr string) (*pair, error) {
	ctx, cancel := context.WithTimeout(t.Context(), zktest.Patience)
	defer cancel()
	watcher, err := openOurs(ctx, t, addr, nil)
	if err != nil {
		return nil, err
	}
	p := &pair{map[string]client{}, map[string]client{}, watcher}
	for _, kind := range []string{"C-mutex", "K-lock", "G-lock", "mutex.x"} {
		for _, role := range []map[string]client{p.holders, p.contenders} {
			if role[library(kind)], err = d.open(ctx, t, addr, kind); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

// Times after which a contender without the lock counts as excluded: from the creation of its
// znode if it should be excluded, or else from the start.
const (
	excludedAfter = 400 * time.Millisecond
	heldWithin    = 20 * time.Second
)

// An outcome is the result for a contender: X (excluded), H (holds the lock) or E (error).
type outcome struct {
	is  string
	why error // for E
}

// try tests a cell: it lets the contender wait for a lock that the holder holds.
func (p *pair) try(ctx context.Context, c cell, want string) (o outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, zktest.Patience)
	defer cancel()
	path := "/matrix-" + c.holder + "-" + c.contender
	holder, contender := p.holders[library(c.holder)], p.contenders[library(c.contender)]
	if _, err := holder.acquire(ctx, c.holder, path); err != nil {
		return o, fmt.Errorf("the holder: %w", err)
	}
	before, err := zkconn.Do(ctx, p.watcher, zkconn.GetAllChildrenNumber(path))
	if err != nil {
		return o, err
	}
	got := make(chan error, 1)
	go func() { // ends when ctx ends
		_, err := contender.acquire(ctx, c.contender, path)
		got <- err
	}()
	long := heldWithin
	if want == "X" {
		long = excludedAfter
		if err := p.queued(ctx, path, before, got); err != nil {
			return o, err
		}
	}
	o = await(got, long)
	if err := releaseBoth(ctx, holder, contender, o, got); err != nil || o.is == "E" {
		return o, err // with E, go-zookeeper does not delete its znode
	}
	return o, p.watcher.checkEmpty(ctx, path)
}

// releaseBoth makes the holder and the contender release their locks. An excluded contender
// must get the lock when the holder releases it.
func releaseBoth(ctx context.Context, holder, contender client, o outcome, got <-chan error) error {
	if err := holder.release(ctx); err != nil {
		return fmt.Errorf("the holder's release: %w", err)
	}
	if o.is == "E" {
		return nil
	}
	if o.is == "X" {
		if err := <-got; err != nil {
			return fmt.Errorf("after the release: %w", err)
		}
	}
	if err := contender.release(ctx); err != nil {
		return fmt.Errorf("the contender's release: %w", err)
	}
	return nil
}

// await waits until a contender gets the lock or fails, but not longer than long.
func await(got <-chan error, long time.Duration) outcome {
	select {
	case err := <-got:
		if err != nil {
			return outcome{"E", err}
		}
		return outcome{is: "H"}
	case <-time.After(long):
		return outcome{is: "X"}
	}
}

// queued waits until the contender's znode exists, or until the contender is done.
func (p *pair) queued(ctx context.Context, path string, before int, got <-chan error) error {
	for {
		n, err := zkconn.Do(ctx, p.watcher, zkconn.GetAllChildrenNumber(path))
		if err != nil || n > before || len(got) > 0 {
			return err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// checkEmpty returns an error if there are znodes below a lock's path, except the containers
// of a semaphore. The path itself need not exist.
func (o *zkshClient) checkEmpty(ctx context.Context, path string) error {
	list, err := zkconn.Do(ctx, o, zkconn.List(path))
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	left := slices.DeleteFunc(list.Names, func(n string) bool { return n == "locks" || n == "leases" })
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%q are left behind", left)
	}
	return err
}

// testRevoke checks that Curator can ask a zksh client to release a lock, and vice versa.
func testRevoke(t *testing.T, d *drivers, addr string) {
	ctx, cancel := context.WithTimeout(t.Context(), zktest.Patience)
	defer cancel()
	asked := make(chan zklock.Status, 1)
	us, err := openOurs(ctx, t, addr, func(s zklock.Status) {
		if s.Revoke != nil {
			asked <- s
		}
	})
	zktest.Must(t, err)
	curator, err := d.curator.client(ctx, t, fmt.Sprint("c", d.names.Add(1)), addr)
	zktest.Must(t, err)
	t.Run("Ours", func(t *testing.T) { revokeOurs(t, us, curator, asked) })
	t.Run("Curator", func(t *testing.T) { revokeCurator(t, us, curator) })
}

func revokeOurs(t *testing.T, us *zkshClient, curator *remote, asked <-chan zklock.Status) {
	ctx, cancel := context.WithTimeout(t.Context(), zktest.Patience)
	defer cancel()
	if _, err := us.acquire(ctx, "mutex.x", "/revoke-ours"); err != nil {
		t.Fatal(err)
	}
	zktest.Must(t, curator.revoke(ctx, us.lease.Node()))
	select {
	case s := <-asked:
		if string(s.Revoke) != zklock.RevokeMessage || s.State != zklock.Held || s.Node != us.lease.Node() {
			t.Errorf("asked with %q: %v %s", s.Revoke, s, s.Node)
		}
	case <-time.After(heldWithin):
		t.Error("we do not notice that Curator asks us")
	}
	zktest.Check(t, us.release(ctx))
}

func revokeCurator(t *testing.T, us *zkshClient, curator *remote) {
	const path = "/revoke-curator"
	ctx, cancel := context.WithTimeout(t.Context(), zktest.Patience)
	defer cancel()
	if _, err := curator.acquire(ctx, "C-revocable", path); err != nil {
		t.Fatal(err)
	}
	list, err := zkconn.Do(ctx, us, zkconn.List(path))
	if err != nil || len(list.Names) != 1 {
		t.Fatalf("children %q, %v", list.Names, err)
	}
	zktest.Must(t, zkconn.Exec(ctx, us, zkconn.SetData(path+"/"+list.Names[0], []byte(zklock.RevokeMessage), -1)))
	select {
	case <-curator.revoked:
	case <-time.After(heldWithin):
		t.Error("Curator does not notice that we ask it")
	}
	zktest.Check(t, curator.release(ctx))
}
