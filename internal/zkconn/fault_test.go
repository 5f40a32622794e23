package zkconn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zktest/zksession"

	"go.uber.org/goleak"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

// A faultySession is a session through a proxy, with an observer: a second session that connects
// directly and sees the true state.
type faultySession struct {
	*zkconn.Session
	t        *testing.T
	proxy    *zktest.Proxy
	observer *zkconn.Session
	root     string
	pending  []zkconn.Event // events taken from the session that event has not returned yet
}

func openFaulty(t *testing.T, timeout time.Duration) *faultySession {
	t.Helper()
	server := zktest.Shared(t).Addr()
	f := &faultySession{t: t, proxy: zktest.NewProxy(t, server), root: fmt.Sprintf("/%s-%d", t.Name(), time.Now().UnixNano())}
	f.observer = zksession.Open(t, zkconn.Config{Servers: server, Timeout: zktest.Patience})
	zktest.Must(t, zkconn.Exec(zktest.Within(t), f.observer, zkconn.Create(f.root, nil, zkconn.OpenACL(), zkconn.CreateMode{})))
	f.Session = zksession.Open(t, zkconn.Config{Servers: f.proxy.Addr(), Timeout: timeout})
	return f
}

func (f *faultySession) create(s *zkconn.Session, name string, mode zkconn.CreateMode) error {
	err := zkconn.Exec(zktest.Within(f.t), s, zkconn.Create(f.root+name, nil, zkconn.OpenACL(), mode))
	return err
}

func (f *faultySession) must(err error) {
	f.t.Helper()
	zktest.Must(f.t, err)
}

// event waits for an event and returns it. It is named by its type and its path below the root,
// or by the state of the session.
func (f *faultySession) event(want string) zkconn.Event {
	f.t.Helper()
	for end := time.After(zktest.Patience); ; {
		f.pending = append(f.pending, f.Events()...)
		for i, e := range f.pending {
			if f.name(e) == want {
				f.pending = slices.Delete(f.pending, i, i+1)
				return e
			}
		}
		select {
		case <-f.EventsReady():
		case <-end:
			f.t.Fatalf("no event %q; there were %v", want, f.pending)
		}
	}
}

func (f *faultySession) name(e zkconn.Event) string {
	if e.Session() {
		return string(e.State)
	}
	return string(e.Type) + " " + strings.TrimPrefix(e.Path, f.root)
}

// noNodeEvents checks that only session events are left. A round trip ensures that events sent
// before have arrived.
func (f *faultySession) noNodeEvents() {
	f.t.Helper()
	f.must(zkconn.Exec(zktest.Within(f.t), f, zkconn.Sync(f.root)))
	for _, e := range append(f.pending, f.Events()...) {
		if !e.Session() {
			f.t.Errorf("unexpected event %s", f.name(e))
		}
	}
	f.pending = nil
}

// cut closes the connection, calls meanwhile, and waits for the next connection.
func (f *faultySession) cut(meanwhile func()) {
	f.t.Helper()
	f.proxy.Refuse(true)
	f.proxy.Cut()
	f.event("Disconnected")
	meanwhile()
	f.proxy.Refuse(false)
	f.must(f.WaitReady(zktest.Within(f.t)))
	f.event("SyncConnected")
}

// expire disconnects the session and waits until the server has expired it.
func (f *faultySession) expire() {
	f.t.Helper()
	f.must(f.create(f.Session, "/canary", zkconn.CreateMode{Ephemeral: true}))
	f.proxy.Refuse(true)
	f.proxy.Cut()
	f.event("Disconnected")
	zktest.Eventually(f.t, "the session expires", func() bool {
		err := zkconn.Exec(zktest.Within(f.t), f.observer, zkconn.Exists(f.root+"/canary"))
		return errors.Is(err, zkconn.NoNode)
	})
}

