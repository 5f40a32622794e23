package lockcmd

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

// nobody is a port where no AdminServer is.
const nobody = "1"

func TestParseCons(t *testing.T) {
	a := parseCons(" /127.0.0.1:51234[1](queued=0,recved=9,sent=9,sid=0x1000012,lop=PING,est=1795188561000,to=4000,lcxid=0x1)\n" +
		" /0:0:0:0:0:0:0:1:51235[0](queued=0,recved=1,sent=0)\n" +
		" /0:0:0:0:0:0:0:1:51236[1](queued=0,recved=1,sent=0,sid=0xffff000000000001,lop=GETD)\n\n")
	want := []connection{{0x1000012, "127.0.0.1:51234", time.UnixMilli(1795188561000)}, {-0xffffffffffff, "0:0:0:0:0:0:0:1:51236", time.Time{}}}
	if a.err != nil || fmt.Sprint(a.conns) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", a, want)
	}
	if a := parseCons("\n"); a.err == nil {
		t.Error("an empty answer is a list")
	}
	if a := parseCons(strings.Repeat(" /h:1[1](queued=0,sid=0x1)\n", maxAnswer/20)); a.err == nil {
		t.Error("a list that was cut is whole")
	}
}

func TestConsOfEachServer(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newBed(t, addr)
		c := findClients(within(t), b.Session, nobody)
		if got := c.addrs[b.Info().ID]; !strings.HasPrefix(got, "127.0.0.1:") || !c.all || c.why != "" {
			t.Errorf("%q, %+v", got, c)
		}
		if c.skew.Abs() > 5*time.Second {
			t.Errorf("the clocks of one machine differ by %s", c.skew)
		}
	})
}

// A member that does not answer leaves it open where somebody is connected; one
// that is not there has nobody.
func TestOneServerOfTwo(t *testing.T) {
	addr := zktest.Shared(t).Addr()
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	s := open(t, addr+","+mute.Addr().String(), patience)
	c := findClients(within(t), s, nobody)
	if c.all || len(c.addrs) == 0 || !strings.HasPrefix(c.why, "1 of 2 servers told: no answer in time") {
		t.Errorf("%+v", c)
	}
	mute.Close()
	if c := findClients(within(t), s, nobody); !c.all {
		t.Errorf("%+v", c)
	}
}

// An ensemble with more members than the connect string names has not told all.
func TestMembersThatAreNotAsked(t *testing.T) {
	conn := connection{session: 1, addr: "h:1"}
	for told, c := range map[*clients]bool{
		gather([]answer{{conns: []connection{conn}}}, 1, zkconn.Info{}):                      true,
		gather([]answer{{conns: []connection{conn}}}, 3, zkconn.Info{}):                      false,
		gather([]answer{{conns: []connection{conn}}}, 0, zkconn.Info{}):                      false,
		gather([]answer{{}, {conns: []connection{conn}}, {}}, 3, zkconn.Info{}):              true,
		gather([]answer{{err: os.ErrClosed}, {conns: []connection{conn}}}, 1, zkconn.Info{}): false,
	} {
		if told.all != c || told.addrs[1] != "h:1" {
			t.Errorf("%+v, want %t", told, c)
		}
	}
}

// Each member of an ensemble has its own connections.
func TestEnsemble(t *testing.T) {
	first := zktest.Start(t, zktest.ReadOnlyEnsemble(), zktest.Heap(64))
	first.Peer().Restart()
	b := newBed(t, first.Addr())
	other := open(t, first.Peer().Addr(), patience)
	b.add(uuid + "-lock-0000000001")
	b.create(other, "/"+uuid+"-lock-0000000002", "", zkconn.OpenACL(), true)
	both := open(t, first.Addr()+","+first.Peer().Addr(), patience)
	if c := findClients(within(t), both, nobody); !c.all || c.addrs[b.Info().ID] == "" || c.addrs[other.Info().ID] == "" {
		t.Errorf("both asked: %+v", c)
	}
	q := b.queue()
	q.addClients(findClients(within(t), b.Session, nobody))
	if q.Contenders[0].Client == "" || q.Contenders[1].Client != "" || q.NoClients != "not all servers are known" {
		t.Errorf("one of them asked: %+v, %q", q.Contenders[1], q.NoClients)
	}
}

