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
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

// A pendingRequest is a request and, once ended is closed, its answer.
type pendingRequest struct {
	text  string
	err   error
	ended chan struct{}
}

// startAll starts requests of a transaction in order, each in a goroutine of its own, which ends
// with the transaction.
func startAll(t *testing.T, txn *zkconn.Transaction, requests ...func(context.Context) (string, error)) []*pendingRequest {
	t.Helper()
	var all []*pendingRequest
	for _, do := range requests {
		a, trip := &pendingRequest{ended: make(chan struct{})}, zkconn.NewTrip()
		go func() { // ends when the transaction does
			defer close(a.ended)
			a.text, a.err = do(trip.Context(txn.Context(zktest.Within(t))))
		}()
		select {
		case <-trip.Queued:
		case <-a.ended:
			t.Fatal(a.err)
		}
		all = append(all, a)
	}
	return all
}

// answers waits for the requests and returns their answers or errors.
func answers(all []*pendingRequest) (out []string) {
	for _, a := range all {
		<-a.ended
		if a.err != nil {
			out = append(out, a.err.Error())
		} else {
			out = append(out, a.text)
		}
	}
	return out
}

// writes makes write requests on a session.
type writes struct{ s *zkconn.Session }

type write = func(context.Context) (string, error)

func (w writes) create(path string, mode zkconn.CreateMode) write {
	return func(ctx context.Context) (string, error) {
		made, err := zkconn.Do(ctx, w.s, zkconn.Create(path, []byte("x"), zkconn.OpenACL(), mode))
		return made.Path(), err
	}
}

func (w writes) set(path string, version int32) write {
	return func(ctx context.Context) (string, error) {
		st, err := zkconn.Do(ctx, w.s, zkconn.SetData(path, []byte("new"), version))
		if err != nil {
			return "", err
		}
		return fmt.Sprint("version ", st.Version, ", length ", st.DataLength), nil
	}
}

func (w writes) delete(path string) write {
	return func(ctx context.Context) (string, error) {
		return "deleted", zkconn.Exec(ctx, w.s, zkconn.Delete(path, -1))
	}
}

func (w writes) check(path string, version int32) write {
	return func(ctx context.Context) (string, error) {
		return "as expected", zkconn.Exec(ctx, w.s, zkconn.Check(path, version))
	}
}

// onSandboxAndServer runs a test against the sandbox and against a real server, each with a new
// chroot.
func onSandboxAndServer(t *testing.T, test func(t *testing.T, s, rival *zkconn.Session, p *zktest.Proxy)) {
	for name, addr := range map[string]func(*testing.T) string{
		"sandbox": func(t *testing.T) string {
			return zktest.Sandbox(t, sandbox.Options{}).Addr()
		},
		"server": func(t *testing.T) string { return zktest.Shared(t).Addr() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := addr(t)
			root := fmt.Sprintf("/%s-%d", strings.ReplaceAll(t.Name(), "/", "-"), time.Now().UnixNano())
			top := zksession.Open(t, zkconn.Config{Servers: addr, Timeout: zktest.Patience})
			zktest.Must(t, zkconn.Exec(zktest.Within(t), top, zkconn.Create(root, nil, zkconn.OpenACL(), zkconn.CreateMode{})))
			p := zktest.NewProxy(t, addr)
			below := func(addr string) *zkconn.Session {
				return zksession.Open(t, zkconn.Config{Servers: addr + root, Timeout: zktest.Patience})
			}
			test(t, below(p.Addr()), below(addr), p)
		})
	}
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func names(t *testing.T, s *zkconn.Session, path string) []string {
	t.Helper()
	list, err := zkconn.Do(zktest.Within(t), s, zkconn.List(path))
	zktest.Must(t, err)
	slices.Sort(list.Names)
	return list.Names
}

// multis returns the number of multi requests that passed the proxy.
func multis(p *zktest.Proxy) (n int) {
	for _, op := range p.Requests() {
		if op == jute.OpMulti {
			n++
		}
	}
	return n
}

