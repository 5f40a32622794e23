package zkconn

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zktest"
)

const two, three = "127.0.0.1:1,127.0.0.1:2", "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"

func TestFailoverHiccup(t *testing.T) {
	var s *scene
	s = &scene{others: func(_ int, p *remote) bool {
		if _, ok := p.body(); ok {
			s.heard <- struct{}{}
		}
		return false
	}}
	s.play(t, two, func(t *testing.T, c *Session, p *Pinned) {
		s.late(500 * time.Millisecond)
		if err := p.Sync(testContext(t), "/"); err != nil {
			t.Errorf("answered late: %v", err)
		}
		time.Sleep(sessionTimeout / 4)
		if s.connections() != 2 || len(s.heard) > 0 {
			t.Errorf("%d connections; asked for the session: %d", s.connections(), len(s.heard))
		}
		s.stayed(t, c)
	})
}

// When the server is silent, the session moves to another one. Until it has moved, nothing is
// sent on the first connection, which is closed only then. The new connection gets the watches
// of the first.
func TestFailoverSilence(t *testing.T) {
	var s *scene
	var ops []int32
	s = &scene{others: func(_ int, p *remote) bool {
		body, ok := p.body()
		want := new(jute.Encoder)
		want.Int(0)
		want.Long(1)
		want.Int(int32(sessionTimeout.Milliseconds()))
		want.Long(1)
		want.Buffer(secret)
		want.Bool(false)
		if !ok || !bytes.Equal(body, want.B) {
			s.t.Errorf("asked for the session with % x, want % x", body, want.B)
		}
		s.heard <- struct{}{}
		time.Sleep(sessionTimeout / 32)
		if s.dropped() {
			s.t.Error("the first connection was dropped before the session had moved")
		}
		ok = ok && p.welcome(1, int32(sessionTimeout.Milliseconds()), false)
		for range 2 {
			xid, op, got := p.request()
			ops = append(ops, op)
			ok = ok && got && p.reply(xid, codeOK)
		}
		return ok
	}}
	s.play(t, two, func(t *testing.T, c *Session, p *Pinned) {
		zktest.Must(t, Exec(testContext(t), p, Exists("/watched").Wake(make(chan zk.EventType, 1))))
		pipe, err := c.Pipe(testContext(t), "/")
		zktest.Must(t, err)
		s.late(never)
		begin := time.Now()
		lost := make(chan error, 1)
		go func() { lost <- Exec(testContext(t), p, Delete("/x", -1)) }()
		<-s.heard
		queued := Add(pipe, Delete("/y", -1))
		if err := p.Sync(testContext(t), "/"); err != nil { // waits until the session has moved
			t.Errorf("asked meanwhile: %v", err)
		}
		if took := time.Since(begin); took > sessionTimeout/16 {
			t.Errorf("took %s", took)
		}
		if _, err := queued.Wait(testContext(t)); !errors.As(err, new(*UnsentError)) {
			t.Errorf("what belongs to the first connection: %v", err)
		}
		err = <-lost
		if !errors.As(err, new(*LostError)) || !strings.Contains(err.Error(), "zksh moved the session to 127.0.0.1:") || !strings.Contains(err.Error(), "unknown whether it took effect") {
			t.Errorf("asked before: %v", err)
		}
		synctest.Wait()
		if got := states(c); !slices.Equal(got, []KeeperState{syncConnected, disconnected, syncConnected}) || !s.dropped() {
			t.Errorf("dropped: %t; events %v", s.dropped(), got)
		}
		if i := c.Info(); p.ID() != 1 || i.ID != 1 || i.Addr != s.dialed[1] || s.dialed[0] == s.dialed[1] || s.connections() != 2 {
			t.Errorf("session %#x at %s; dialed %q", i.ID, i.Addr, s.dialed)
		}
		if want := []int32{jute.OpSetWatches, jute.OpSync}; !slices.Equal(ops, want) {
			t.Errorf("asked %v, want %v", ops, want)
		}
	})
}

