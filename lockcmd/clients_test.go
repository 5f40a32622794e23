package lockcmd

import (
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/queue"
)

// A queue shows the addresses of those clients that are connected to a server zksh knows.
func TestEnsemble(t *testing.T) {
	first := zktest.Start(t, zktest.ReadOnlyEnsemble(), zktest.Heap(64))
	first.Peer().Restart()
	b := newFixture(t, first.Addr())
	other := open(t, first.Peer().Addr(), usualTimeout)
	b.addContenders(uuid + "-lock-0000000001")
	b.create(other, "/"+uuid+"-lock-0000000002", "", zkconn.OpenACL(), true)
	// A server may lag behind the other one, and a busy server may answer late.
	zktest.Eventually(t, "one of them asked", func() bool {
		q := b.queue()
		return len(q.Contenders) == 2 && q.Contenders[0].Client != "" && q.Contenders[1].Client == "" &&
			q.NoClients == "zksh does not know all servers of the ensemble"
	})
	both := *b
	both.Session = open(t, first.Addr()+","+first.Peer().Addr(), usualTimeout)
	zktest.Eventually(t, "both asked", func() bool {
		all := both.queue().Contenders
		return len(all) == 2 && strings.HasPrefix(all[0].Client, "127.0.0.1:") && strings.HasPrefix(all[1].Client, "127.0.0.1:")
	})
}

const consRefused = "the four-letter command cons is not allowed; add it to 4lw.commands.whitelist on the servers"

func TestConsNotAllowed(t *testing.T) {
	b := newFixture(t, zktest.Start(t, zktest.Words("srvr,ruok"), zktest.Heap(64)).Addr())
	b.addContenders(uuid + "-lock-0000000001")
	var q *queue.Queue
	zktest.Eventually(t, "cons is answered", func() bool { q = b.queue(); return q.NoClients == consRefused })
	c := q.Contenders[0]
	if c.Client != "" || c.Session != render.Hex(b.Info().ID) || c.Age == "" {
		t.Errorf("%q %+v", q.NoClients, c)
	}
	if got := strings.Join(q.Remarks(), ";"); got != "client addresses: "+consRefused {
		t.Errorf("%q", got)
	}
}

// A holder without a connection is marked while its session lasts.
func TestNoConnection(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newFixture(t, addr)
		proxy := zktest.NewProxy(t, addr)
		holder := open(t, proxy.Addr(), usualTimeout)
		b.create(holder, "/"+uuid+"-lock-0000000001", "", zkconn.OpenACL(), true)
		b.addContenders(uuid + "-lock-0000000002")
		client := func() string { return b.queue().Contenders[0].Client }
		zktest.Eventually(t, "the address", func() bool { return strings.HasPrefix(client(), "127.0.0.1:") })
		proxy.Refuse(true)
		proxy.Cut()
		zktest.Eventually(t, "the mark", func() bool { return client() == "no connection" })
		proxy.Refuse(false)
		zktest.Eventually(t, "the connection", func() bool { return strings.HasPrefix(client(), "127.0.0.1:") })
	})
}
