package zkconn

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zktest"
)

// Each known error code leads to the right outcome; unknown codes lead to an unknown one.
func TestOutcomeOfCode(t *testing.T) {
	fates := map[Code]fate{codeOK: done}
	for code := range refusals {
		if code != codeOK {
			fates[code] = rejected
		}
	}
	for _, code := range []Code{-1, -2, -3, -4, -7, -100, -122, 5, -999, -128} {
		fates[code] = unknown
	}
	for code, want := range fates {
		if got := code.fate(); got != want {
			t.Errorf("%s (%d): %d; want %d", code.Name(), code, got, want)
		}
	}
}

// The outcome of a write follows from the server's answer or, without one, from what the client
// knows.
func TestOutcomeOfWrite(t *testing.T) {
	type serve = func(p *remote, xid, op int32) bool
	for name, c := range map[string]struct {
		serve   serve
		outcome Outcome
		cut     bool
	}{
		"refused":        {func(p *remote, xid, _ int32) bool { return p.reply(xid, BadVersion) }, Outcome{Rejected: 1}, false},
		"system error":   {func(p *remote, xid, _ int32) bool { return p.reply(xid, systemError) }, Outcome{Unknown: 1}, false},
		"timeout":        {func(p *remote, xid, _ int32) bool { return p.reply(xid, operationTimeout) }, Outcome{Unknown: 1}, false},
		"unheard of":     {func(p *remote, xid, _ int32) bool { return p.reply(xid, -999) }, Outcome{Unknown: 1}, false},
		"malformed":      {func(p *remote, xid, _ int32) bool { return p.frame(shortAnswer(xid)) }, Outcome{Unknown: 1}, false},
		"no answer":      {func(p *remote, xid, op int32) bool { p.Close(); return false }, Outcome{Unknown: 1}, true},
		"another's xid":  {func(p *remote, xid, _ int32) bool { return p.reply(xid+1, codeOK) }, Outcome{Unknown: 1}, true},
		"wants identity": {func(p *remote, xid, _ int32) bool { return p.reply(xid, sessionNoAuth) && p.Close() == nil }, Outcome{Rejected: 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			answer := func(_ int, p *remote) { p.host(func(xid, op int32) bool { return c.serve(p, xid, op) }) }
			bubble(t, answer, func(t *testing.T, s *Session) {
				var recorder Recorder
				trip := NewTrip()
				err := Exec(trip.Context(recorder.Context(testContext(t))), s, SetData("/x", nil, -1))
				if err == nil || trip.Outcome != c.outcome || trip.Cut != c.cut || recorder.Written() != c.outcome || recorder.Destroyed() != c.outcome {
					t.Errorf("%v: %+v, cut %v, recorded %+v; want %+v", err, trip.Outcome, trip.Cut, recorder.Written(), c.outcome)
				}
				if got, want := c.outcome.MayHaveHappened(), c.outcome.Unknown > 0; got != want {
					t.Errorf("may have happened: %v", got)
				}
			})
		})
	}
}

// shortAnswer returns a successful reply whose Stat is truncated.
func shortAnswer(xid int32) []byte {
	var e jute.Encoder
	e.Int(xid)
	e.Long(1)
	e.Int(0, 7)
	return e.B
}

// A request that was never sent, or was withdrawn before that, is known to have no effect. A
// request that was sent and then abandoned may have one.
func TestOutcomeWithoutAnswer(t *testing.T) {
	silent := func(_ int, p *remote) { p.host(func(int32, int32) bool { return true }) }
	bubble(t, silent, func(t *testing.T, s *Session) {
		zktest.Must(t, s.Ready(testContext(t)))
		var recorder Recorder
		over, cancel := context.WithCancel(testContext(t))
		p, err := s.Pipe(recorder.Context(over), "/")
		zktest.Must(t, err)
		sent := Add(p, Delete("/sent", -1))
		synctest.Wait()
		cancel()
		late := Add(p, Delete("/late", -1))
		if got := recorder.Destroyed(); got != (Outcome{Unknown: 2}) {
			t.Errorf("on the way: %+v", got)
		}
		for _, w := range []*Pending[Written]{sent, late} {
			if _, err := w.Wait(over); err == nil {
				t.Error("there was an answer")
			}
		}
		if sent.Outcome() != (Outcome{Unknown: 1}) || late.Outcome() != (Outcome{NotSent: 1}) {
			t.Errorf("%+v, %+v", sent.Outcome(), late.Outcome())
		}
		if got := recorder.Destroyed(); got != (Outcome{Unknown: 1, NotSent: 1}) {
			t.Errorf("recorded: %+v", got)
		}
	})
}