// In a transaction, each request gets the answer that it would get alone.
func TestCommit(t *testing.T) {
	onSandboxAndServer(t, func(t *testing.T, s, _ *zkconn.Session, p *zktest.Proxy) {
		w, txn := writes{s}, s.Begin()
		all := startAll(t, txn,
			w.create("/a", zkconn.CreateMode{}), w.create("/a/b", zkconn.CreateMode{}),
			w.create("/a/s-", zkconn.CreateMode{Sequential: true}), w.create("/a/s-", zkconn.CreateMode{Sequential: true, Ephemeral: true}),
			w.create("/a/c", zkconn.CreateMode{Container: true}), w.set("/a/b", 0), w.check("/a/b", 1), w.delete("/a/b"),
			w.create("/e", zkconn.CreateMode{Ephemeral: true}))
		if got := names(t, s, "/"); len(got) > 0 {
			t.Errorf("before it ends there is %s", got)
		}
		if txn.Len() != len(all) {
			t.Errorf("%d have joined", txn.Len())
		}
		p.Requests()
		if _, err := txn.Commit(zktest.Within(t)); err != nil {
			t.Error(err)
		}
		expect(t, answers(all), "/a", "/a/b", "/a/s-0000000001", "/a/s-0000000002", "/a/c", "version 1, length 3", "as expected", "deleted", "/e")
		expect(t, names(t, s, "/a"), "c", "s-0000000001", "s-0000000002")
		if n := multis(p); n != 1 {
			t.Errorf("%d multis", n)
		}
		st, err := zkconn.Do(zktest.Within(t), s, zkconn.Exists("/e"))
		if err != nil || st.EphemeralOwner != s.Info().ID {
			t.Error(st, err)
		}
		late := zkconn.NewTrip()
		if err := zkconn.Exec(late.Context(txn.Context(zktest.Within(t))), s, zkconn.SetData("/a", nil, -1)); err == nil || !strings.Contains(err.Error(), "has already ended") {
			t.Error(err)
		}
	})
}

// If one request of a transaction is rejected, the error names it, and no request takes effect.
func TestCommitRefused(t *testing.T) {
	onSandboxAndServer(t, func(t *testing.T, s, _ *zkconn.Session, p *zktest.Proxy) {
		w, txn := writes{s}, s.Begin()
		all := startAll(t, txn, w.create("/a", zkconn.CreateMode{Ephemeral: true}), w.check("/a", 0), w.check("/a", 7), w.set("/a", -1))
		_, err := txn.Commit(zktest.Within(t))
		var undone *zkconn.UndoneError
		if !errors.As(err, &undone) || undone.Part != 2 || !errors.Is(err, zkconn.BadVersion) {
			t.Error(err)
		}
		other := "not applied, because operation 3 of the transaction failed: version No is not valid : /a (expected dataVersion 7)"
		expect(t, answers(all), other, other, "version No is not valid : /a (expected dataVersion 7)", other)
		if got := names(t, s, "/"); len(got) > 0 {
			t.Errorf("there is %s", got)
		}
	})
}

// A transaction rejects requests that a multi cannot contain, and can be aborted.
func TestAbort(t *testing.T) {
	onSandboxAndServer(t, func(t *testing.T, s, _ *zkconn.Session, p *zktest.Proxy) {
		w, txn := writes{s}, s.Begin()
		all := startAll(t, txn, w.create("/a", zkconn.CreateMode{}))
		for _, ask := range []func(context.Context) error{
			func(ctx context.Context) error { err := zkconn.Exec(ctx, s, zkconn.GetData("/")); return err },
			func(ctx context.Context) error {
				err := zkconn.Exec(ctx, s, zkconn.SetACL("/", zkconn.OpenACL(), -1))
				return err
			},
			func(ctx context.Context) error { return zkconn.Exec(ctx, s.Absolute(), zkconn.Delete("/a", -1)) },
		} {
			if err := ask(txn.Context(zktest.Within(t))); err == nil || !strings.Contains(err.Error(), "cannot be part of a transaction") {
				t.Error(err)
			}
		}
		txn.Abort(errors.New("changed my mind"))
		expect(t, answers(all), "changed my mind")
		if _, err := txn.Commit(zktest.Within(t)); err != nil { // the transaction is empty
			t.Error(err)
		}
		if got := names(t, s, "/"); len(got) > 0 {
			t.Errorf("there is %s", got)
		}
	})
}

