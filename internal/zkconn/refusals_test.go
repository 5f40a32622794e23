package zkconn

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// An Unimplemented behind which the connection stays costs a ping, and what was held
// back goes on with it.
func TestDoubtThatAPingClears(t *testing.T) {
	var ops []int32
	serve := func(_ int, p *remote) {
		p.greeted()
		for {
			xid, op, ok := p.request()
			if !ok {
				return
			}
			ops = append(ops, op)
			code := codeOK
			if op == jute.OpCreateTTL {
				code = Unimplemented
			}
			p.reply(xid, code)
		}
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		err := Exec(limited(t), s, Create("/t", nil, OpenACL(), CreateMode{TTL: life}))
		if want := "KeeperErrorCode = Unimplemented for /t (create -t needs ZooKeeper 3.5.3 or later, with extendedTypesEnabled=true)"; err == nil || err.Error() != want {
			t.Errorf("%v", err)
		}
		if err := Exec(limited(t), s, SetData("/x", nil, -1)); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if want := []int32{jute.OpCreateTTL, jute.OpPing, jute.OpSetData}; !slices.Equal(ops, want) {
			t.Errorf("requests %v, want %v", ops, want)
		}
	})
}

// While a server hangs up, what comes waits for the next connection, and nothing of it
// is sent into the old one.
func TestDoubtThatAHangUpEnds(t *testing.T) {
	sets := 0
	serve := func(n int, p *remote) {
		p.host(func(xid, op int32) bool {
			switch {
			case op == jute.OpWhoAmI:
				p.reply(xid, Unimplemented)
				_, op, ok := p.request() // the ping
				if ok && op != jute.OpPing {
					t.Errorf("opcode %d behind the refusal", op)
				}
				return false
			case op == jute.OpSetData:
				sets += n
			}
			return p.reply(xid, codeOK)
		})
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		if err := Exec(limited(t), s, WhoAmI()); !errors.Is(err, Unimplemented) || !strings.Contains(err.Error(), "whoami needs ZooKeeper 3.7") {
			t.Errorf("%v", err)
		}
		if err := Exec(limited(t), s, SetData("/x", nil, -1)); err != nil || sets != 1 {
			t.Errorf("%v; %d on the second connection", err, sets)
		}
	})
}

// What waits behind a refusal for want of credentials is refused with it: a server reads
// nothing more on such a connection.
func TestBarred(t *testing.T) {
	serve := func(_ int, p *remote) {
		p.greeted()
		xid, _, _ := p.request()
		p.request()
		p.reply(xid, sessionNoAuth)
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		p, err := s.Pipe(limited(t), "/")
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range []*Pending[Written]{Add(p, Create("/a", nil, OpenACL(), CreateMode{})), Add(p, Create("/b", nil, OpenACL(), CreateMode{}))} {
			if _, err := a.Wait(limited(t)); !errors.Is(err, sessionNoAuth) {
				t.Errorf("%v", err)
			}
		}
	})
}

// answersOne is a server that answers one request, after a second, and hangs up. Its
// other connections stay.
func answersOne(code Code) func(n int, p *remote) {
	return func(n int, p *remote) {
		if n > 0 {
			p.host(func(xid, _ int32) bool { return p.reply(xid, codeOK) })
			return
		}
		p.greeted()
		xid, _, _ := p.request()
		time.Sleep(time.Second)
		p.reply(xid, code)
	}
}

// Nor is what has not been sent by then told anything else, but for a credential and what
// stands behind it.
func TestBarredBeforeItIsSent(t *testing.T) {
	bubble(t, answersOne(sessionNoAuth), func(t *testing.T, s *Session) {
		p, err := s.Pipe(limited(t), "/")
		if err != nil {
			t.Fatal(err)
		}
		answered := func(w *Pending[Written]) error { _, err := w.Wait(limited(t)); return err }
		asked := func(path string) *Pending[Written] { return Add(p, Create(path, nil, OpenACL(), CreateMode{})) }
		first := asked("/a")
		synctest.Wait()
		second := asked("/b") // its write has begun, and does not end
		synctest.Wait()
		third := asked("/c")
		credential := Add(p, addAuth(Credential{"digest", []byte("u:p")}))
		behind := asked("/d")
		time.Sleep(2 * time.Second)
		for path, w := range map[string]*Pending[Written]{"/a": first, "/b": second, "/c": third, "/e": asked("/e")} {
			if err := answered(w); !errors.Is(err, sessionNoAuth) || !strings.HasSuffix(err.Error(), "for "+path) {
				t.Errorf("%s: %v", path, err)
			}
		}
		_, err = credential.Wait(limited(t))
		for _, err := range []error{err, answered(behind)} {
			if !errors.As(err, new(*UnsentError)) || !errors.Is(err, ConnectionLoss) {
				t.Errorf("%v", err)
			}
		}
	})
}

