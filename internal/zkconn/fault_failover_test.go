package zkconn_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

// When one of two servers falls silent, the guarded session moves to the other with all its
// state, long before the library would notice. Then it moves back.
func TestFailoverInAnEnsemble(t *testing.T) {
	t.Parallel()
	servers := zktest.Ensemble(t, 3)
	list, proxies := twoProxies(t, servers)
	s := zksession.Open(t, zkconn.Config{Servers: list, Timeout: 30 * time.Second})
	observer := zksession.Open(t, zkconn.Config{Servers: servers[2].Addr(), Timeout: zktest.Patience})
	p, err := s.Ensemble().Pin(zktest.Within(t))
	zktest.Must(t, err)
	mode := zkconn.CreateMode{Ephemeral: true}
	zktest.Must(t, zkconn.Exec(zktest.Within(t), s, zkconn.Create("/mine", nil, zkconn.OpenACL(), mode)))
	for turn := range 4 {
		silent := s.Info().Addr
		wake := make(chan zk.EventType, 1)
		if _, _, err := p.Get(zktest.Within(t), "/mine", wake); err != nil {
			t.Fatal(err)
		}
		release := p.Guard()
		changed, begin := p.Changed(), time.Now()
		proxies[silent].Hold(true)
		err := zkconn.Exec(zktest.Within(t), p, zkconn.Delete("/mine/none", -1)) // lost with the silent server
		<-changed
		if !errors.As(err, new(*zkconn.LostError)) {
			t.Errorf("what was asked of the silent server: %v", err)
		}
		zktest.Must(t, p.Sync(zktest.Within(t), "/"))
		release()
		took := time.Since(begin)
		t.Logf("moved in %s", took)
		if took > p.State(time.Now()).Timeout/2 {
			t.Errorf("moved after %s", took)
		}
		if i := s.Info(); i.Addr == silent || i.ID != p.ID() {
			t.Errorf("session %#x is at %s; it was %#x at %s", i.ID, i.Addr, p.ID(), silent)
		}
		if st, err := zkconn.Do(zktest.Within(t), observer, zkconn.Exists("/mine")); err != nil || st.EphemeralOwner != p.ID() {
			t.Errorf("the ephemeral znode: %v, %v", st, err)
		}
		zktest.Check(t, zkconn.Exec(zktest.Within(t), observer, zkconn.SetData("/mine", fmt.Append(nil, turn), -1)))
		select {
		case <-wake:
		case <-time.After(zktest.Patience):
			t.Error("the watch did not move along")
		}
		proxies[silent].Hold(false)
	}
	select {
	case <-p.Ended():
		t.Error("the session ended")
	default:
	}
}

// twoProxies starts a proxy in front of each of the first two servers. It returns their connect
// string and the proxies by address.
func twoProxies(t *testing.T, servers []*zktest.Server) (list string, proxies map[string]*zktest.Proxy) {
	proxies = map[string]*zktest.Proxy{}
	for _, s := range servers[:2] {
		p := zktest.NewProxy(t, s.Addr())
		proxies[p.Addr()] = p
		list += "," + p.Addr()
	}
	return list[1:], proxies
}

// With a single server, the session keeps its connection through a longer pause: leaving would
// fail the requests in flight, and the session has time.
func TestFailoverNotToTheOnlyServer(t *testing.T) {
	t.Parallel()
	proxy := zktest.NewProxy(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	s := zksession.Open(t, zkconn.Config{Servers: proxy.Addr(), Timeout: time.Minute})
	p, err := s.Ensemble().Pin(zktest.Within(t))
	zktest.Must(t, err)
	defer p.Guard()()
	changed := p.Changed()
	proxy.Hold(true)
	time.AfterFunc(1200*time.Millisecond, func() { proxy.Hold(false) })
	if err := p.Sync(zktest.Within(t), "/"); err != nil {
		t.Errorf("asked in a pause: %v", err)
	}
	select {
	case <-changed:
		t.Error("the connection was left")
	default:
	}
}
