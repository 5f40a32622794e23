package lockcmd

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// newFencedUser returns a shell whose writes depend on its locks.
func (b *fixture) newFencedUser(mode commands.Mode, continueAfterLoss bool) *user {
	p := b.newUser()
	p.Mode = mode
	p.table.Fence(p.Session, continueAfterLoss)
	return p
}

// write writes a znode. It expects success if refusal is empty, and otherwise an error that
// contains refusal or one of the other texts.
func (p *user) write(refusal string, or ...string) {
	p.t.Helper()
	err := zkconn.Exec(zktest.Within(p.t), p.Session, zkconn.SetData(p.fix.root, []byte("written"), -1))
	switch {
	case refusal == "":
		zktest.Check(p.t, err)
	case !errors.As(err, new(*zkconn.FencedError)) ||
		!slices.ContainsFunc(append(or, refusal), func(s string) bool { return strings.Contains(err.Error(), s) }):
		p.t.Errorf("%v, want %q", err, refusal)
	}
}

// znodes returns the znodes of the locks that the shell holds.
func (p *user) znodes() (nodes []string) {
	p.t.Helper()
	nodes, err := p.table.fence.Nodes(zktest.Within(p.t), p.Session.Ensemble().Epoch())
	zktest.Must(p.t, err)
	return nodes
}

// fenceVariable returns the value of ZK_LOCK_FENCE for a program that the shell starts.
func (p *user) fenceVariable() string {
	p.t.Helper()
	lines, err := p.table.fence.envValue(zktest.Within(p.t))
	zktest.Must(p.t, err)
	return lines
}

func (b *fixture) deleteNode(node string) {
	b.t.Helper()
	zktest.Must(b.t, zkconn.Exec(zktest.Within(b.t), b, zkconn.Delete(node, -1)))
}

// After a lock is lost, the shell cannot write, whether it knows of the loss or not, until the
// loss is reported or the user runs unlock.
func TestFenceOfOwnLocks(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newFixture(t, addr)
		for kind := range lockKinds {
			p := b.newFencedUser(commands.ByHand, false)
			name := "/" + lockKinds[kind].command
			p.lock(kind, name)
			p.lock(exclusive, name+"-other")
			p.write("")
			nodes := p.znodes()
			if len(nodes) != 2 {
				t.Fatalf("checked: %q", nodes)
			}
			for _, node := range nodes {
				if path.Dir(node) == b.root+name {
					b.deleteNode(node)
				}
			}
			refusal := "nothing was written: the lock on " + b.root + name + " is lost"
			p.write(refusal)
			p.write("; to write without the lock, run: unlock " + b.root + name)
			o := p.table.find(&p.Env, b.root+name)
			zktest.Eventually(t, "the loss is known", func() bool { return o.currentStatus().State == zklock.Lost })
			p.write(refusal)
			if held, gone := p.table.Held(); held != 1 || gone != 1 {
				t.Errorf("%d are held and %d lost", held, gone)
			}
			if _, err := o.unlock(zktest.Within(t), &p.Env); !errors.Is(err, zklock.ErrLost) {
				t.Error(err)
			}
			p.write("")
			if nodes := p.znodes(); len(nodes) != 1 {
				t.Errorf("checked: %q", nodes)
			}
		}
	})
}

// With -k, the lines after the rejected line write without the lost lock, but not without the
// other lock. The same holds if the loss was reported before.
func TestFenceContinuesAfterLoss(t *testing.T) {
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	const once = "; because of -k, zksh continues, and later lines write without this lock"
	p := b.newFencedUser(commands.Batch, true)
	p.lock(exclusive, "/one")
	p.lock(exclusive, "/two")
	nodes := p.znodes()
	b.deleteNode(nodes[0])
	p.write(once)
	p.write("")
	if err := p.table.Lost(); err != nil {
		t.Errorf("told twice: %v", err)
	}
	if fence := p.fenceVariable(); strings.Contains(fence, nodes[0]) || !strings.Contains(fence, nodes[1]) {
		t.Errorf("a command is told %q", fence)
	}
	b.deleteNode(nodes[1])
	var err error
	zktest.Eventually(t, "the other loss is told", func() bool {
		err = p.table.Lost()
		return err != nil
	})
	if !strings.Contains(err.Error(), once) || statusOf(err) != commands.StatusLockLost {
		t.Error(err)
	}
	p.write("")
}