func TestServersClock(t *testing.T) {
	ahead := time.Now().Add(time.Hour)
	own := zkconn.Info{ID: 1, Since: time.Now().Add(-time.Minute)}
	c := gather([]answer{{conns: []connection{{session: 1, addr: "h:1", since: ahead.Add(-time.Minute)}}}}, 1, own)
	n := named(t, uuid+"-lock-0000000001")
	n.stat.Ctime = ahead.Add(-2 * time.Minute).UnixMilli()
	q := newQueue("/l", contents{nodes: []*node{n}})
	q.addClients(c)
	if got := q.Contenders[0].Age; !strings.HasPrefix(got, "2m") && !strings.HasPrefix(got, "1m5") {
		t.Errorf("age %s", got)
	}
}

func TestConsNotAllowed(t *testing.T) {
	b := newBed(t, zktest.Start(t, zktest.Words("srvr,ruok"), zktest.Heap(64)).Addr())
	b.add(uuid + "-lock-0000000001")
	q := b.queue()
	q.addClients(findClients(within(t), b.Session, nobody))
	c := q.Contenders[0]
	if q.NoClients != "cons not allowed" || c.Client != "" || c.Session != sessionText(b.Info().ID) || c.Age == "" {
		t.Errorf("%q %+v", q.NoClients, c)
	}
	if got := strings.Join(q.remarks(), ";"); got != "client addresses: cons not allowed" {
		t.Errorf("%q", got)
	}
}

// Where cons is not allowed the AdminServer is asked, here one that answers as
// ZooKeeper 3.8's does.
func TestAdminServer(t *testing.T) {
	b := newBed(t, zktest.Start(t, zktest.Words("srvr,ruok"), zktest.Heap(64)).Addr())
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/commands/connections" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, `{"connections":[{"remote_socket_address":"127.0.0.1:51234","interest_ops":1,"outstanding_requests":0,`+
			`"session_id":%d,"last_operation":"PING"}],"secure_connections":[],"command":"connections","error":null}`, b.Info().ID)
	}))
	defer web.Close()
	_, port, err := net.SplitHostPort(web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := findClients(within(t), b.Session, port)
	if got := c.addrs[b.Info().ID]; got != "127.0.0.1:51234" || !c.all || c.why != "" {
		t.Errorf("%q, %+v", got, c)
	}
}

func TestAdminServerThatIsNone(t *testing.T) {
	for _, body := range []string{"", "{}", "hello", `{"connections":7}`} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))
		if conns, err := askAdmin(within(t), web.URL); err == nil {
			t.Errorf("%q: %v", body, conns)
		}
		web.Close()
	}
	web := httptest.NewServer(http.RedirectHandler("/elsewhere", http.StatusFound))
	defer web.Close()
	if _, err := askAdmin(within(t), web.URL); err == nil {
		t.Error("it followed a redirection")
	}
}

// A holder whose client is cut off is marked as long as its session lasts.
func TestNoConnection(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newBed(t, addr)
		proxy := zktest.NewProxy(t, addr)
		holder := open(t, proxy.Addr(), patience)
		b.create(holder, "/"+uuid+"-lock-0000000001", "", zkconn.OpenACL(), true)
		b.add(uuid + "-lock-0000000002")
		full := func() *queue {
			q, err := fullQueue(within(t), b.Session, b.root)
			if err != nil || len(q.Contenders) != 2 {
				t.Fatal(q, err)
			}
			return q
		}
		if q := full(); !strings.HasPrefix(q.Contenders[0].Client, "127.0.0.1:") {
			t.Errorf("%+v", q.Contenders[0])
		}
		proxy.Refuse(true)
		proxy.Cut()
		eventually(t, "the mark", func() bool { return full().Contenders[0].Client == noConnection })
		proxy.Refuse(false)
		eventually(t, "the connection", func() bool { return full().Contenders[0].Client != noConnection })
	})
}
