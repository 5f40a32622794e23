package zklock

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
)

// scriptedSession is a session with a list of znodes. A test decides which requests fail.
type scriptedSession struct {
	*fakeConnection
	names  []string                              // children of the lock
	proven time.Time                             // start of the lease
	fail   func(op string) (before, after error) // errors of op: before it takes effect, or instead of its answer
}

func newScriptedSession() *scriptedSession {
	return &scriptedSession{
		fakeConnection: &fakeConnection{changed: make(chan struct{}), ended: make(chan struct{})},
		proven:         time.Now(),
		fail:           func(string) (before, after error) { return nil, nil },
	}
}

func (a *scriptedSession) Session(context.Context) (Session, error) { return a, nil }

func (a *scriptedSession) do(op string, ok bool, act func()) error {
	before, after := a.fail(op)
	switch {
	case before != nil:
		return before
	case !ok:
		return zk.ErrNoNode
	}
	act()
	return after
}

func (a *scriptedSession) delete(r *zk.DeleteRequest) error {
	name := path.Base(r.Path)
	return a.do("delete", slices.Contains(a.names, name), func() {
		a.names = slices.DeleteFunc(a.names, func(n string) bool { return n == name })
	})
}

func (a *scriptedSession) Multi(_ context.Context, ops ...any) error {
	return a.delete(ops[0].(*zk.DeleteRequest))
}

func (a *scriptedSession) Sync(context.Context, string) error { return a.do("sync", true, func() {}) }

func (a *scriptedSession) Children(context.Context, string, chan<- zk.EventType) ([]string, error) {
	return a.names, a.do("list", true, func() {})
}

func (a *scriptedSession) CreateAndList(_ context.Context, req *zk.CreateRequest, _ string) (
	string, int64, []string, error) {
	node := ""
	err := a.do("create", true, func() { node = req.Path + "0000000000" })
	return node, 1, a.names, err
}

func (a *scriptedSession) Get(context.Context, string, chan<- zk.EventType) ([]byte, *zk.Stat, error) {
	return nil, &zk.Stat{}, nil
}

func (a *scriptedSession) Unwatch(string, chan<- zk.EventType) {}

// held returns the lease of a held lock that has a znode with this name.
func (a *scriptedSession) held(t *testing.T, name string) *Lease {
	e := newEntry(New(a, "/lock", Options{}), a, Exclusive)
	e.name, e.watched, a.names = name, true, []string{name}
	e.clock.proof.prove(a.proven)
	h := newHold(e, 0)
	t.Cleanup(func() { h.stopMonitor() })
	e.l.hold = h
	return h.lease(Exclusive)
}

// loseAnswers makes the first n requests of an operation fail: they take effect if arrives
// is true, and are lost otherwise.
func (a *scriptedSession) loseAnswers(op string, n int, arrives bool) {
	a.fail = func(o string) (error, error) {
		if n--; o != op || n < 0 {
			return nil, nil
		}
		if arrives {
			return nil, zk.ErrConnectionClosed
		}
		return zk.ErrConnectionClosed, nil
	}
}

// Unlock reports whether the lock was held until then. If the znode is gone before the
// first request, another client has deleted it. If it is gone after a request that was not
// answered, that request may have deleted it.
func TestWhoRemovedTheZnode(t *testing.T) {
	for name, c := range map[string]struct {
		happen func(a *scriptedSession)
		want   error
	}{
		"as it should":        {func(*scriptedSession) {}, nil},
		"removed by somebody": {func(a *scriptedSession) { a.names = nil }, ErrLost},
		"answer lost":         {func(a *scriptedSession) { a.loseAnswers("delete", 1, true) }, nil},
		"request lost":        {func(a *scriptedSession) { a.loseAnswers("delete", 2, false) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newScriptedSession()
				lease := a.held(t, "_c_x-lock-0000000000")
				c.happen(a)
				if err := lease.Unlock(t.Context()); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
				want := map[bool]State{true: Released, false: Lost}[c.want == nil]
				if st := lease.State().State; st != want || isClosed(lease.Lost()) != (want == Lost) || len(a.names) > 0 {
					t.Errorf("%s, want %s; %q is left", st, want, a.names)
				}
				if err := lease.Unlock(t.Context()); !errors.Is(err, ErrNotHeld) {
					t.Errorf("and again: %v", err)
				}
			})
		})
	}
}

