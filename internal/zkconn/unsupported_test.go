package zkconn_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

// newRequests maps the names of requests that 3.4 servers do not know to their opcodes and to
// functions that send them.
var newRequests = map[string]struct {
	op int32
	do func(ctx context.Context, s *zkconn.Session) error
}{
	"whoAmI": {jute.OpWhoAmI, func(ctx context.Context, s *zkconn.Session) error {
		err := zkconn.Exec(ctx, s, zkconn.WhoAmI())
		return err
	}},
	"getEphemerals": {jute.OpGetEphemerals, func(ctx context.Context, s *zkconn.Session) error {
		err := zkconn.Exec(ctx, s, zkconn.GetEphemerals("/"))
		return err
	}},
	"getAllChildrenNumber": {jute.OpGetAllChildrenNumber, func(ctx context.Context, s *zkconn.Session) error {
		err := zkconn.Exec(ctx, s, zkconn.GetAllChildrenNumber("/"))
		return err
	}},
	"addWatch": {jute.OpAddWatch, func(ctx context.Context, s *zkconn.Session) error {
		return zkconn.Exec(ctx, s, zkconn.AddWatch("/", true))
	}},
	"createContainer": {jute.OpCreateContainer, creating("/c", zkconn.CreateMode{Container: true})},
	"createTTL":       {jute.OpCreateTTL, creating("/t", zkconn.CreateMode{TTL: time.Second})},
}

func creating(path string, mode zkconn.CreateMode) func(context.Context, *zkconn.Session) error {
	return func(ctx context.Context, s *zkconn.Session) error {
		err := zkconn.Exec(ctx, s, zkconn.Create(path, nil, zkconn.OpenACL(), mode))
		return err
	}
}

// countingSandbox opens a session on a sandbox that closes the connection over the first hangUps
// requests with opcode op, and counts all of them.
func countingSandbox(t *testing.T, op, hangUps int32) (s *zkconn.Session, asked *atomic.Int32) {
	t.Helper()
	return countingSandboxAs(t, "", op, hangUps)
}

func countingSandboxAs(t *testing.T, as sandbox.Product, op, hangUps int32) (s *zkconn.Session, asked *atomic.Int32) {
	t.Helper()
	asked = new(atomic.Int32)
	box := zktest.Sandbox(t, sandbox.Options{Quirks: sandbox.Quirks{Product: as, React: func(got int32) sandbox.Reaction {
		if got == op && asked.Add(1) <= hangUps {
			return sandbox.HangUp
		}
		return sandbox.Serve
	}}})
	return zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: zktest.Patience}), asked
}

// After a server has hung up twice on a kind of request, the client treats the request as
// unsupported and no longer sends it. If ZooKeeper claims to support it, the client tries four
// times.
func TestHangUpOnUnknownRequest(t *testing.T) {
	t.Parallel()
	for name := range newRequests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testHangUpOn(t, name, sandbox.RaftKeeper, 2)
			testHangUpOn(t, name, "", 4)
		})
	}
}

func testHangUpOn(t *testing.T, name string, as sandbox.Product, most int32) {
	t.Helper()
	r := newRequests[name]
	s, asked := countingSandboxAs(t, as, r.op, 1000)
	for range 3 {
		err := r.do(zktest.Within(t), s)
		if !errors.Is(err, zkconn.Unimplemented) || !strings.Contains(err.Error(), "127.0.0.1:") || !strings.Contains(err.Error(), " closes the connection on "+name+", which it does not support") {
			t.Errorf("as %q: got %v", as, err)
		}
		if errors.Is(err, zkconn.ConnectionLoss) {
			t.Errorf("as %q: %v is a connection loss", as, err)
		}
	}
	if n := asked.Load(); n != most {
		t.Errorf("as %q: it was asked %d times", as, n)
	}
}

