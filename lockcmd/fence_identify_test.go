package lockcmd

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

const (
	fenceGone    = "nothing was written: the enclosing lock is lost"
	fenceUnknown = "nothing was written: zksh cannot tell whether this is the ensemble of the enclosing lock"
)

// openBelow opens a session of a program with this value of ZK_LOCK_FENCE.
func openBelow(t *testing.T, servers, lines string) *zkconn.Session {
	t.Helper()
	t.Setenv(fenceName, lines)
	s := open(t, servers, usualTimeout)
	New().Fence(s, false)
	return s
}

// write writes a znode. It expects success if refusal is empty, and otherwise an error with
// this text and exit status 74.
func write(t *testing.T, s *zkconn.Session, node, refusal string) {
	t.Helper()
	err := zkconn.Exec(zktest.Within(t), s, zkconn.SetData(node, []byte("written"), -1))
	switch {
	case refusal == "":
		zktest.Check(t, err)
	case !errors.As(err, new(*zkconn.FencedError)) || !strings.Contains(err.Error(), refusal) || statusOf(err) != commands.StatusLockLost:
		t.Errorf("%v, want %q", err, refusal)
	case refusal == fenceUnknown && !strings.Contains(err.Error(), "to write without the check, use --no-fence"):
		t.Errorf("it names no way out: %v", err)
	}
}

// removeAll deletes a znode and all znodes below it.
func (b *fixture) removeAll(node string) {
	b.t.Helper()
	list, err := zkconn.Do(zktest.Within(b.t), b, zkconn.List(node))
	zktest.Must(b.t, err)
	for _, name := range list.Names {
		b.removeAll(zkconn.Join(node, name))
	}
	b.deleteNode(node)
}

// withoutMarks returns lines as zksh 0.1 wrote them.
func withoutMarks(lines string) string {
	var all []string
	for line := range strings.Lines(lines) {
		p, err := parseFencedLock(strings.TrimSpace(line))
		if err != nil {
			return err.Error()
		}
		all = append(all, p.address())
	}
	return strings.Join(all, "\n")
}

// An enclosing lock fences a program under any server name, even one that starts after the
// loss.
func TestFenceByAnyName(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newFixture(t, addr)
		b.persistent("/w", "")
		holder := b.newFencedUser(commands.ByHand, false)
		holder.lock(exclusive, "/locks/total")
		lines := holder.fenceVariable()
		names := map[string]struct{ servers, node string }{
			"the same name":       {addr, b.root + "/w"},
			"a proxy":             {zktest.NewProxy(t, addr).Addr(), b.root + "/w"},
			"a proxy, and chroot": {zktest.NewProxy(t, addr).Addr() + b.root, "/w"},
		}
		for name, by := range names {
			t.Run(name, func(t *testing.T) {
				early, old := openBelow(t, by.servers, lines), openBelow(t, by.servers, withoutMarks(lines))
				write(t, early, by.node, "")
				write(t, old, by.node, "")
			})
		}
		node := holder.znodes()[0]
		b.deleteNode(node)
		for name, by := range names {
			t.Run(name+", and the lock is gone", func(t *testing.T) {
				write(t, openBelow(t, by.servers, lines), by.node, fenceGone)
				old := fenceUnknown
				if by.servers == addr {
					old = fenceGone
				}
				write(t, openBelow(t, by.servers, withoutMarks(lines)), by.node, old)
			})
		}
		b.removeAll(b.root + "/locks")
		for name, by := range names {
			t.Run(name+", and its folders are gone", func(t *testing.T) {
				write(t, openBelow(t, by.servers, lines), by.node, fenceGone)
			})
		}
		if st, err := zkconn.Do(zktest.Within(t), b, zkconn.Exists(b.root+"/w")); err != nil || st.Version != 6 {
			t.Errorf("written all the same: %+v, %v", st, err)
		}
	})
}

// If the lock's path and all its parents are deleted, zksh cannot identify the ensemble.
func TestFenceWithNothingLeft(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newFixture(t, addr)
		other := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
		holder := b.newFencedUser(commands.ByHand, false)
		holder.lock(exclusive, "/l")
		lines := holder.fenceVariable()
		b.removeAll(b.root)
		write(t, openBelow(t, zktest.NewProxy(t, addr).Addr(), lines), "/", fenceUnknown)
		write(t, openBelow(t, other.addr, lines), other.root, fenceUnknown)
		write(t, openBelow(t, addr, lines), "/", fenceGone)
	})
}