// If no server takes the session over, it stays where it is. Waiting requests are answered
// there, and requests made meanwhile are sent.
func TestFailoverFails(t *testing.T) {
	for name, s := range map[string]*scene{
		"refused":   {refuse: func(int) bool { return true }},
		"silent":    {others: func(_ int, p *remote) bool { p.body(); p.body(); return false }},
		"closing":   {others: func(int, *remote) bool { return false }},
		"expired":   {others: func(_ int, p *remote) bool { return p.greet(0, 0) && false }},
		"another":   {others: func(_ int, p *remote) bool { return p.greet(2, 30000) && false }},
		"no leader": {others: func(_ int, p *remote) bool { return p.answerConnect(rejecting, 2, 30000) && false }},
		"dead":      {others: func(_ int, p *remote) bool { return p.answerConnect(rejecting, 1, -1) && false }},
		"no time":   {others: func(_ int, p *remote) bool { return p.greet(1, 0) && false }},
		"foreign":   {others: func(_ int, p *remote) bool { p.body(); p.Write([]byte("HTTP/1.1 400 Bad Request\r\n")); return false }},
		"short":     {others: func(_ int, p *remote) bool { p.body(); p.frame([]byte("short")); return false }},
	} {
		for _, piped := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s.play(t, three, func(t *testing.T, c *Session, p *Pinned) {
					s.late(sessionTimeout / 5)
					pipe, err := c.Pipe(testContext(t), "/")
					zktest.Must(t, err)
					got := make(chan error)
					for i := range 20 { // some of them while the client tries another server
						go func() {
							time.Sleep(time.Duration(i) * sessionTimeout / 300)
							if !piped {
								got <- p.Sync(testContext(t), "/")
								return
							}
							_, err := Add(pipe, Exists("/")).Wait(testContext(t))
							got <- err
						}()
					}
					first := <-got
					s.late(time.Nanosecond)
					for range 19 {
						first = errors.Join(first, <-got)
					}
					if first != nil {
						t.Error(first)
					}
					if n := s.connections(); n < 4 || n > 50 {
						t.Errorf("%d connections", n)
					}
					s.stayed(t, c)
				})
			})
		}
	}
}

// The session does not move to a read-only server, which cannot keep a session alive.
func TestFailoverReadOnly(t *testing.T) {
	var s *scene
	s = &scene{others: func(_ int, p *remote) bool {
		body, ok := p.body()
		if ok && body[len(body)-1] == 1 {
			s.heard <- struct{}{}
		}
		return ok && p.welcome(1, int32(sessionTimeout.Milliseconds()), true)
	}}
	s.play(t, two, func(t *testing.T, c *Session, p *Pinned) {
		s.late(sessionTimeout / 3)
		if err := p.Sync(testContext(t), "/"); err != nil || len(s.heard) == 0 {
			t.Errorf("%v; asked %d times", err, len(s.heard))
		}
		s.stayed(t, c)
	})
}

// Requests queued behind a write that hangs are not sent if the server resumes reading while the
// session moves.
func TestFailoverWhileWriting(t *testing.T) {
	s := &scene{hangs: true}
	s.others = func(_ int, p *remote) bool {
		if _, ok := p.body(); !ok {
			return false
		}
		close(s.resume)
		time.Sleep(sessionTimeout / 300)
		return p.welcome(1, int32(sessionTimeout.Milliseconds()), false)
	}
	s.play(t, two, func(t *testing.T, c *Session, p *Pinned) {
		pipe, err := c.Pipe(testContext(t), "/")
		zktest.Must(t, err)
		s.late(never)
		begin := time.Now()
		var sent [3]error
		var all [3]*Pending[Written]
		for i := range all {
			all[i] = Add(pipe, Delete("/x", -1))
			synctest.Wait()
		}
		for i, a := range all {
			_, sent[i] = a.Wait(testContext(t))
		}
		if !errors.As(sent[0], new(*LostError)) || !errors.As(sent[1], new(*LostError)) || !errors.As(sent[2], new(*UnsentError)) {
			t.Errorf("got %q", sent)
		}
		zktest.Check(t, p.Sync(testContext(t), "/"))
		if took := time.Since(begin); took > sessionTimeout/20 { // the library does not wait a second, although the connection was young
			t.Errorf("took %s", took)
		}
	})
}

