package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/commands/transfer"
	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

// noCreate is an ACL that forbids the creation of children. A single transaction cannot create a znode
// with this ACL and its children.
var noCreate = zk.WorldACL(zk.PermAll &^ zk.PermCreate)

// moves are the ways in which mv can move a subtree.
var moves = []struct {
	name      string
	locked    bool // whether the ACL of the root is noCreate
	otherName bool // the destination names the ensemble differently, so a second session writes to it
}{{"at once", false, false}, {"slowly", true, false}, {"by another name", false, true}}

// If the connection is cut before or after any request of a move, the whole subtree is at one of
// the two places. A move that succeeds leaves nothing at the source.
func TestMoveCut(t *testing.T) {
	for _, m := range moves {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			here := zktest.Sandbox(t, sandbox.Options{}).Addr()
			source := open(t, here)
			n := 0
			requests := cutAtEachRequest(t, func(prepare func(*zktest.Proxy)) []int32 {
				n++
				root, to := fmt.Sprint("/src", n), fmt.Sprint("/dst", n)
				all := randomTree(rand.New(rand.NewPCG(uint64(n), 3)), root, 8)
				all[0].ACL = anyone
				if m.locked {
					all[0].ACL = noCreate
				} else {
					for _, z := range all {
						z.ACL = anyone
					}
				}
				putTree(t, source, all)
				proxy := zktest.NewProxy(t, here)
				s := open(t, proxy.Addr())
				before := len(proxy.Requests())
				prepare(proxy)
				dst := to
				if m.otherName {
					dst = here + ":" + to
				}
				status, _, remarks := run(t.Context(), s, "mv "+root+" "+dst)
				checkMoved(t, fmt.Sprintf("trial %d: status %d: %s", n, status, remarks), all, status == 0, source, to)
				return proxy.Requests()[before:]
			})
			if len(requests) < 5 {
				t.Errorf("only %d requests were cut", len(requests))
			}
		})
	}
}

// cutAtEachRequest runs trial once without a cut, and then once for each cut before or after one of
// its requests. trial passes its proxy to prepare, which makes the cut, and returns the requests that
// the proxy has seen since then. cutAtEachRequest returns the requests of the trial without a cut.
func cutAtEachRequest(t *testing.T, trial func(prepare func(*zktest.Proxy)) []int32) []int32 {
	t.Helper()
	requests := trial(func(*zktest.Proxy) {})
	seen := map[int32]int{}
	for _, op := range requests {
		skip := seen[op]
		if seen[op]++; op == jute.OpPing || op == jute.OpCloseSession {
			continue
		}
		trial(func(p *zktest.Proxy) { p.CutBeforeSkipping(op, skip) })
		if jute.Writes(op) { // after a read, a cut makes no difference
			trial(func(p *zktest.Proxy) { p.CutAfterSkipping(op, skip) })
		}
	}
	return requests
}

// checkMoved checks that the whole subtree is at one of the places, and that nothing of it is left
// at the source if the move succeeded.
func checkMoved(t *testing.T, what string, all []*dump.Znode, moved bool, s *zkconn.Session, to string) {
	t.Helper()
	old, now := firstDifference(t, all, s, all[0].Path), firstDifference(t, all, s, to)
	if old != "" && now != "" {
		t.Errorf("the tree is nowhere whole: at the source %s, at the destination %s; %s", old, now, what)
	}
	if err := zkconn.Exec(t.Context(), s, zkconn.Exists(all[0].Path)); moved && (now != "" || !errors.Is(err, zkconn.NoNode)) {
		t.Errorf("a move that succeeded: %v, %s; %s", err, now, what)
	}
}

// interruptingScreen calls cancel after a number of progress updates.
type interruptingScreen struct {
	commandtest.Screen
	cancel func()
	mu     sync.Mutex
	left   int
}

func (b *interruptingScreen) Progress(string) (func(done, total int), func()) {
	return func(int, int) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.left--; b.left == 0 {
			b.cancel()
		}
	}, func() {}
}

// A move that is interrupted at any progress update leaves the whole subtree at one of the places.
func TestMoveInterrupted(t *testing.T) {
	var mv *commands.Command
	for _, c := range transfer.Commands() {
		if c.Name == "mv" {
			mv = c
		}
	}
	s := open(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	ended := false
	for n := 1; !ended; n++ {
		root, to := fmt.Sprint("/src", n), fmt.Sprint("/dst", n)
		all := publicTree(uint64(n), root)
		all[0].ACL = noCreate
		putTree(t, s, all)
		ctx, cancel := context.WithCancel(t.Context())
		env := &commands.Env{Session: s, Screen: &interruptingScreen{cancel: cancel, left: n}, Mode: commands.Batch}
		l, err := mv.Read(env, []commands.Word{{Text: root}, {Text: to}})
		zktest.Must(t, err)
		err = l.Run(ctx, env)
		ended = ctx.Err() == nil
		cancel()
		checkMoved(t, fmt.Sprintf("after %d steps: %v", n, err), all, err == nil, s, to)
	}
}

// No acknowledged write of another client is lost while mv moves the subtree.
func TestMoveWhileItChanges(t *testing.T) {
	here := zktest.Sandbox(t, sandbox.Options{}).Addr()
	s, writer := open(t, here), open(t, here)
	moved := 0
	for n := range 40 {
		root, to := fmt.Sprint("/src", n), fmt.Sprint("/dst", n)
		for _, path := range []string{root, root + "/a", root + "/a/b", root + "/c"} {
			zktest.Must(t, zkconn.Exec(t.Context(), s, zkconn.Create(path, nil, anyone, zkconn.CreateMode{})))
		}
		if n%2 == 1 { // more than one transaction is needed
			zktest.Must(t, zkconn.Exec(t.Context(), s, zkconn.SetACL(root, noCreate, -1)))
		}
		written := map[string]string{}
		var wg sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		wg.Go(func() { // ends with stop, or when a write fails because the source is gone
			for i := 0; i < 5+10*n && ctx.Err() == nil; i++ {
				path, value := root+[]string{"/a", "/a/b", "/c", ""}[i%4], fmt.Sprint(i)
				if err := zkconn.Exec(t.Context(), writer, zkconn.SetData(path, []byte(value), -1)); err != nil {
					return
				}
				written[path] = value
			}
		})
		status, _, _ := run(t.Context(), open(t, here), "mv "+root+" "+to)
		stop()
		wg.Wait()
		if status == 0 {
			moved++
		}
		for path, value := range written {
			old, err := zkconn.Do(t.Context(), s, zkconn.GetData(path))
			now, _ := zkconn.Do(t.Context(), s, zkconn.GetData(to+strings.TrimPrefix(path, root)))
			if err == nil && string(old.Data) != value || err != nil && string(now.Data) != value {
				t.Errorf("%d: %s was written as %s, and is %s, %v and %s", n, path, value, old.Data, err, now.Data)
			}
		}
	}
	if moved == 0 {
		t.Error("nothing was moved")
	}
}