// A transaction belongs to the session in which it began, and fails after the session expires.
func TestTransactionOfExpiredSession(t *testing.T) {
	t.Parallel()
	f := openFaulty(t, 6*time.Second)
	txn := f.Begin()
	all := startAll(t, txn, writes{f.Session}.create(f.root+"/late", zkconn.CreateMode{}))
	f.expire()
	f.proxy.Refuse(false)
	f.event("Expired")
	if _, err := txn.Commit(zktest.Within(t)); !errors.Is(err, zkconn.SessionExpired) {
		t.Error(err)
	}
	expect(t, answers(all), "KeeperErrorCode = Session expired for "+f.root+"/late")
}

// After an expiry, the session lists the ephemeral znodes of committed transactions as gone, but
// not those of failed ones.
func TestEphemeralsOfTransaction(t *testing.T) {
	t.Parallel()
	f := openFaulty(t, 6*time.Second)
	w := writes{f.Session}
	eph := func(name string) write { return w.create(f.root+name, zkconn.CreateMode{Ephemeral: true}) }
	txn := f.Begin()
	done := startAll(t, txn, eph("/a"), eph("/b"), w.delete(f.root+"/a"))
	_, err := txn.Commit(zktest.Within(t))
	f.must(err)
	answers(done)
	txn = f.Begin()
	undone := startAll(t, txn, eph("/c"), w.delete(f.root+"/b"), w.delete(f.root+"/b"))
	if _, err := txn.Commit(zktest.Within(t)); !errors.Is(err, zkconn.NoNode) {
		t.Error(err)
	}
	answers(undone)
	f.expire()
	f.proxy.Refuse(false)
	if e := f.event("Expired"); !slices.Equal(e.Gone, []string{f.root + "/b", f.root + "/canary"}) {
		t.Errorf("gone: %q", e.Gone)
	}
}

// A request cannot join a transaction that would then be larger than the largest allowed request. The
// transaction goes on without it. One with exactly that size is sent.
func TestTransactionOfTheLargestSize(t *testing.T) {
	t.Parallel()
	s := zksession.Open(t, zkconn.Config{Servers: zktest.Sandbox(t, sandbox.Options{}).Addr(), Timeout: zktest.Patience})
	zktest.Must(t, zkconn.Exec(zktest.Within(t), s, zkconn.Create("/t", nil, zkconn.OpenACL(), zkconn.CreateMode{})))
	const around = 8 + 9 + (9 + 4 + len("/t") + 4 + 4) // headers of the request and of the end, and the change without its data
	set := func(size int) write {
		return func(ctx context.Context) (string, error) {
			return "set", zkconn.Exec(ctx, s, zkconn.SetData("/t", make([]byte, size), -1))
		}
	}
	txn := s.Begin()
	_, err := set(zkconn.UsualMaxRequest - around + 1)(txn.Context(zktest.Within(t)))
	if large, ok := errors.AsType[*zkconn.TooLargeError](err); !ok || large.Size != zkconn.UsualMaxRequest+1 || !large.Whole {
		t.Errorf("one byte too many: %v", err)
	}
	all := startAll(t, txn, set(zkconn.UsualMaxRequest-around))
	if err := zkconn.Exec(txn.Context(zktest.Within(t)), s, zkconn.Delete("/t", -1)); !errors.As(err, new(*zkconn.TooLargeError)) {
		t.Errorf("a second request: %v", err)
	}
	_, err = txn.Commit(zktest.Within(t))
	zktest.Check(t, err)
	expect(t, answers(all), "set")
}