func TestWriteCutAfterSending(t *testing.T) {
	t.Parallel()
	f := openFaulty(t, zktest.Patience)
	cut := f.proxy.CutAfterRequest(jute.OpCreate)
	err := f.create(f.Session, "/a", zkconn.CreateMode{})
	<-cut
	var lost *zkconn.LostError
	if !errors.As(err, &lost) || !errors.Is(err, zkconn.ConnectionLoss) || !strings.Contains(err.Error(), "unknown whether it took effect") {
		t.Errorf("got %T %v", err, err)
	}
	if !strings.Contains(err.Error(), f.root+"/a") {
		t.Errorf("no path in %q", err)
	}
	// The write took effect once, and the next request works in the same session.
	f.must(f.create(f.Session, "/a/child", zkconn.CreateMode{}))
	st, err := zkconn.Do(zktest.Within(t), f.observer, zkconn.Exists(f.root))
	f.must(err)
	if st.Cversion != 1 {
		t.Errorf("%d changes, want 1", st.Cversion)
	}
}

func TestReadCutAfterSending(t *testing.T) {
	t.Parallel()
	f := openFaulty(t, zktest.Patience)
	cut := f.proxy.CutAfterRequest(jute.OpGetData)
	err := zkconn.Exec(zktest.Within(t), f, zkconn.GetData(f.root))
	<-cut
	if !errors.As(err, new(*zkconn.LostError)) || !errors.Is(err, zkconn.ConnectionLoss) || strings.Contains(err.Error(), "unknown") {
		t.Errorf("got %T %v", err, err)
	}
}

func TestWriteNotSent(t *testing.T) {
	t.Parallel()
	f := openFaulty(t, zktest.Patience)
	f.proxy.Refuse(true)
	f.proxy.Cut()
	f.event("Disconnected")
	err := f.create(f.Session, "/a", zkconn.CreateMode{})
	var none *zkconn.NoServerError
	if !errors.As(err, &none) || !errors.Is(err, zkconn.ConnectionLoss) {
		t.Fatalf("got %T %v", err, err)
	}
	if !strings.Contains(err.Error(), f.proxy.Addr()+": connection refused") || strings.Contains(err.Error(), "unknown") {
		t.Errorf("the message is %q", err)
	}
	f.proxy.Refuse(false)
	f.must(f.WaitReady(zktest.Within(t)))
	if err := zkconn.Exec(zktest.Within(t), f.observer, zkconn.Exists(f.root+"/a")); !errors.Is(err, zkconn.NoNode) {
		t.Errorf("it was sent: %v", err)
	}
}

// If a write is abandoned while its answer is outstanding, its outcome is reported as unknown.
func TestAbandonedWrite(t *testing.T) {
	t.Parallel()
	f := openFaulty(t, zktest.Patience)
	f.proxy.HoldReplies(true)
	ctx, cancel := context.WithCancel(zktest.Within(t))
	got := make(chan error)
	go func() { // ends when Create returns
		err := zkconn.Exec(ctx, f, zkconn.Create(f.root+"/a", nil, zkconn.OpenACL(), zkconn.CreateMode{}))
		got <- err
	}()
	zktest.Eventually(t, "the create is sent", func() bool { return slices.Contains(f.proxy.Requests(), jute.OpCreate) })
	cancel()
	err := <-got
	f.proxy.HoldReplies(false)
	if !errors.As(err, new(*zkconn.AbandonedError)) || !strings.Contains(err.Error(), "unknown whether the change took effect") {
		t.Errorf("got %v", err)
	}
}