// If the second server is silent too, the session moves to the third.
func TestFailoverToTheThird(t *testing.T) {
	s := &scene{others: func(n int, p *remote) bool {
		if n == 1 {
			p.body()
			p.body()
			return false
		}
		return p.greeted()
	}}
	s.play(t, three, func(t *testing.T, c *Session, p *Pinned) {
		s.late(never)
		if err := p.Sync(testContext(t), "/"); !errors.As(err, new(*LostError)) {
			t.Errorf("got %v", err)
		}
		zktest.Check(t, p.Sync(testContext(t), "/"))
		if i := c.Info(); i.Addr != s.dialed[2] || s.connections() != 3 {
			t.Errorf("at %s; dialed %q", i.Addr, s.dialed)
		}
	})
}

// With a single server, the session moves to a new connection, because only the network path may
// be broken. The server closes the old connection before it answers on the new one. The library,
// which redials at once, does not interfere with the move.
func TestFailoverToTheSameServer(t *testing.T) {
	var first *remote
	s := &scene{}
	s.others = func(_ int, p *remote) bool {
		if _, ok := p.body(); !ok {
			return false
		}
		first.Close()
		time.Sleep(sessionTimeout / 100)
		return p.welcome(1, int32(sessionTimeout.Milliseconds()), false)
	}
	s.first = func(p *remote) { first = p }
	s.play(t, "127.0.0.1:1", func(t *testing.T, c *Session, p *Pinned) {
		time.Sleep(sessionTimeout / 10) // otherwise the library would wait before it dials
		s.late(never)
		if err := p.Sync(testContext(t), "/"); !errors.As(err, new(*LostError)) {
			t.Errorf("got %v", err)
		}
		zktest.Check(t, p.Sync(testContext(t), "/"))
		time.Sleep(sessionTimeout)
		if s.connections() != 2 {
			t.Errorf("dialed %q", s.dialed)
		}
		if got := states(c); !slices.Equal(got, []KeeperState{syncConnected, disconnected, syncConnected}) {
			t.Errorf("events %v", got)
		}
	})
}

// A session leaves servers that are always equally slow only once or twice.
func TestFailoverLearns(t *testing.T) {
	slow := func(_ int, p *remote) bool {
		p.host(func(xid, _ int32) bool { time.Sleep(700 * time.Millisecond); return p.reply(xid, codeOK) })
		return false
	}
	s := &scene{others: slow}
	s.play(t, two, func(t *testing.T, c *Session, p *Pinned) {
		s.late(700 * time.Millisecond)
		failed := 0
		for range 50 {
			if err := p.Sync(testContext(t), "/"); err != nil {
				failed++
			}
		}
		if n := s.connections(); failed > 2 || n > 10 {
			t.Errorf("%d requests failed; %d connections", failed, n)
		}
	})
}

// A session does not leave a distant server that pauses for a second now and then.
func TestFailoverHiccups(t *testing.T) {
	for _, usual := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
		t.Run(usual.String(), func(t *testing.T) {
			s := &scene{}
			s.play(t, two, func(t *testing.T, c *Session, p *Pinned) {
				for range 100 {
					for _, late := range []time.Duration{usual, usual + time.Second} {
						s.late(late)
						for range 1 + 9*usual/late {
							zktest.Must(t, p.Sync(testContext(t), "/"))
						}
					}
				}
				s.stayed(t, c)
			})
		})
	}
}

// Only a guarded session moves; after the guard is released, the session stays.
func TestFailoverOnlyWhileGuarded(t *testing.T) {
	s := &scene{}
	s.play(t, two, func(t *testing.T, c *Session, p *Pinned) {
		another := p.Guard()
		another()
		another() // releasing twice counts once
		s.late(500 * time.Millisecond)
		if err := p.Sync(testContext(t), "/"); err != nil || s.connections() != 2 {
			t.Errorf("guarded once more: %v; dialed %q", err, s.dialed)
		}
		s.release()
		s.late(sessionTimeout / 3)
		if err := p.Sync(testContext(t), "/"); err != nil || s.connections() != 2 {
			t.Errorf("not guarded: %v; dialed %q", err, s.dialed)
		}
		s.stayed(t, c)
	})
}

// A session that is closed while it moves leaves nothing running.
func TestFailoverClosed(t *testing.T) {
	var s *scene
	s = &scene{others: func(_ int, p *remote) bool { p.body(); s.heard <- struct{}{}; p.body(); return false }}
	s.play(t, two, func(t *testing.T, c *Session, p *Pinned) {
		s.late(never)
		go p.Sync(testContext(t), "/")
		<-s.heard
		zktest.Check(t, c.Close(testContext(t)))
	})
}