// If Unlock returns before the answer, the state becomes Released or Lost by the same rule.
func TestWhoRemovedTheZnodeLater(t *testing.T) {
	for want, arrives := range map[State]bool{Released: true, Lost: false} {
		synctest.Test(t, func(t *testing.T) {
			a := newScriptedSession()
			lease := a.held(t, "_c_x-lock-0000000000")
			ctx, cancel := context.WithCancel(t.Context())
			a.fail = func(string) (error, error) {
				cancel()
				a.fail = func(string) (error, error) { return nil, nil }
				return nil, zk.ErrConnectionClosed
			}
			if !arrives { // without a connection nothing is sent
				cancel()
				a.names = nil
			}
			if err := lease.Unlock(ctx); !errors.Is(err, ErrUnconfirmed) {
				t.Errorf("without an answer: %v", err)
			}
			synctest.Wait()
			if st := lease.State().State; st != want {
				t.Errorf("it turns out to be %s, want %s", st, want)
			}
		})
	}
}

// A lock is presumed lost exactly when its lease ends.
func TestLeaseEndsOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newScriptedSession()
		lease := a.held(t, "_c_x-lock-0000000000")
		time.Sleep(time.Minute - time.Minute/100 - time.Nanosecond)
		synctest.Wait()
		if lease.Left() != time.Nanosecond || isClosed(lease.Lost()) || lease.Timeout() != time.Minute {
			t.Errorf("at the end %v are left; lost: %v", lease.Left(), isClosed(lease.Lost()))
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if lease.Left() != 0 || !isClosed(lease.Lost()) || lease.State().State != PresumedLost {
			t.Errorf("after the end %v are left; it is %s", lease.Left(), lease.State().State)
		}
	})
}

// CASES.md, case 43: the lease of a machine that slept has ended, although the monotonic clock
// stood still.
func TestLeftAfterSleep(t *testing.T) {
	a := newScriptedSession()
	a.proven = time.Now().Round(0).Add(-time.Hour) // by the wall clock alone
	lease := a.held(t, "_c_x-lock-0000000000")
	if left := lease.Left(); left > -50*time.Minute {
		t.Errorf("%v are left", left)
	}
}

// A lock gives up if the server never lists the znodes that it has created.
func TestZnodeNeverListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newScriptedSession()
		reported := 0
		l := New(a, "/lock", Options{Notify: func(s Status) { reported++ }})
		_, err := l.TryLock(t.Context())
		if err == nil || !strings.Contains(err.Error(), "none of them appeared among the lock's contenders") || reported != maxUnlisted-1 {
			t.Errorf("after %d attempts more: %v", reported, err)
		}
	})
}

// The error of a failed attempt mentions a znode that could not be deleted only if one may
// exist: not if the create was rejected, but if it was not answered.
func TestNothingIsSaidOfZnodesThatWereNotMade(t *testing.T) {
	for want, create := range map[string]error{"no write: nothing here": errors.New("no write: nothing here"), "below /lock": zk.ErrConnectionClosed} {
		synctest.Test(t, func(t *testing.T) {
			a := newScriptedSession()
			a.fail = func(op string) (error, error) {
				if op == "create" {
					return create, nil
				}
				return errors.New("no sync either"), nil
			}
			_, err := New(a, "/lock", Options{}).Lock(t.Context())
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "cannot delete") != (want == "below /lock") {
				t.Errorf("%v", err)
			}
		})
	}
}
