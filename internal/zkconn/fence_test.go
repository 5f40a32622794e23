package zkconn_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

// A nodeFence is a fence that consists of the given znodes.
type nodeFence []string

func (p nodeFence) Nodes(context.Context, zkconn.Epoch) ([]string, error) { return p, nil }

func (p nodeFence) Refused(_ zkconn.Ensemble, node string, code zkconn.Code) error {
	return fmt.Errorf("no %s: %v", node[strings.LastIndexByte(node, '/')+1:], code)
}

func (p nodeFence) For(*zkconn.Session) zkconn.Fence { return p }

const (
	goneRefusal   = "no gone: KeeperErrorCode = NoNode"
	hiddenRefusal = "no hidden: KeeperErrorCode = NoAuth"
)

// allWrites returns every kind of write that a session can make below a path, to be run in
// order. Some of them must fail.
func allWrites(s *zkconn.Session, at string) []write {
	w := writes{s}
	pipe := func(ask func(*zkconn.Pipe) *zkconn.Pending[zkconn.Written]) write {
		return func(ctx context.Context) (string, error) {
			p, err := s.Pipe(ctx, at)
			if err != nil {
				return "", err
			}
			got, err := ask(p).Wait(ctx)
			return fmt.Sprint(got.Paths), err
		}
	}
	return []write{
		w.create(at, zkconn.CreateMode{}),
		w.create(at, zkconn.CreateMode{}),
		w.create(at+"/no/parent", zkconn.CreateMode{}),
		w.create(at+"/e", zkconn.CreateMode{Ephemeral: true}),
		w.create(at+"/s-", zkconn.CreateMode{Sequential: true}),
		w.create(at+"/both-", zkconn.CreateMode{Ephemeral: true, Sequential: true}),
		w.create(at+"/c", zkconn.CreateMode{Container: true}),
		w.set(at, -1), w.set(at, 7), w.set(at+"/no", -1),
		w.check(at, 1), w.check(at, 7),
		w.delete(at), w.delete(at + "/e"), w.delete(at + "/e"),
		func(ctx context.Context) (string, error) {
			st, err := zkconn.Do(ctx, s, zkconn.SetACL(at, zkconn.OpenACL(), -1))
			if err != nil {
				return "", err
			}
			return fmt.Sprint("ACL ", st.Aversion), nil
		},
		func(ctx context.Context) (string, error) {
			err := zkconn.Exec(ctx, s, zkconn.SetACL(at, zkconn.OpenACL(), 7))
			return "", err
		},
		func(ctx context.Context) (string, error) {
			p, err := s.Pipe(ctx, at)
			if err != nil {
				return "", err
			}
			first, second := zkconn.Add(p, zkconn.SetACL(at, zkconn.OpenACL(), -1)), zkconn.Add(p, zkconn.SetACL(at+"/c", zkconn.OpenACL(), 7))
			st, err := first.Wait(ctx)
			if err != nil {
				return "", err
			}
			_, err = second.Wait(ctx)
			return fmt.Sprint("ACL ", st.Aversion), err
		},
		pipe(func(p *zkconn.Pipe) *zkconn.Pending[zkconn.Written] {
			return zkconn.Add(p, zkconn.Create(at+"/p", nil, zkconn.OpenACL(), zkconn.CreateMode{}))
		}),
		pipe(func(p *zkconn.Pipe) *zkconn.Pending[zkconn.Written] { return zkconn.Add(p, zkconn.Delete(at+"/p", -1)) }),
		pipe(func(p *zkconn.Pipe) *zkconn.Pending[zkconn.Written] { return zkconn.Add(p, zkconn.Delete(at+"/p", -1)) }),
		pipe(func(p *zkconn.Pipe) *zkconn.Pending[zkconn.Written] {
			return zkconn.Add(p, zkconn.Multi([]zkconn.Change{zkconn.Removal(at+"/s-0000000001", -1), zkconn.Removal(at+"/no", -1)}))
		}),
		pipe(func(p *zkconn.Pipe) *zkconn.Pending[zkconn.Written] {
			return zkconn.Add(p, zkconn.Multi([]zkconn.Change{zkconn.Removal(at+"/s-0000000001", -1), zkconn.Removal(at+"/c", -1)}))
		}),
	}
}