// Writes to another ensemble are not fenced if zksh sees both ensembles and finds a marked
// znode in only one.
func TestFenceOfAnotherEnsemble(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newFixture(t, addr)
		proxy := zktest.NewProxy(t, addr)
		holder := &fixture{Session: open(t, proxy.Addr(), usualTimeout), t: t, addr: addr, root: b.root}
		hand := holder.newFencedUser(commands.ByHand, false)
		hand.lock(exclusive, "/locks/total")
		lines := strings.ReplaceAll(hand.fenceVariable(), addr, proxy.Addr())
		twin := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
		for _, node := range []string{b.root, b.root + "/locks", b.root + "/locks/total"} { // the same paths in the other ensemble
			zktest.Must(t, zkconn.Exec(zktest.Within(t), twin, zkconn.Create(node, nil, zkconn.OpenACL(), zkconn.CreateMode{})))
		}
		write(t, openBelow(t, twin.addr, lines), twin.root, "")
		write(t, openBelow(t, twin.addr, withoutMarks(lines)), twin.root, fenceUnknown)

		s := openBelow(t, zktest.NewProxy(t, addr).Addr(), lines)
		write(t, s, b.root, "")
		zktest.Must(t, s.Connect(zktest.Within(t), twin.addr))
		write(t, s, twin.root, "")
		b.deleteNode(hand.znodes()[0])
		write(t, s, twin.root, "")
		write(t, openBelow(t, twin.addr, lines), twin.root, "")
		zktest.Must(t, s.Connect(zktest.Within(t), zktest.NewProxy(t, addr).Addr()))
		write(t, s, b.root, fenceGone)

		proxy.Refuse(true)
		late := openBelow(t, twin.addr, lines)
		write(t, late, twin.root, fenceUnknown)
		write(t, late, twin.root, "connection refused")
		proxy.Refuse(false)
		write(t, late, twin.root, "")
	})
}

// If the servers that ZK_LOCK_FENCE names belong to another ensemble now, they prove nothing.
func TestFenceOfOtherServersWithTheSameName(t *testing.T) {
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	twin := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	third := zktest.Sandbox(t, sandbox.Options{}).Addr()
	holder := b.newFencedUser(commands.ByHand, false)
	holder.lock(exclusive, "/l")
	lines := strings.ReplaceAll(holder.fenceVariable(), b.addr, third)
	write(t, openBelow(t, twin.addr, lines), twin.root, fenceUnknown)
	write(t, openBelow(t, b.addr, lines), b.root, "")
	b.deleteNode(holder.znodes()[0])
	write(t, openBelow(t, b.addr, lines), b.root, fenceGone)

	// Each of two locks must be found in its own ensemble, and one is not.
	holder.lock(exclusive, "/other")
	both := strings.ReplaceAll(holder.fenceVariable(), b.addr, third) + "\n" + strings.ReplaceAll(holder.fenceVariable(), b.addr, twin.addr)
	fourth := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	write(t, openBelow(t, fourth.addr, both), fourth.root, fenceUnknown)
}

// The locks of this program fence its writes in other sessions under any server name, but not
// its writes to another ensemble.
func TestFenceOfOtherSessions(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newFixture(t, addr)
		other := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
		p := b.newFencedUser(commands.ByHand, false)
		p.lock(exclusive, "/l")
		elsewhere := func(spec string) *zkconn.Session {
			t.Helper()
			s, err := p.Session.Elsewhere(t.Context(), spec)
			zktest.Must(t, err)
			t.Cleanup(func() { _ = s.Close(context.Background()) })
			return s
		}
		proxy := zktest.NewProxy(t, addr)
		write(t, elsewhere(other.addr), other.root, "")
		write(t, elsewhere(proxy.Addr()), b.root, "")
		early := elsewhere(proxy.Addr())
		write(t, early, b.root, "")
		before := elsewhere(other.addr)
		b.deleteNode(p.znodes()[0])
		write(t, early, b.root, fenceGone)
		write(t, elsewhere(proxy.Addr()), b.root, fenceGone)
		write(t, before, other.root, "")
	})
}

// zksh identifies the ensemble again for each session, because a server of the same name may
// belong to another ensemble.
func TestFenceAfterTheSession(t *testing.T) {
	// The zxids of a sandbox begin with the time at which it was started. The client will go from twin
	// to b, which rejects clients that have seen a larger zxid than its own.
	twin := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	holder := b.newFencedUser(commands.ByHand, false)
	holder.lock(exclusive, "/l")
	lines := holder.fenceVariable()
	b.deleteNode(holder.znodes()[0])
	zktest.Must(t, zkconn.Exec(zktest.Within(t), twin, zkconn.Create(b.root, nil, zkconn.OpenACL(), zkconn.CreateMode{})))
	road := zktest.NewProxy(t, twin.addr)
	s := openBelow(t, road.Addr(), lines)
	write(t, s, b.root, "")

	road.Refuse(true)
	forward(t, road.Addr(), b.addr)
	road.Cut()
	var err error
	zktest.Eventually(t, "there is a session in the lock's ensemble", func() bool {
		err = zkconn.Exec(zktest.Within(t), s, zkconn.SetData(b.root, []byte("written"), -1))
		return !errors.Is(err, zkconn.SessionExpired) && !errors.Is(err, zkconn.ConnectionLoss)
	})
	if !errors.As(err, new(*zkconn.FencedError)) || !strings.Contains(err.Error(), fenceGone) {
		t.Errorf("%v", err)
	}
}

