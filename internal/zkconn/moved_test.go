package zkconn

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zktest"
)

// replyMoved answers a multi like ZooKeeper 3.4 after the session has moved: the first part
// fails with SessionMoved and the others with it, and the connection stays open.
func (p *remote) replyMoved(xid int32, parts int) bool {
	var e jute.Encoder
	e.Int(xid)
	e.Long(1)
	e.Int(0)
	code := int32(SessionMoved)
	for range parts {
		e.MultiHeader(opError, false, code)
		e.Int(code)
		code = int32(runtimeInconsistency)
	}
	e.MultiHeader(opError, true, -1)
	return p.frame(e.B)
}

// A oneNodeFence is a fence of one znode. In these tests, no failure may be blamed on the fence.
type oneNodeFence struct{ t *testing.T }

func (f oneNodeFence) Nodes(context.Context, Epoch) ([]string, error) {
	return []string{"/lock/node"}, nil
}
func (f oneNodeFence) For(*Session) Fence { return f }

func (f oneNodeFence) Refused(_ Ensemble, node string, code Code) error {
	f.t.Errorf("%s is blamed: %v", node, code)
	return code
}

// An answer of SessionMoved, as a whole or in the parts of a multi, ends the connection. The
// request was rejected, and the same session continues.
func TestMovedSessionLeavesTheConnection(t *testing.T) {
	changes := []Change{NewData("/a", nil, -1), NewData("/b", nil, -1)}
	for name, test := range map[string]struct {
		fenced bool
		write  func(ctx context.Context, s *Session) error
	}{
		"multi":        {false, func(ctx context.Context, s *Session) error { _, err := s.Multi(ctx, changes); return err }},
		"fenced multi": {true, func(ctx context.Context, s *Session) error { _, err := s.Multi(ctx, changes); return err }},
		"set":          {false, func(ctx context.Context, s *Session) error { err := Exec(ctx, s, SetData("/a", nil, -1)); return err }},
		"fenced set":   {true, func(ctx context.Context, s *Session) error { err := Exec(ctx, s, SetData("/a", nil, -1)); return err }},
		"fenced setAcl": {true, func(ctx context.Context, s *Session) error {
			err := Exec(ctx, s, SetACL("/a", OpenACL(), -1))
			return err
		}},
		"transaction": {false, func(ctx context.Context, s *Session) error {
			open := s.Begin()
			done := make(chan error)
			go func() { err := Exec(open.Context(ctx), s, SetData("/a", nil, -1)); done <- err }()
			go func() { err := Exec(open.Context(ctx), s, SetData("/b", nil, -1)); done <- err }()
			synctest.Wait()
			_, err := open.Commit(ctx)
			return errors.Join(err, <-done, <-done)
		}},
		"pipe": {false, func(ctx context.Context, s *Session) error {
			p, err := s.Pipe(ctx, "/")
			if err != nil {
				return err
			}
			_, err = Add(p, Multi([]Change{Removal("/a", -1), Removal("/b", -1)})).Wait(ctx)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			connections := 0
			serve := func(n int, p *remote) {
				connections = n + 1
				p.host(func(xid, op int32) bool {
					switch {
					case n > 0 || op == jute.OpSync:
						return p.reply(xid, codeOK)
					case op == jute.OpMulti:
						return p.replyMoved(xid, 3)
					}
					return p.reply(xid, SessionMoved)
				})
			}
			bubble(t, serve, func(t *testing.T, s *Session) {
				if test.fenced {
					s.SetFence(oneNodeFence{t})
				}
				ctx := testContext(t)
				old, err := s.Ensemble().Pin(ctx)
				zktest.Must(t, err)
				var recorder Recorder
				err = test.write(recorder.Context(ctx), s)
				refusal, ok := errors.AsType[*Error](err)
				if !ok || refusal.Code != SessionMoved || recorder.Destroyed().MayHaveHappened() || errors.As(err, new(*LostError)) || errors.As(err, new(*UndoneError)) {
					t.Errorf("the write: %v", err)
				}
				if s.State() == StateConnected && connections == 1 {
					t.Error("whoever was answered could send on the same connection")
				}
				if err := Exec(ctx, s, Sync("/")); err != nil {
					t.Errorf("the next request: %v", err)
				}
				time.Sleep(2 * tooSoon)
				synctest.Wait()
				if got, want := states(s), []KeeperState{syncConnected, disconnected, syncConnected}; !slices.Equal(got, want) || connections != 2 {
					t.Errorf("%d connections, events %v, want %v", connections, got, want)
				}
				if isClosed(old.Ended()) || s.Info().ID != 1 {
					t.Errorf("the session has ended: %t; now it is %#x", isClosed(old.Ended()), s.Info().ID)
				}
			})
		})
	}
}

// Requests sent after a moved request on the same connection have an unknown outcome.
func TestSentAfterMovedRequest(t *testing.T) {
	serve := func(n int, p *remote) {
		first := int32(0)
		p.host(func(xid, op int32) bool {
			switch {
			case n > 0:
				return p.reply(xid, codeOK)
			case first == 0:
				first = xid
				return true
			}
			return p.replyMoved(first, 2)
		})
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		ctx := testContext(t)
		p, err := s.Pipe(ctx, "/")
		zktest.Must(t, err)
		first, second := Add(p, Multi([]Change{Removal("/a", -1), Removal("/b", -1)})), Add(p, Delete("/c", -1))
		if _, err := first.Wait(ctx); !errors.Is(err, SessionMoved) {
			t.Errorf("the first: %v", err)
		}
		if _, err := second.Wait(ctx); !errors.As(err, new(*LostError)) {
			t.Errorf("the second: %v", err)
		}
	})
}

// If one of several reads that are sent together fails with SessionMoved, all count as lost.
func TestMovedAmongSeveral(t *testing.T) {
	for last := range 2 {
		serve := func(n int, p *remote) {
			seen := 0
			p.host(func(xid, op int32) bool {
				code := codeOK
				if n == 0 && op == jute.OpExists {
					if seen == last {
						code = SessionMoved
					}
					seen++
				}
				return p.reply(xid, code)
			})
		}
		bubble(t, serve, func(t *testing.T, s *Session) {
			ctx := testContext(t)
			p, err := s.Pipe(ctx, "/")
			zktest.Must(t, err)
			err = AddEach(p, []string{"/a", "/b"}, Exists).Each(ctx, func(*zk.Stat, error) {})
			if !errors.As(err, new(*LostError)) {
				t.Errorf("place %d: %v", last, err)
			}
		})
	}
}