// A Recorder counts the writes of its context, those of a transaction and of contexts with a Recorder
// of their own included, but no reads.
func TestRecorderCountsWrites(t *testing.T) {
	serve := func(_ int, p *remote) {
		p.host(func(xid, op int32) bool {
			if op == jute.OpCreate {
				return p.reply(xid, NodeExists)
			}
			return op != jute.OpSetData && p.reply(xid, operationTimeout)
		})
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		var outer, inner Recorder
		ctx := outer.Context(testContext(t))
		_ = Exec(ctx, s, Create("/a", nil, OpenACL(), CreateMode{}))
		_ = Exec(ctx, s, GetData("/a"))
		_ = Exec(inner.Context(ctx), s, Delete("/a", -1))
		over, cancel := context.WithCancel(ctx)
		cancel()
		_ = Exec(over, s, SetData("/a", nil, -1))
		txn := s.Begin()
		ended := make(chan error)
		go func() { ended <- Exec(txn.Context(ctx), s, Create("/b", nil, OpenACL(), CreateMode{})) }() // ends when Abort answers
		synctest.Wait()
		txn.Abort(errOver)
		<-ended
		if got, want := outer.Written(), (Outcome{Rejected: 1, Unknown: 1, NotSent: 2}); got != want {
			t.Errorf("outer: %+v; want %+v", got, want)
		}
		if got, want := outer.Destroyed(), (Outcome{Unknown: 1, NotSent: 1}); got != want {
			t.Errorf("outer, destroyed: %+v; want %+v", got, want)
		}
		if got, want := inner.Written(), (Outcome{Unknown: 1}); got != want {
			t.Errorf("inner: %+v; want %+v", got, want)
		}
	})
}

// A Recorder counts apart the changes that destroy data.
func TestRecorderCountsDestruction(t *testing.T) {
	changes := []Change{Creation("/a", nil, OpenACL(), CreateMode{}), NewData("/b", nil, -1), Removal("/c", -1), check("/d", 1)}
	o := Multi(changes)
	if o.size() != 4 || o.destroys() != 2 {
		t.Errorf("%d changes, of which %d destroy", o.size(), o.destroys())
	}
	acl, made, read := SetACL("/a", OpenACL(), -1), Create("/a", nil, OpenACL(), CreateMode{}), GetData("/a")
	if acl.destroys() != 1 || made.destroys() != 0 || read.destroys() != 0 || read.size() != 1 {
		t.Errorf("setACL %d, create %d, get %d of %d", acl.destroys(), made.destroys(), read.destroys(), read.size())
	}
}

// A transaction whose outcome is unknown is not sent again: a create -s in it would create two
// znodes.
func TestUnknownTransactionIsNotSentAgain(t *testing.T) {
	for _, code := range []Code{systemError, operationTimeout, -999} {
		multis := 0
		serve := func(_ int, p *remote) {
			p.host(func(xid, op int32) bool {
				if op == jute.OpMulti || op == jute.OpCreate {
					multis++
				}
				return p.reply(xid, code)
			})
		}
		bubble(t, serve, func(t *testing.T, s *Session) {
			txn := s.Begin()
			ended := make(chan error)
			for i := range 3 {
				go func() { // ends when Commit answers
					err := Exec(txn.Context(testContext(t)), s, Create(fmt.Sprintf("/n%d-", i), nil, OpenACL(), CreateMode{Sequential: true}))
					ended <- err
				}()
			}
			synctest.Wait() // until all requests have joined the transaction
			if outcome, err := txn.Commit(testContext(t)); outcome.Unknown != 3 || !errors.Is(err, code) {
				t.Errorf("%s: %+v, %v", code.Name(), outcome, err)
			}
			refusals := 0
			for range 3 {
				if err := <-ended; errors.Is(err, code) {
					refusals++
				}
			}
			if multis != 1 || refusals != 3 {
				t.Errorf("%s: %d requests, %d refusals", code.Name(), multis, refusals)
			}
		})
	}
}

// A request that the ensemble turns out not to support had no effect.
func TestOutcomeOfHangUp(t *testing.T) {
	serve := func(_ int, p *remote) {
		p.host(func(xid, op int32) bool { return op != jute.OpCreateContainer && p.reply(xid, codeOK) })
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		trip := NewTrip()
		err := Exec(trip.Context(testContext(t)), s, Create("/c", nil, OpenACL(), CreateMode{Container: true}))
		if !errors.Is(err, Unimplemented) || trip.Outcome != (Outcome{Rejected: 1}) || trip.Cut {
			t.Errorf("%v: %+v, cut %v", err, trip.Outcome, trip.Cut)
		}
	})
}