// A few hang-ups of ZooKeeper may be accidents: the client repeats requests that change nothing,
// and does not report writes that may have taken effect as unsupported.
func TestHangUpByAccident(t *testing.T) {
	t.Parallel()
	for name, r := range newRequests {
		for _, times := range []int32{1, 2, 3} {
			t.Run(fmt.Sprintf("%s, %d", name, times), func(t *testing.T) {
				t.Parallel()
				testAccidents(t, name, r.op, times)
			})
		}
	}
}

func testAccidents(t *testing.T, name string, op, times int32) {
	do := newRequests[name].do
	s, asked := countingSandbox(t, op, times)
	err := do(zktest.Within(t), s)
	if strings.HasPrefix(name, "create") {
		if !errors.As(err, new(*zkconn.LostError)) || !strings.Contains(err.Error(), "unknown whether it took effect") || errors.Is(err, zkconn.Unimplemented) {
			t.Errorf("got %v", err)
		}
	} else if err != nil {
		t.Error(err)
	}
	if n := asked.Load(); n != times+1 {
		t.Errorf("it was asked %d times", n)
	}
	if err := do(zktest.Within(t), s); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// Requests sent before one over which the server closes the connection are executed once each; those
// sent after it are known not to have been sent.
func TestNothingIsLostAroundAHangUp(t *testing.T) {
	t.Parallel()
	s, _ := countingSandbox(t, jute.OpWhoAmI, 1000)
	zktest.Must(t, zkconn.Exec(zktest.Within(t), s, zkconn.Create("/q", nil, zkconn.OpenACL(), zkconn.CreateMode{})))
	p, err := s.Pipe(zktest.Within(t), "/q")
	zktest.Must(t, err)
	var before []*zkconn.Pending[zkconn.Written]
	for i := range 50 {
		before = append(before, zkconn.Add(p, zkconn.Create(fmt.Sprintf("/q/n%d", i), nil, zkconn.OpenACL(), zkconn.CreateMode{})))
	}
	who := make(chan error, 1)
	trip := zkconn.NewTrip()
	go func() { // ends when WhoAmI returns
		err := zkconn.Exec(trip.Context(zktest.Within(t)), s, zkconn.WhoAmI())
		who <- err
	}()
	<-trip.Queued
	behind := zkconn.Add(p, zkconn.Create("/q/behind", nil, zkconn.OpenACL(), zkconn.CreateMode{}))
	for i, one := range before {
		if _, err := one.Wait(zktest.Within(t)); err != nil {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if _, err := behind.Wait(zktest.Within(t)); !errors.As(err, new(*zkconn.UnsentError)) {
		t.Errorf("behind it: %v", err)
	}
	if err := <-who; !errors.Is(err, zkconn.Unimplemented) {
		t.Errorf("got %v", err)
	}
	if list, err := zkconn.Do(zktest.Within(t), s, zkconn.List("/q")); err != nil || len(list.Names) != 50 {
		t.Errorf("%d were created, %v", len(list.Names), err)
	}
}

// While a lock is held, the client does not try requests that the server may not support,
// because a hang-up may end the session.
func TestNoTrialWhileALockIsHeld(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]sandbox.Options{
		"clickhouse": {Quirks: sandbox.Quirks{Product: sandbox.ClickHouse}},
		"raftkeeper": {Quirks: sandbox.Quirks{Product: sandbox.RaftKeeper}},
		"3.4":        {As: "3.4"}, "3.9": {As: "3.9"},
	} {
		known := opt.As == "3.9"
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := zktest.Sandbox(t, opt)
			s := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: zktest.Patience})
			held, err := s.Ensemble().Pin(zktest.Within(t))
			zktest.Must(t, err)
			release := held.Guard()
			err = zkconn.Exec(zktest.Within(t), s, zkconn.WhoAmI())
			if known && err != nil || !known && (!errors.Is(err, zkconn.Unimplemented) || !strings.Contains(err.Error(), "does not send this request while a lock is held")) {
				t.Errorf("got %v", err)
			}
			if err := held.CreateContainer(zktest.Within(t), "/c", zkconn.OpenACL()); err != nil {
				t.Errorf("a folder for another lock: %v", err)
			}
			if !held.Connected() {
				t.Error("the connection is another one")
			}
			release()
			zktest.Must(t, zkconn.Exec(zktest.Within(t), held, zkconn.Delete("/c", -1)))
			zktest.Must(t, zkconn.Exec(zktest.Within(t), s, zkconn.Create("/e", nil, zkconn.OpenACL(), zkconn.CreateMode{Ephemeral: true})))
			err = zkconn.Exec(zktest.Within(t), s, zkconn.WhoAmI())
			const unsent = "does not send this request while the session has ephemeral znodes"
			if opt.Product != "" && (!errors.Is(err, zkconn.Unimplemented) || !strings.Contains(err.Error(), unsent)) {
				t.Errorf("with an ephemeral znode: %v", err)
			}
			zktest.Must(t, zkconn.Exec(zktest.Within(t), s, zkconn.Delete("/e", -1)))
			if err = zkconn.Exec(zktest.Within(t), s, zkconn.WhoAmI()); known && err != nil || !known && (!errors.Is(err, zkconn.Unimplemented) || strings.Contains(err.Error(), "while a lock")) {
				t.Errorf("after the lock: %v", err)
			}
		})
	}
}