// forward forwards connections to the address from to the server at to.
func forward(t *testing.T, from, to string) {
	t.Helper()
	ln, err := net.Listen("tcp", from)
	zktest.Must(t, err)
	var mu sync.Mutex
	var open []net.Conn
	var passing sync.WaitGroup
	passing.Go(func() { // ends when the listener is closed
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			mu.Lock()
			open = append(open, in, out)
			mu.Unlock()
			for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
				passing.Go(func() { // ends when either connection is closed
					_, _ = io.Copy(way[0], way[1])
					way[0].Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		passing.Wait()
	})
}

// If the session uses one of the lock's server names, zksh sends nothing but the write. Under
// another name, it checks the znodes once.
func TestFenceAsksOnce(t *testing.T) {
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	proxy := zktest.NewProxy(t, b.addr)
	holder := b.newFencedUser(commands.ByHand, false)
	holder.lock(exclusive, "/l")
	for lines, want := range map[string][]int32{
		holder.fenceVariable(): {jute.OpMulti, jute.OpExists, jute.OpExists, jute.OpExists, jute.OpMulti, jute.OpMulti},
		strings.ReplaceAll(holder.fenceVariable(), b.addr, proxy.Addr()): {jute.OpMulti, jute.OpMulti},
	} {
		s := openBelow(t, proxy.Addr(), lines)
		zktest.Must(t, s.Ready(zktest.Within(t)))
		proxy.Requests()
		write(t, s, b.root, "")
		write(t, s, b.root, "")
		if got := proxy.Requests(); !slices.Equal(got, want) {
			t.Errorf("%s: asked %v, want %v", lines, got, want)
		}
	}
}

// A command starts even if the marks cannot be read in time. Then only the server names
// identify the ensemble.
func TestFenceWithoutMarks(t *testing.T) {
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	proxy := zktest.NewProxy(t, b.addr)
	holder := &fixture{Session: open(t, proxy.Addr(), usualTimeout), t: t, addr: proxy.Addr(), root: b.root}
	p := holder.newFencedUser(commands.ByHand, false)
	p.lock(exclusive, "/l")
	o := p.table.find(&p.Env, b.root+"/l")
	node := p.znodes()[0]
	proxy.Hold(true)
	ctx, cancel := context.WithTimeout(zktest.Within(t), 50*time.Millisecond)
	defer cancel()
	if got := p.table.fenceOf(ctx, o, o.leases[0]); got != proxy.Addr()+node {
		t.Errorf("a command finds %q", got)
	}
	zktest.Eventually(t, "the person hears of it", func() bool {
		return strings.Contains(p.Alerts(), "can write only if it uses the same server names")
	})
	proxy.Hold(false)
	if got := p.table.fenceOf(zktest.Within(t), o, o.leases[0]); !strings.HasPrefix(got, proxy.Addr()+node+"@") {
		t.Errorf("a command finds %q", got)
	}
}

// Every member of a real ensemble belongs to the lock's ensemble, even an old leader that the
// other members have left and that does not know the lock.
func TestFenceByAnotherMember(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts an ensemble")
	}
	split := zktest.StartSplit(t, zktest.Heap(64), zktest.Ticks(500, 10, 2))
	old := split.Leader()
	b := newFixture(t, split.Addr((old+1)%3))
	stale := zksession.Open(t, zkconn.Config{Servers: split.Addr(old), Timeout: usualTimeout / 2})
	zktest.Must(t, stale.Ready(zktest.Within(t)))
	holder := b.newFencedUser(commands.ByHand, false)
	holder.lock(exclusive, "/l")
	lines := holder.fenceVariable()
	third := split.Addr((old + 2) % 3)
	write(t, openBelow(t, third, lines), b.root, "")
	b.deleteNode(holder.znodes()[0])
	write(t, openBelow(t, third, lines), b.root, fenceGone)

	split.Isolate(old)
	zktest.Eventually(t, "the others have another leader", func() bool {
		err := zkconn.Exec(zktest.Within(t), b, zkconn.Create("/late", nil, zkconn.OpenACL(), zkconn.CreateMode{}))
		return err == nil || errors.Is(err, zkconn.NodeExists)
	})
	t.Setenv(fenceName, "")
	late := &fixture{Session: b.Session, t: t, addr: b.addr, root: "/late"}
	hand := late.newFencedUser(commands.ByHand, false)
	hand.lock(exclusive, "/l")
	t.Setenv(fenceName, hand.fenceVariable())
	New().Fence(stale, false)
	if err := zkconn.Exec(zktest.Within(t), stale, zkconn.SetData(b.root, []byte("stale"), -1)); err == nil {
		t.Error("a leader without others has written")
	}
	split.Heal()
	late.deleteNode(hand.znodes()[0])
	var err error
	zktest.Eventually(t, "the old leader is back", func() bool {
		err = zkconn.Exec(zktest.Within(t), stale, zkconn.SetData(b.root, []byte("stale"), -1))
		return err == nil || errors.As(err, new(*zkconn.FencedError))
	})
	if err == nil || !strings.Contains(err.Error(), fenceGone) {
		t.Errorf("written without the lock: %v", err)
	}
	if node, err := zkconn.Do(zktest.Within(t), b, zkconn.GetData(b.root)); err != nil || string(node.Data) != "written" {
		t.Errorf("%q, %v", node.Data, err)
	}
}
