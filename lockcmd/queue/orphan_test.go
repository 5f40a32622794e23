package queue

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// newOrphanEnsemble returns an ensemble in which session 9, the first of /l, exists no longer.
func newOrphanEnsemble() *fakeEnsemble {
	f := newCaseEnsemble()
	f.make(9, "", "/l/"+lock1)
	f.make(1, "", "/l/"+lock2)
	f.gone[9] = true
	return f
}

// orphans returns the names of the orphans that locks PATH finds.
func (f *fakeEnsemble) orphans(t *testing.T) (names []string) {
	t.Helper()
	q, err := LookTwice(t.Context(), f, "/l")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range q.Contenders {
		if c.Orphan != nil {
			names = append(names, c.Node)
		}
	}
	return names
}

// An orphan is reported, with the command that removes it. The leader's table is read only
// between two readings of the queue, and the second time after a sync.
func TestOrphan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newOrphanEnsemble()
		start := time.Now()
		q, err := LookTwice(t.Context(), f, "/l")
		if err != nil || time.Since(start) < recheckPause {
			t.Fatal(err, time.Since(start))
		}
		o := q.Contenders[0].Orphan
		if o == nil || q.Contenders[1].Orphan != nil {
			t.Fatalf("%+v", q.Contenders)
		}
		if diff := cmp.Diff([]string{"read", "dump", "sync", "read", "dump", "read"}, f.calls); diff != "" {
			t.Error(diff)
		}
		want := "orphan: " + lock1 + " in the queue of /l belongs to session 0x9, which no longer exists, so no server deletes the znode; to remove it, run: unlock --force " + lock1 + " /l"
		if got := strings.Join(q.Remarks(), "\n"); got != want {
			t.Error(got)
		}
	})
}

// If all clients are connected, the queue is read once, and no server is asked for its sessions.
func TestLookTwiceAtConnectedClients(t *testing.T) {
	f := newCaseEnsemble()
	f.make(1, "", "/l/"+lock1)
	if _, err := LookTwice(t.Context(), f, "/l"); err != nil || strings.Join(f.calls, " ") != "read" {
		t.Errorf("%q, %v", f.calls, err)
	}
}

// If the leader does not list the znode, it may lack the znode, so that it cannot be removed.
func TestOrphanThatTheLeaderLacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newOrphanEnsemble()
		f.unlisted["/l/"+lock1] = true
		q, err := LookTwice(t.Context(), f, "/l")
		if err != nil || !strings.HasSuffix(q.Contenders[0].Orphan.Problem, "so no server deletes the znode; the leader does not list the znode, so the servers may disagree") {
			t.Errorf("%+v, %v", q.Contenders[0].Orphan, err)
		}
	})
}

// locks PATH does not report an orphan without proof. The function meanwhile is called between the two
// checks.
func TestNoOrphan(t *testing.T) {
	nothing := func(*fakeEnsemble) {}
	for name, test := range map[string]struct {
		before, meanwhile func(f *fakeEnsemble)
		quick             bool // no second check is necessary
	}{
		"a live session without a connection": {func(f *fakeEnsemble) { delete(f.gone, 9) }, nothing, true},
		"a connected client": {func(f *fakeEnsemble) {
			f.gone[2] = true
			f.make(2, "", "/l/"+lock1)
		}, nothing, true},
		"an owned lock":                        {func(f *fakeEnsemble) { f.make(0, "", "/l/"+lock1) }, nothing, true},
		"dump is not allowed":                  {func(f *fakeEnsemble) { f.answersDump = false }, nothing, true},
		"a follower":                           {func(f *fakeEnsemble) { f.role = "follower" }, nothing, true},
		"a table without the client's session": {func(f *fakeEnsemble) { f.gone[1] = true }, nothing, true},
		"a session that was missing once":      {nothing, func(f *fakeEnsemble) { delete(f.gone, 9) }, false},
		"a znode that is gone":                 {nothing, func(f *fakeEnsemble) { delete(f.znodes, "/l/"+lock1) }, false},
		"another znode of the same name":       {nothing, func(f *fakeEnsemble) { f.make(9, "", "/l/"+lock1) }, false},
		"another owner": {nothing, func(f *fakeEnsemble) {
			stat := *f.znodes["/l/"+lock1].Stat
			stat.EphemeralOwner = 8
			f.znodes["/l/"+lock1], f.gone[8] = Node{Stat: &stat}, true
		}, false},
		"a client that reconnects": {nothing, connectNine, false},
		"the leader changes":       {nothing, func(f *fakeEnsemble) { f.role = "follower" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newOrphanEnsemble()
				test.before(f)
				time.AfterFunc(recheckPause/2, func() {
					f.mu.Lock()
					defer f.mu.Unlock()
					test.meanwhile(f)
				})
				if got := f.orphans(t); len(got) > 0 {
					t.Error(got)
				}
				if synced := slices.Contains(f.calls, "sync"); test.quick && synced {
					t.Error("a second check")
				}
				time.Sleep(recheckPause) // until meanwhile has been called
			})
		})
	}
}

// A contender is not reported if its znode disappears, or its client connects, after the leader
// was asked for the second time.
func TestOrphanThatDisappearsLast(t *testing.T) {
	for name, change := range map[string]func(f *fakeEnsemble){
		"znode":      func(f *fakeEnsemble) { delete(f.znodes, "/l/"+lock1) },
		"connection": connectNine,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newOrphanEnsemble()
				f.onDump = func() {
					if strings.Count(strings.Join(f.calls, " "), "dump") == 2 {
						change(f)
					}
				}
				if got := f.orphans(t); len(got) > 0 {
					t.Error(got)
				}
			})
		})
	}
}

// connectNine makes the client of session 9 connect.
func connectNine(f *fakeEnsemble) {
	f.cons = func(context.Context, string) (string, error) {
		return " /h:9[1](queued=0,sid=0x9)\n /h:1[1](queued=0,sid=0x1)\n", nil
	}
}

// Cancellation ends the pause between the two checks.
func TestInterruptedBetweenChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newOrphanEnsemble()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(recheckPause/2, func() { cancel(errors.New("enough")) })
		if _, err := LookTwice(ctx, f, "/l"); err == nil || err.Error() != "enough" {
			t.Error(err)
		}
	})
}