// If a server ends sessions with their connections, one hang-up is enough to stop sending a
// request. It does not prove that the request had no effect: its znode may exist.
func TestLostContainerWhereSessionsEnd(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{Quirks: sandbox.Quirks{NewSessions: true}})
	proxy := zktest.NewProxy(t, box.Addr())
	s := zksession.Open(t, zkconn.Config{Servers: proxy.Addr(), Timeout: zktest.Patience})
	first := s.Info().ID
	proxy.Cut()
	zktest.Eventually(t, "another session", func() bool { i := s.Info(); return i.ID != first && i.ID != 0 && i.Addr != "" })
	cut := proxy.CutAfterRequest(jute.OpCreateContainer)
	trip := zkconn.NewTrip()
	err := creating("/c", zkconn.CreateMode{Container: true})(trip.Context(zktest.Within(t)), s)
	<-cut
	zktest.Eventually(t, "the znode is there", func() bool {
		err := zkconn.Exec(zktest.Within(t), s, zkconn.Exists("/c"))
		return err == nil
	})
	if trip.Outcome != (zkconn.Outcome{Unknown: 1}) || !errors.As(err, new(*zkconn.LostError)) || errors.Is(err, zkconn.Unimplemented) {
		t.Errorf("%+v, %v", trip.Outcome, err)
	}
}