// With an intact fence, every write has the same result as without a fence.
func TestFenceIntact(t *testing.T) {
	onSandboxAndServer(t, func(t *testing.T, s, rival *zkconn.Session, _ *zktest.Proxy) {
		ctx := zktest.Within(t)
		for _, name := range []string{"/post", "/other"} {
			zktest.Must(t, zkconn.Exec(ctx, rival, zkconn.Create(name, nil, zkconn.OpenACL(), zkconn.CreateMode{Ephemeral: true})))
		}
		run := func(at string) (out []string, written zkconn.Outcome) {
			var recorder zkconn.Recorder
			for _, do := range allWrites(s, at) {
				text, err := do(recorder.Context(ctx))
				out = append(out, strings.ReplaceAll(fmt.Sprint(text, " ", err), at, "/x"))
			}
			names, err := zkconn.Do(ctx, s, zkconn.GetEphemerals(at))
			return append(out, strings.ReplaceAll(fmt.Sprint(names, err), at, "/x")), recorder.Written()
		}
		want, written := run("/free")
		s.SetFence(nodeFence{s.ServerPath("/post"), s.ServerPath("/other")})
		got, fenced := run("/fenced")
		expect(t, got, want...)
		if fenced != written || written.Unknown != 0 {
			t.Errorf("recorded %+v; without a fence %+v", fenced, written)
		}
		if fenced, err := s.Fenced(ctx); !fenced || err != nil {
			t.Error(fenced, err)
		}
	})
}

// With a broken fence, nothing is written by any means, and no error looks like a rejection of
// the write itself.
func TestFenceBroken(t *testing.T) {
	onSandboxAndServer(t, func(t *testing.T, s, rival *zkconn.Session, p *zktest.Proxy) {
		ctx := zktest.Within(t)
		for _, name := range []string{"/post", "/x"} {
			zktest.Must(t, zkconn.Exec(ctx, rival, zkconn.Create(name, nil, zkconn.OpenACL(), zkconn.CreateMode{})))
		}
		hidden := []zk.ACL{{Perms: zk.PermAll &^ zk.PermRead, Scheme: "world", ID: "anyone"}}
		zktest.Must(t, zkconn.Exec(ctx, rival, zkconn.Create("/hidden", nil, hidden, zkconn.CreateMode{})))
		before, err := zkconn.Do(ctx, rival, zkconn.List("/"))
		zktest.Must(t, err)
		for missing, refusal := range map[string]string{"/gone": goneRefusal, "/hidden": hiddenRefusal} {
			s.SetFence(nodeFence{s.ServerPath("/post"), s.ServerPath(missing)})
			p.Requests()
			for i, do := range allWrites(s, "/x") {
				_, err := do(ctx)
				if !errors.As(err, new(*zkconn.FencedError)) || err.Error() != refusal {
					t.Errorf("%d: %v", i, err)
				}
				if errors.As(err, new(*zkconn.Error)) || errors.Is(err, zkconn.NoNode) || errors.Is(err, zkconn.NoAuth) {
					t.Errorf("%d: taken for the refusal of the write: %v", i, err)
				}
			}
			for _, op := range p.Requests() {
				if op != jute.OpMulti {
					t.Errorf("a request of kind %d was sent", op)
				}
			}
		}
		after, err := zkconn.Do(ctx, rival, zkconn.List("/"))
		zktest.Must(t, err)
		expect(t, after.Names, before.Names...)
		if x, err := zkconn.Do(ctx, rival, zkconn.Exists("/x")); err != nil || x.NumChildren != 0 || x.Version != 0 || x.Aversion != 0 {
			t.Errorf("%+v, %v", x, err)
		}
		// Reads and requests about the session itself still work, and so do the writes of lock
		// operations.
		zktest.Check(t, zkconn.Exec(ctx, s, zkconn.GetData("/x").Watch(true)))
		zktest.Check(t, s.RemoveWatches(ctx, "/x", zkconn.DataWatches, false))
		zktest.Check(t, zkconn.Exec(ctx, s.Unfenced(), zkconn.SetData("/x", nil, -1)))
		pinned, err := s.Ensemble().Pin(ctx)
		zktest.Must(t, err)
		zktest.Check(t, zkconn.Exec(ctx, pinned, zkconn.Delete("/x", -1)))
	})
}

