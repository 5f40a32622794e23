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

// fenced is a person who writes under locks.
func (b *bed) fenced(mode commands.Mode, goOn bool) *person {
	p := b.person()
	p.Mode = mode
	p.table.Fence(p.Session, goOn)
	return p
}

// write writes something, which is to be refused with this text, or to be done.
func (p *person) write(refusal string, or ...string) {
	p.t.Helper()
	err := zkconn.Exec(zktest.Within(p.t), p.Session, zkconn.SetData(p.bed.root, []byte("written"), -1))
	switch {
	case refusal == "":
		if err != nil {
			p.t.Error(err)
		}
	case !errors.As(err, new(*zkconn.FencedError)) ||
		!slices.ContainsFunc(append(or, refusal), func(s string) bool { return strings.Contains(err.Error(), s) }):
		p.t.Errorf("%v, want %q", err, refusal)
	}
}

// znodes are those that a person holds.
func (p *person) znodes() (nodes []string) {
	p.t.Helper()
	nodes, err := p.table.fence.Nodes(zktest.Within(p.t), p.Session.Ensemble().Epoch())
	if err != nil {
		p.t.Fatal(err)
	}
	return nodes
}

// lines are what a program that a person starts finds in its environment.
func (p *person) lines() string {
	p.t.Helper()
	lines, err := p.table.fence.lines(zktest.Within(p.t))
	if err != nil {
		p.t.Fatal(err)
	}
	return lines
}

func (b *bed) take(node string) {
	b.t.Helper()
	if err := zkconn.Exec(zktest.Within(b.t), b, zkconn.Delete(node, -1)); err != nil {
		b.t.Fatal(err)
	}
}

// A lock that is gone keeps who held it from writing, whether he knows already or not,
// until he has been told, or gives it up.
func TestFenceOfOwnLocks(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newBed(t, addr)
		for kind := range lockKinds {
			p := b.fenced(commands.ByHand, false)
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
					b.take(node)
				}
			}
			refusal := "nothing was written: the lock on " + b.root + name + " is lost"
			p.write(refusal)
			p.write("; to write without the lock, run: unlock " + b.root + name)
			o := p.table.find(&p.Env, b.root+name)
			zktest.Eventually(t, "the loss is known", func() bool { return o.current().State == zklock.Lost })
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

// One of several znodes is enough to be without the lock.
func TestFenceOfAllFamilies(t *testing.T) {
	b := newBed(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	for i, name := range []string{"/1", "/2", "/3"} {
		p := b.fenced(commands.ByHand, false)
		f := &lockFlags{family: string(zklock.All), background: true}
		if err := p.table.take(zktest.Within(t), &p.Env, lockKinds[exclusive], f, b.root+name, nil); err != nil {
			t.Fatal(err)
		}
		nodes := p.znodes()
		if len(nodes) != 3 {
			t.Fatalf("checked: %q", nodes)
		}
		p.write("")
		b.take(nodes[i])
		var gone []string
		for _, node := range nodes {
			gone = append(gone, "the znode "+node+" no longer exists")
		}
		p.write(gone[i], gone...) // any of them, as the others are given back for it
		if err := p.table.Lost(); err != nil {
			t.Errorf("told twice: %v", err)
		}
	}
}

// With -k what follows the line that was refused is written, but not without the other
// lock; and so it is when the loss was told before.
func TestFenceThatFalls(t *testing.T) {
	b := newBed(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	const once = "; because of -k, zksh continues, and later lines write without this lock"
	p := b.fenced(commands.Batch, true)
	p.lock(exclusive, "/one")
	p.lock(exclusive, "/two")
	nodes := p.znodes()
	b.take(nodes[0])
	p.write(once)
	p.write("")
	if err := p.table.Lost(); err != nil {
		t.Errorf("told twice: %v", err)
	}
	if fence := p.lines(); strings.Contains(fence, nodes[0]) || !strings.Contains(fence, nodes[1]) {
		t.Errorf("a command is told %q", fence)
	}
	b.take(nodes[1])
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

// A lock that is released because somebody asked for it goes without the script's doing:
// until that is told nothing more is written.
func TestFenceOfARevokedLock(t *testing.T) {
	b := newBed(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	for _, mode := range []commands.Mode{commands.Batch, commands.ByHand} {
		p := b.fenced(mode, false)
		f := &lockFlags{family: string(zklock.Mutex), background: true, revocable: true}
		if err := p.table.take(zktest.Within(t), &p.Env, lockKinds[exclusive], f, b.root+"/l", nil); err != nil {
			t.Fatal(err)
		}
		node := p.znodes()[0]
		st := newStage(b.Session, render.Text)
		if err := ask(zktest.Within(t), &st.Env, node); err != nil {
			t.Fatal(err)
		}
		zktest.Eventually(t, "it is released", func() bool {
			held, _ := p.table.Held()
			return held == 0
		})
		if mode == commands.ByHand { // who was told at once
			p.write("")
			continue
		}
		p.write("the znode " + node + " no longer exists")
		zktest.Eventually(t, "it is told", func() bool { return p.table.Lost() != nil })
		p.write("")
	}
}

// What is held above counts in its own ensemble only: known by its servers, under
// whatever name, or by the znode.
func TestFenceOfLocksAbove(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newBed(t, addr)
		holder := b.fenced(commands.ByHand, false)
		holder.lock(exclusive, "/one")
		holder.lock(exclusive, "/two")
		posts := strings.Split(holder.lines(), "\n")
		if len(posts) != 2 || !slices.IsSorted(posts) {
			t.Fatalf("%q", posts)
		}
		port := addr[strings.LastIndexByte(addr, ':'):]
		elsewhere := func(server string) string {
			return strings.ReplaceAll(strings.Join(posts, "\n"), addr, server)
		}
		start := func(environment string) *person {
			t.Setenv(fenceName, environment)
			return b.fenced(commands.ByHand, false)
		}
		byName, byZnode := start(elsewhere("localhost"+port)), start(elsewhere("127.0.0.9:1,[::2]:2"))
		for _, p := range []*person{byName, byZnode} {
			p.write("")
			if got := p.lines(); len(strings.Split(got, "\n")) != 2 {
				t.Errorf("a command further down is told %q", got)
			}
		}
		name, _, _ := strings.Cut(path.Base(posts[1]), "@")
		b.take(b.root + "/two/" + name)
		late := start(elsewhere("127.0.0.9:1"))
		byName.write("the enclosing lock is lost")
		byZnode.write("the enclosing lock is lost")
		late.write("the enclosing lock is lost") // the other one tells the ensemble

		other := zktest.Sandbox(t, sandbox.Options{})
		if err := byName.Session.Connect(zktest.Within(t), other.Addr()); err != nil {
			t.Fatal(err)
		}
		if err := zkconn.Exec(zktest.Within(t), byName.Session, zkconn.Create(b.root, nil, zkconn.OpenACL(), zkconn.CreateMode{})); err != nil {
			t.Errorf("in another ensemble: %v", err)
		}
		if err := byName.Session.Connect(zktest.Within(t), addr); err != nil {
			t.Fatal(err)
		}
		byName.write("the enclosing lock is lost")
	})
}

// While it cannot be asked whether the ensemble is that of the lock, nothing is written.
func TestFenceThatCannotBeAsked(t *testing.T) {
	b := newBed(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	holder := b.fenced(commands.ByHand, false)
	holder.lock(exclusive, "/l")
	proxy := zktest.NewProxy(t, b.addr)
	s := below(t, proxy.Addr(), holder.lines())
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
