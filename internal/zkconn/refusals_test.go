package zkconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zktest"
)

// After an Unimplemented answer, the client sends a ping and holds back other requests until the
// ping shows that the connection stays open.
func TestPingConfirmsConnection(t *testing.T) {
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
		err := Exec(testContext(t), s, Create("/t", nil, OpenACL(), CreateMode{TTL: sessionTimeout}))
		if want := "KeeperErrorCode = Unimplemented for /t (create -t needs ZooKeeper 3.5.3 or later, with extendedTypesEnabled=true)"; err == nil || err.Error() != want {
			t.Errorf("%v", err)
		}
		zktest.Check(t, Exec(testContext(t), s, SetData("/x", nil, -1)))
		synctest.Wait()
		if want := []int32{jute.OpCreateTTL, jute.OpPing, jute.OpSetData}; !slices.Equal(ops, want) {
			t.Errorf("requests %v, want %v", ops, want)
		}
	})
}

// If the server closes the connection after Unimplemented, requests wait for the next connection,
// and none is sent on the old one.
func TestRequestsWaitOutHangUp(t *testing.T) {
	sets := 0
	serve := func(n int, p *remote) {
		p.host(func(xid, op int32) bool {
			switch {
			case op == jute.OpWhoAmI:
				p.reply(xid, Unimplemented)
				_, op, ok := p.request() // must be the ping
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
		if err := Exec(testContext(t), s, WhoAmI()); !errors.Is(err, Unimplemented) || !strings.Contains(err.Error(), "whoami needs ZooKeeper 3.7") {
			t.Errorf("%v", err)
		}
		if err := Exec(testContext(t), s, SetData("/x", nil, -1)); err != nil || sets != 1 {
			t.Errorf("%v; %d on the second connection", err, sets)
		}
	})
}

// If the server rejects a request for lack of credentials, requests behind it fail with the same
// error, because the server reads nothing more on that connection.
func TestMissingCredentialsFailQueued(t *testing.T) {
	serve := func(_ int, p *remote) {
		p.greeted()
		xid, _, _ := p.request()
		p.request()
		p.reply(xid, sessionNoAuth)
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		p, err := s.Pipe(testContext(t), "/")
		zktest.Must(t, err)
		for _, a := range []*Pending[Written]{Add(p, Create("/a", nil, OpenACL(), CreateMode{})), Add(p, Create("/b", nil, OpenACL(), CreateMode{}))} {
			if _, err := a.Wait(testContext(t)); !errors.Is(err, sessionNoAuth) {
				t.Errorf("%v", err)
			}
		}
	})
}

// answersOne returns a server that answers one request after a second, then closes the connection.
// Its later connections stay open.
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

// Requests that were not sent before the rejection fail with the same error, except for an added
// credential and the requests after it.
func TestMissingCredentialsFailUnsent(t *testing.T) {
	bubble(t, answersOne(sessionNoAuth), func(t *testing.T, s *Session) {
		p, err := s.Pipe(testContext(t), "/")
		zktest.Must(t, err)
		answered := func(w *Pending[Written]) error { _, err := w.Wait(testContext(t)); return err }
		asked := func(path string) *Pending[Written] { return Add(p, Create(path, nil, OpenACL(), CreateMode{})) }
		first := asked("/a")
		synctest.Wait()
		second := asked("/b") // its write has begun but does not finish
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
		_, err = credential.Wait(testContext(t))
		for _, err := range []error{err, answered(behind)} {
			if !errors.As(err, new(*UnsentError)) || !errors.Is(err, ConnectionLoss) {
				t.Errorf("%v", err)
			}
		}
	})
}

// Answers that the server sent before it hung up are processed, although writes already fail.
func TestAnswersBeforeTheHangUp(t *testing.T) {
	var client *pipeEnd
	n := -1
	dial := func(context.Context, string, string) (net.Conn, error) {
		n++
		client = pipeTo(n, answersOne(codeOK)).(*pipeEnd)
		return client, nil
	}
	bubbleWith(t, Config{Servers: "127.0.0.1:1", dial: dial}, nil, func(t *testing.T, s *Session) {
		p, err := s.Pipe(testContext(t), "/")
		zktest.Must(t, err)
		first := Add(p, Create("/a", nil, OpenACL(), CreateMode{}))
		synctest.Wait()
		client.cut.Store(true)
		second := Add(p, Create("/b", nil, OpenACL(), CreateMode{})) // its write fails
		synctest.Wait()
		third := Add(p, Create("/c", nil, OpenACL(), CreateMode{}))
		if _, err := first.Wait(testContext(t)); err != nil {
			t.Error(err)
		}
		if _, err := second.Wait(testContext(t)); !errors.As(err, new(*LostError)) {
			t.Error(err)
		}
		if _, err := third.Wait(testContext(t)); !errors.As(err, new(*UnsentError)) {
			t.Error(err)
		}
	})
}

// If the server rejects a ping for lack of credentials, the client leaves the connection at
// once, whether the server closes the connection or not.
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
		zktest.Must(t, s.Ready(testContext(t)))
		time.Sleep(sessionTimeout)
		zktest.Check(t, Exec(testContext(t), s, SetData("/x", nil, -1)))
	})
}

// settingAgain returns a server that closes the first connection when drop is closed, and
// handles each setWatches2 with set.
func settingAgain(drop <-chan struct{}, set func(p *remote, xid int32) bool) func(n int, p *remote) {
	return func(n int, p *remote) {
		if n == 0 {
			go func() { // ends when drop is closed
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

// If a server closes the connection over setWatches2, the client gives the persistent watches up and
// reports that, because the server would hang up again and again.
func TestPersistentWatchesGivenUp(t *testing.T) {
	asked := 0
	drop := make(chan struct{})
	serve := settingAgain(drop, func(p *remote, xid int32) bool {
		asked++
		p.reply(xid, Unimplemented)
		return false
	})
	bubble(t, serve, func(t *testing.T, s *Session) {
		zktest.Must(t, Exec(testContext(t), s, AddWatch("/w", true)))
		close(drop)
		synctest.Wait()
		var reported int
		for reported == 0 {
			<-s.EventsReady()
			for _, e := range s.Events() {
				if e.Type == eventPersistentWatchRemoved && e.Path == "/w" {
					reported++
				}
			}
		}
		if err := Exec(testContext(t), s, Sync("/")); err != nil || asked != 1 || reported != 1 {
			t.Errorf("%v; asked %d times, reported %d times", err, asked, reported)
		}
	})
}

func TestNamesOfCodes(t *testing.T) {
	for code, want := range map[Code]string{-12: "UnknownSession", -113: "InvalidCallback", -122: "RequestTimeout"} {
		if got := code.Error(); got != "KeeperErrorCode = "+want {
			t.Errorf("%d: %s", code, got)
		}
	}
}

// If a connection ends while persistent watches are set again, the server may still know the
// request, because it granted the watches. The client gives up only after several such losses.
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
				zktest.Must(t, Exec(testContext(t), s, AddWatch("/w", true)))
				close(drop)
				time.Sleep(20 * time.Second)
				removed := false
				for _, e := range s.Events() {
					removed = removed || e.Type == eventPersistentWatchRemoved && e.Path == "/w"
				}
				if err := Exec(testContext(t), s, Sync("/")); err != nil || asked != c.asked || removed != c.removed {
					t.Errorf("%v; setWatches2 was sent %d times, not %d; removed: %v", err, asked, c.asked, removed)
				}
			})
		})
	}
}