// After a batch releases a lock at another client's request, it cannot write until that is
// reported.
func TestFenceOfARevokedLock(t *testing.T) {
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	for _, mode := range []commands.Mode{commands.Batch, commands.ByHand} {
		p := b.newFencedUser(mode, false)
		f := &lockFlags{family: string(zklock.Mutex), background: true, revocable: true}
		zktest.Must(t, p.table.lockAndRun(zktest.Within(t), &p.Env, lockKinds[exclusive], f, b.root+"/l", nil))
		node := p.znodes()[0]
		st := newTestEnv(b.Session, render.Text)
		zktest.Must(t, requestRelease(zktest.Within(t), &st.Env, node))
		zktest.Eventually(t, "it is released", func() bool {
			held, _ := p.table.Held()
			return held == 0
		})
		if mode == commands.ByHand { // the user has seen the notice
			p.write("")
			continue
		}
		p.write("the znode " + node + " no longer exists")
		zktest.Eventually(t, "it is told", func() bool { return p.table.Lost() != nil })
		p.write("")
	}
}

// An enclosing lock counts only in its own ensemble, which zksh recognizes by the servers,
// under any name, or by the lock's znode.
func TestFenceOfEnclosingLocks(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newFixture(t, addr)
		holder := b.newFencedUser(commands.ByHand, false)
		holder.lock(exclusive, "/one")
		holder.lock(exclusive, "/two")
		posts := strings.Split(holder.fenceVariable(), "\n")
		if len(posts) != 2 || !slices.IsSorted(posts) {
			t.Fatalf("%q", posts)
		}
		port := addr[strings.LastIndexByte(addr, ':'):]
		elsewhere := func(server string) string {
			return strings.ReplaceAll(strings.Join(posts, "\n"), addr, server)
		}
		start := func(environment string) *user {
			t.Setenv(fenceName, environment)
			return b.newFencedUser(commands.ByHand, false)
		}
		byName, byZnode := start(elsewhere("localhost"+port)), start(elsewhere("127.0.0.9:1,[::2]:2"))
		for _, p := range []*user{byName, byZnode} {
			p.write("")
			if got := p.fenceVariable(); len(strings.Split(got, "\n")) != 2 {
				t.Errorf("a command further down is told %q", got)
			}
		}
		name, _, _ := strings.Cut(path.Base(posts[1]), "@")
		b.deleteNode(b.root + "/two/" + name)
		late := start(elsewhere("127.0.0.9:1"))
		byName.write("the enclosing lock is lost")
		byZnode.write("the enclosing lock is lost")
		late.write("the enclosing lock is lost") // the other lock identifies the ensemble

		other := zktest.Sandbox(t, sandbox.Options{})
		zktest.Must(t, byName.Session.Connect(zktest.Within(t), other.Addr()))
		if err := zkconn.Exec(zktest.Within(t), byName.Session, zkconn.Create(b.root, nil, zkconn.OpenACL(), zkconn.CreateMode{})); err != nil {
			t.Errorf("in another ensemble: %v", err)
		}
		zktest.Must(t, byName.Session.Connect(zktest.Within(t), addr))
		byName.write("the enclosing lock is lost")
	})
}

// zksh writes nothing while it cannot find out whether the ensemble is the one of the lock.
func TestFenceWithoutConnection(t *testing.T) {
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	holder := b.newFencedUser(commands.ByHand, false)
	holder.lock(exclusive, "/l")
	proxy := zktest.NewProxy(t, b.addr)
	s := openBelow(t, proxy.Addr(), holder.fenceVariable())
	proxy.Hold(true)
	ctx, cancel := context.WithCancel(zktest.Within(t))
	cancel()
	if err := zkconn.Exec(ctx, s, zkconn.SetData(b.root, []byte("written"), -1)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	proxy.Hold(false)
	if st, err := zkconn.Do(zktest.Within(t), b, zkconn.Exists(b.root)); err != nil || st.Version != 0 {
		t.Error(st, err)
	}
	write(t, s, b.root, "")
}