// What a server said before it hung up is heard, although nothing can be written any more.
func TestAnswersBeforeTheHangUp(t *testing.T) {
	var client *pipeEnd
	cfg := Config{Servers: "127.0.0.1:1", tap: func(c net.Conn) net.Conn { client = c.(*pipeEnd); return c }}
	bubbleWith(t, cfg, answersOne(codeOK), func(t *testing.T, s *Session) {
		p, err := s.Pipe(limited(t), "/")
		if err != nil {
			t.Fatal(err)
		}
		first := Add(p, Create("/a", nil, OpenACL(), CreateMode{}))
		synctest.Wait()
		client.cut.Store(true)
		second := Add(p, Create("/b", nil, OpenACL(), CreateMode{})) // whose write fails
		synctest.Wait()
		third := Add(p, Create("/c", nil, OpenACL(), CreateMode{}))
		if _, err := first.Wait(limited(t)); err != nil {
			t.Error(err)
		}
		if _, err := second.Wait(limited(t)); !errors.As(err, new(*LostError)) {
			t.Error(err)
		}
		if _, err := third.Wait(limited(t)); !errors.As(err, new(*UnsentError)) {
			t.Error(err)
		}
	})
}

// A server may want credentials of pings too: it is left at the first that it refuses,
// whether it hangs up or not.
func TestRefusedPing(t *testing.T) {
	serve := func(n int, p *remote) {
		if n > 0 {
			p.host(func(xid, _ int32) bool { return p.reply(xid, codeOK) })
			return
		}
		p.greeted()
		for {
			xid, _, ok := p.request()
			if !ok {
				return
			}
			p.reply(xid, sessionNoAuth)
		}
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		if err := s.Ready(limited(t)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(life)
		if err := Exec(limited(t), s, SetData("/x", nil, -1)); err != nil {
			t.Error(err)
		}
	})
}

// settingAgain is a server that closes the first connection when drop is closed, and answers
// each setWatches2 with set.
func settingAgain(drop <-chan struct{}, set func(p *remote, xid int32) bool) func(n int, p *remote) {
	return func(n int, p *remote) {
		if n == 0 {
			go func() { // ends with the test
				<-drop
				p.Close()
			}()
		}
		p.host(func(xid, op int32) bool {
			if op == jute.OpSetWatches2 {
				return set(p, xid)
			}
			return p.reply(xid, codeOK)
		})
	}
}

// A server that answers no setWatches2 would hang up again and again: the persistent
// watches are given up, and their user told.
func TestPersistentWatchesGivenUp(t *testing.T) {
	asked := 0
	drop := make(chan struct{})
	serve := settingAgain(drop, func(p *remote, xid int32) bool {
		asked++
		p.reply(xid, Unimplemented)
		return false
	})
	bubble(t, serve, func(t *testing.T, s *Session) {
		if err := Exec(limited(t), s, AddWatch("/w", true)); err != nil {
			t.Fatal(err)
		}
		close(drop)
		synctest.Wait()
		var told int
		for told == 0 {
			<-s.EventsReady()
			for _, e := range s.Events() {
				if e.Type == eventPersistentWatchRemoved && e.Path == "/w" {
					told++
				}
			}
		}
		if err := Exec(limited(t), s, Sync("/")); err != nil || asked != 1 || told != 1 {
			t.Errorf("%v; asked %d times, told %d times", err, asked, told)
		}
	})
}

func TestServersByDNS(t *testing.T) {
	if _, err := ParseServers("dns-srv://zk.example.org/app"); err == nil || !strings.Contains(err.Error(), "DNS SRV records are not supported") {
		t.Error(err)
	}
}

func TestNamesOfCodes(t *testing.T) {
	for code, want := range map[Code]string{-12: "UnknownSession", -113: "InvalidCallback", -122: "RequestTimeout"} {
		if got := code.Error(); got != "KeeperErrorCode = "+want {
			t.Errorf("%d: %s", code, got)
		}
	}
}

// Connections that happen to end while persistent watches are set again do not prove that
// the servers do not know the request: they have granted the watches.
func TestPersistentWatchesOutliveAccidents(t *testing.T) {
	for _, c := range []struct {
		hangUps, asked int
		removed        bool
	}{{1, 2, false}, {3, 4, false}, {100, 4, true}} {
		t.Run(fmt.Sprint(c.hangUps), func(t *testing.T) {
			asked := 0
			drop := make(chan struct{})
			serve := settingAgain(drop, func(p *remote, xid int32) bool {
				if asked++; asked <= c.hangUps {
					p.Close()
					return false
				}
				return p.reply(xid, codeOK)
			})
			bubble(t, serve, func(t *testing.T, s *Session) {
				if err := Exec(limited(t), s, AddWatch("/w", true)); err != nil {
					t.Fatal(err)
				}
				close(drop)
				time.Sleep(20 * time.Second)
				removed := false
				for _, e := range s.Events() {
					removed = removed || e.Type == eventPersistentWatchRemoved && e.Path == "/w"
				}
				if err := Exec(limited(t), s, Sync("/")); err != nil || asked != c.asked || removed != c.removed {
					t.Errorf("%v; setWatches2 was sent %d times, not %d; removed: %v", err, asked, c.asked, removed)
				}
			})
		})
	}
}