// In a transaction, the checks of the fence come first, once.
func TestFencedTransaction(t *testing.T) {
	onSandboxAndServer(t, func(t *testing.T, s, rival *zkconn.Session, p *zktest.Proxy) {
		ctx, w := zktest.Within(t), writes{s}
		zktest.Must(t, zkconn.Exec(ctx, rival, zkconn.Create("/post", nil, zkconn.OpenACL(), zkconn.CreateMode{})))
		s.SetFence(nodeFence{s.ServerPath("/post")})
		p.Requests()
		txn := s.Begin()
		all := startAll(t, txn, w.create("/a", zkconn.CreateMode{}), w.create("/c", zkconn.CreateMode{Container: true}), w.set("/a", 0))
		if _, err := txn.Commit(ctx); err != nil {
			t.Error(err)
		}
		expect(t, answers(all), "/a", "/c", "version 1, length 3")

		txn = s.Begin()
		all = startAll(t, txn, w.create("/b", zkconn.CreateMode{}), w.set("/a", 7), w.delete("/a"))
		undone := "not applied, because operation 2 of the transaction failed: version No is not valid : /a (expected dataVersion 7)"
		if _, err := txn.Commit(ctx); err == nil || err.Error() != undone {
			t.Error(err)
		}
		expect(t, answers(all), undone, "version No is not valid : /a (expected dataVersion 7)", undone)

		for _, op := range p.Requests() {
			if op != jute.OpMulti {
				t.Errorf("a request of kind %d was sent", op)
			}
		}

		s.SetFence(nodeFence{s.ServerPath("/post"), s.ServerPath("/gone")})
		txn = s.Begin()
		all = startAll(t, txn, w.set("/a", -1), w.delete("/b"))
		if _, err := txn.Commit(ctx); !errors.As(err, new(*zkconn.FencedError)) {
			t.Error(err)
		}
		expect(t, answers(all), goneRefusal, goneRefusal)
		if a, err := zkconn.Do(ctx, rival, zkconn.Exists("/a")); err != nil || a.Version != 1 {
			t.Error(a, err)
		}
	})
}

// A request that a multi cannot contain is sent after the fence's checks were confirmed, on the
// same connection or not at all, and not after its caller has given up.
func TestCheckedRequest(t *testing.T) {
	onSandboxAndServer(t, func(t *testing.T, s, rival *zkconn.Session, p *zktest.Proxy) {
		ctx := zktest.Within(t)
		zktest.Must(t, zkconn.Exec(ctx, rival, zkconn.Create("/post", nil, zkconn.OpenACL(), zkconn.CreateMode{})))
		s.SetFence(nodeFence{s.ServerPath("/post")})
		cut := p.CutAfterRequest(jute.OpMulti)
		err := zkconn.Exec(ctx, s, zkconn.SetACL("/post", zkconn.OpenACL(), -1))
		<-cut
		if !errors.As(err, new(*zkconn.UnsentError)) || !errors.Is(err, zkconn.ConnectionLoss) {
			t.Errorf("the connection broke before: %v", err)
		}
		zktest.Must(t, s.WaitReady(ctx))
		p.HoldReplies(true)
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if err = zkconn.Exec(short, s, zkconn.SetACL("/post", zkconn.OpenACL(), -1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("given up: %v", err)
		}
		p.HoldReplies(false)
		if err := zkconn.Exec(ctx, s, zkconn.Sync("/")); err != nil { // waits until the late answer has been processed
			t.Fatal(err)
		}
		if st, err := zkconn.Do(ctx, rival, zkconn.Exists("/post")); err != nil || st.Aversion != 0 {
			t.Errorf("written all the same: %+v, %v", st, err)
		}
	})
}
