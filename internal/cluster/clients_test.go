package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

func TestParseCons(t *testing.T) {
	a := parseCons(" /127.0.0.1:51234[1](queued=0,recved=9,sent=9,sid=0x1000012,lop=PING,est=1795188561000,to=4000,lcxid=0x1)\n" +
		" /0:0:0:0:0:0:0:1:51235[0](queued=0,recved=1,sent=0)\n" +
		" /0:0:0:0:0:0:0:1:51236[1](queued=0,recved=1,sent=0,sid=0xffff000000000001,lop=GETD)\n\n")
	want := []connection{
		{session: 0x1000012, addr: "127.0.0.1:51234", since: time.UnixMilli(1795188561000), timeout: 4 * time.Second},
		{session: -0xffffffffffff, addr: "0:0:0:0:0:0:0:1:51236"},
	}
	if a.err != nil || fmt.Sprint(a.conns) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", a, want)
	}
	if a := parseCons("\n"); a.err == nil {
		t.Error("an empty answer is a list")
	}
}

// If a member does not answer, the list of clients is incomplete. If no server is running there, it
// is complete.
func TestOneServerOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{hosts: []string{"a:1", "b:1"}}
		refuse := false
		f.word = func(ctx context.Context, addr, _ string) (string, error) {
			switch {
			case addr == "a:1":
				return " /h:1[1](queued=0,sid=0x1)\n", nil
			case refuse:
				return "", syscall.ECONNREFUSED
			}
			<-ctx.Done()
			return "", ctx.Err()
		}
		if c := FindClients(t.Context(), f); c.All || len(c.Addrs) == 0 || c.Why != "1 of 2 servers did not report them: the server did not answer the four-letter command cons in time" {
			t.Errorf("%+v", c)
		}
		refuse = true
		if c := FindClients(t.Context(), f); !c.All || c.Why != "" {
			t.Errorf("%+v", c)
		}
	})
}

// The list of clients is incomplete if the ensemble has more members than the connect string.
func TestMembersThatAreNotAsked(t *testing.T) {
	conn := connection{session: 1, addr: "h:1"}
	for got, c := range map[*Clients]bool{
		gather([]answer{{conns: []connection{conn}}}, 1, connection{}):                      true,
		gather([]answer{{conns: []connection{conn}}}, 3, connection{}):                      false,
		gather([]answer{{conns: []connection{conn}}}, 0, connection{}):                      false,
		gather([]answer{{}, {conns: []connection{conn}}, {}}, 3, connection{}):              true,
		gather([]answer{{err: os.ErrClosed}, {conns: []connection{conn}}}, 1, connection{}): false,
	} {
		if got.All != c || got.Addrs[1] != "h:1" {
			t.Errorf("%+v, want %t", got, c)
		}
	}
}

// A session that has moved has the address of its latest connection, whichever server answers first.
func TestMovedSession(t *testing.T) {
	at := time.Unix(1795188561, 0)
	was := answer{conns: []connection{{session: 1, addr: "h:1", since: at}}}
	is := answer{conns: []connection{{session: 1, addr: "h:2", since: at.Add(time.Second)}}}
	for _, answers := range [][]answer{{was, is}, {is, was}} {
		if c := gather(answers, 2, connection{}); c.Addrs[1] != "h:2" {
			t.Errorf("%q", c.Addrs[1])
		}
	}
}

// The clock skew is computed from our own connection.
func TestServersClock(t *testing.T) {
	asked := time.Now().Add(-time.Minute)
	c := gather([]answer{{conns: []connection{{session: 1, addr: "h:1", since: asked.Add(time.Hour)}}}}, 1, connection{session: 1, since: asked})
	if c.Skew != time.Hour {
		t.Errorf("the clock is %s ahead", c.Skew)
	}
}

// If cons is not allowed, the AdminServer is asked; here, one that answers as in ZooKeeper 3.8.
func TestAdminServer(t *testing.T) {
	f := &fake{hosts: []string{"127.0.0.1:2181"}}
	f.word = func(context.Context, string, string) (string, error) {
		return "cons is not executed because it is not in the whitelist.\n", nil
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/commands/connections" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, `{"connections":[{"remote_socket_address":"127.0.0.1:51234","interest_ops":1,"outstanding_requests":0,`+
			`"session_id":72058044361605123,"last_operation":"PING"}],"secure_connections":[],"command":"connections","error":null}`)
	}))
	_, port, err := net.SplitHostPort(web.Listener.Addr().String())
	zktest.Must(t, err)
	var c *Clients
	zktest.Eventually(t, "it answers", func() bool { // retried, because findClients waits only one second
		c = findClients(t.Context(), f, port)
		return c.Why == ""
	})
	if c.Addrs[72058044361605123] != "127.0.0.1:51234" || !c.All {
		t.Errorf("%+v", c)
	}
	web.Close()
	if c := findClients(t.Context(), f, port); c.All || c.Why != notListed("cons").Error() {
		t.Errorf("without one: %+v", c)
	}
}

func TestAdminServerThatIsNone(t *testing.T) {
	for _, body := range []string{"", "{}", "hello", `{"connections":7}`} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))
		if conns, err := askAdmin(t.Context(), new(net.Dialer).DialContext, web.Listener.Addr().String()); err == nil {
			t.Errorf("%q: %v", body, conns)
		}
		web.Close()
	}
	web := httptest.NewServer(http.RedirectHandler("/elsewhere", http.StatusFound))
	defer web.Close()
	if _, err := askAdmin(t.Context(), new(net.Dialer).DialContext, web.Listener.Addr().String()); err == nil {
		t.Error("it followed a redirection")
	}
}