// A lock below a missing parent does not need containers, so the client tries to create one only
// once.
func TestHangUpOnContainer(t *testing.T) {
	t.Parallel()
	s, asked := countingSandbox(t, jute.OpCreateContainer, 1000)
	for i := range 3 {
		p, err := s.Ensemble().Pin(zktest.Within(t))
		if err == nil {
			err = p.CreateContainer(zktest.Within(t), fmt.Sprintf("/c%d", i), zkconn.OpenACL())
		}
		zktest.Must(t, err)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
}

// If a server claims to support multiRead but closes the connection over it, the client reads znodes
// one by one over the same pipe.
func TestHangUpOnMultiRead(t *testing.T) {
	t.Parallel()
	s, asked := countingSandbox(t, jute.OpMultiRead, 1000)
	for range 2 {
		p, err := s.Pipe(zktest.Within(t), "/")
		zktest.Must(t, err)
		before := zkconn.Add(p, zkconn.GetChildren("/"))
		if p.HasMultiRead(zktest.Within(t)) {
			t.Error("it is said to know it")
		}
		for _, one := range []*zkconn.Pending[[]string]{before, zkconn.Add(p, zkconn.GetChildren("/"))} {
			if _, err := one.Wait(zktest.Within(t)); err != nil {
				t.Error(err)
			}
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
}

// On some servers, a failed part of a multiRead keeps its type and has its error in the header
// only.
func TestFailedPartsOfMultiRead(t *testing.T) {
	t.Parallel()
	for _, as := range append(sandbox.Products(), "") {
		box := zktest.Sandbox(t, sandbox.Options{Quirks: sandbox.Quirks{Product: as}})
		s := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: zktest.Patience})
		zktest.Must(t, zkconn.Exec(zktest.Within(t), s, zkconn.Create("/a", []byte("x"), zkconn.OpenACL(), zkconn.CreateMode{})))
		p, err := s.Pipe(zktest.Within(t), "/")
		zktest.Must(t, err)
		got, err := zkconn.Add(p, zkconn.MultiGetData([]string{"/none", "/a", "/none"})).Wait(zktest.Within(t))
		if err != nil || !errors.Is(got[0].Err, zkconn.NoNode) || string(got[1].Data) != "x" || !errors.Is(got[2].Err, zkconn.NoNode) {
			t.Errorf("%q: %v, %v", as, got, err)
		}
		lists, err := zkconn.Add(p, zkconn.MultiGetChildren([]string{"/none", "/a"})).Wait(zktest.Within(t))
		if err != nil || !errors.Is(lists[0].Err, zkconn.NoNode) || lists[1].Err != nil || len(lists[1].Names) != 0 {
			t.Errorf("%q: %v, %v", as, lists, err)
		}
	}
}

// A request that the server never answers delays the requests behind it only until its caller
// gives up.
func TestUnansweredTrial(t *testing.T) {
	t.Parallel()
	s := zksession.Open(t, zkconn.Config{Servers: zktest.Faulty(t, "ignore:107").Addr(), Timeout: zktest.Patience})
	ctx, cancel := context.WithCancel(t.Context())
	trip := zkconn.NewTrip()
	who := make(chan error, 1)
	go func() { // ends when ctx is cancelled
		err := zkconn.Exec(trip.Context(ctx), s, zkconn.WhoAmI())
		who <- err
	}()
	<-trip.Queued
	listed := make(chan error, 1)
	go func() { // ends when the answer arrives
		err := zkconn.Exec(zktest.Within(t), s, zkconn.List("/"))
		listed <- err
	}()
	cancel()
	zktest.Check(t, errors.Join(<-listed))
	if err := <-who; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Hang-ups are accidents, however many, if the request is answered in between.
func TestHangUpsNowAndThen(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	box := zktest.Sandbox(t, sandbox.Options{Quirks: sandbox.Quirks{React: func(op int32) sandbox.Reaction {
		if op == jute.OpWhoAmI && asked.Add(1)%2 == 1 {
			return sandbox.HangUp
		}
		return sandbox.Serve
	}}})
	s := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: zktest.Patience})
	for range 4 {
		zktest.Must(t, zkconn.Exec(zktest.Within(t), s, zkconn.WhoAmI()))
		begun := s.Info().Since
		box.Cut()
		zktest.Eventually(t, "the connection is another one", func() bool { return s.Info().Since.After(begun) })
	}
}

// The request that probes whether a server supports containers changes nothing.
func TestContainerProbeChangesNothing(t *testing.T) {
	t.Parallel()
	s := zksession.Open(t, zkconn.Config{Servers: zktest.Shared(t).Addr(), Timeout: zktest.Patience})
	for _, mode := range []zkconn.CreateMode{{Container: true}, {TTL: time.Second}} {
		if err := zkconn.Exec(zktest.Within(t), s.Absolute(), zkconn.Create("/", nil, zkconn.OpenACL(), mode)); !errors.Is(err, zkconn.NodeExists) {
			t.Errorf("%+v: %v", mode, err)
		}
	}
	zktest.Check(t, zkconn.Exec(zktest.Within(t), s, zkconn.Exists("/")))
}