func TestWaitingRequestDiesWithItsSession(t *testing.T) {
	t.Parallel()
	f := openFaulty(t, 6*time.Second)
	f.expire()
	// While connections hang, nothing makes a request give up.
	f.proxy.Hold(true)
	f.proxy.Refuse(false)
	got := make(chan error, 1)
	go func() { got <- f.create(f.Session, "/queued", zkconn.CreateMode{}) }()
	select {
	case err := <-got:
		if !errors.As(err, new(*zkconn.NoServerError)) { // a pass over the servers had just failed
			t.Fatalf("got %v before there was a connection", err)
		}
		go func() { got <- f.create(f.Session, "/queued", zkconn.CreateMode{}) }()
	case <-time.After(300 * time.Millisecond):
	}
	f.proxy.Hold(false)
	if err := <-got; !errors.Is(err, zkconn.SessionExpired) {
		t.Errorf("got %v, want SessionExpired", err)
	}
	if e := f.event("Expired"); !slices.Equal(e.Gone, []string{f.root + "/canary"}) {
		t.Errorf("gone: %q", e.Gone)
	}
	f.must(f.WaitReady(zktest.Within(t)))
	if err := zkconn.Exec(zktest.Within(t), f.observer, zkconn.Exists(f.root+"/queued")); !errors.Is(err, zkconn.NoNode) {
		t.Errorf("the request ran in the new session: %v", err)
	}
	f.must(f.create(f.Session, "/queued", zkconn.CreateMode{}))
}

// A request made after the expiry was reported belongs to the new session.
func TestRequestAfterExpiry(t *testing.T) {
	t.Parallel()
	f := openFaulty(t, 6*time.Second)
	f.expire()
	f.proxy.Delay(100 * time.Millisecond) // makes a while without a session
	f.proxy.Refuse(false)
	f.event("Expired")
	if err := f.create(f.Session, "/after", zkconn.CreateMode{}); err != nil {
		t.Errorf("the first request after the expiry: %v", err)
	}
}

func TestEphemeralsKnownGone(t *testing.T) {
	t.Parallel()
	f := openFaulty(t, 6*time.Second)
	f.must(f.create(f.Session, "/stays", zkconn.CreateMode{}))
	f.must(f.create(f.Session, "/b", zkconn.CreateMode{Ephemeral: true}))
	f.must(f.create(f.Session, "/a-", zkconn.CreateMode{Ephemeral: true, Sequential: true}))
	f.must(f.create(f.Session, "/deleted", zkconn.CreateMode{Ephemeral: true}))
	f.must(zkconn.Exec(zktest.Within(t), f, zkconn.Delete(f.root+"/deleted", -1)))
	f.expire()
	f.proxy.Refuse(false)
	e := f.event("Expired")
	if want := []string{f.root + "/a-0000000002", f.root + "/b", f.root + "/canary"}; !slices.Equal(e.Gone, want) {
		t.Errorf("gone: %q, want %q", e.Gone, want)
	}
	f.must(f.WaitReady(zktest.Within(t)))
}

func TestConnectAndCloseLeakNothing(t *testing.T) {
	const timeout = 6 * time.Second
	server := zktest.Shared(t).Addr()
	silent, refused := zktest.Silent(t), zktest.Refused(t)
	ignore := goleak.IgnoreCurrent()
	for _, servers := range []string{server, refused, silent, refused + "," + server} {
		s, err := zkconn.Open(zkconn.Config{Servers: servers, Timeout: timeout})
		zktest.Must(t, err)
		ready := s.Ready(zktest.Within(t))
		if want := strings.Contains(servers, server); (ready == nil) != want {
			t.Errorf("%s: %v", servers, ready)
		}
		begin := time.Now()
		if err := s.Close(zktest.Within(t)); err != nil {
			t.Errorf("%s: close: %v", servers, err)
		}
		if took := time.Since(begin); took > timeout {
			t.Errorf("%s: close took %s", servers, took)
		}
		if err := zkconn.Exec(zktest.Within(t), s, zkconn.GetData("/")); !errors.Is(err, zkconn.ErrNotConnected) || s.State() != zkconn.StateClosed {
			t.Errorf("%s: after close: %v, %s", servers, err, s.State())
		}
	}
	s := zksession.Open(t, zkconn.Config{Servers: server, Timeout: timeout})
	for range 3 {
		zktest.Check(t, s.Connect(zktest.Within(t), ""))
		zktest.Check(t, s.WaitReady(zktest.Within(t)))
	}
	zktest.Check(t, s.Close(zktest.Within(t)))
	// The library allows its Close a second, which may begin late.
	zktest.Eventually(t, "nothing goes on behind a close", func() bool { return goleak.Find(ignore) == nil })
}
