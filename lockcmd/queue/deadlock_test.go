package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// addWatches sets watches; each name has the form "WAITER > WATCHED".
func (f *fakeEnsemble) addWatches(names ...string) {
	if f.watch == nil {
		f.watch = map[int64][]string{}
	}
	for _, n := range names {
		waiter, ahead, _ := strings.Cut(n, " > ")
		s := f.znodes[waiter].Stat.EphemeralOwner
		f.watch[s] = append(f.watch[s], ahead)
	}
}

// deadlockCases are the states of queues, and the expected finding for each.
var deadlockCases = map[string]struct {
	make  func(f *fakeEnsemble)
	kind  string // expected kind; empty if there is no finding
	chain string // expected sessions of the steps
	end   string
}{
	"a queue": {func(f *fakeEnsemble) {
		f.make(1, "", "/l/"+lock1)
		f.make(2, "", "/l/"+lock2)
		f.addWatches("/l/" + lock2 + " > /l/" + lock1)
	}, "", "", ""},
	"a herd": {func(f *fakeEnsemble) {
		f.make(1, "", "/l/"+lock1)
		f.make(2, "", "/l/"+lock2)
		f.addWatches("/l/" + lock2 + " > /l") // a persistent watch, or a recursive one
	}, "", "", ""},
	"readers": {func(f *fakeEnsemble) {
		f.make(1, "", "/l/"+read2)
		f.make(1, "", "/l/"+read3)
	}, "", "", ""},
	"crossed": {func(f *fakeEnsemble) {
		makeRing(f, 3)
		for i := range 3 {
			f.addWatches(fmt.Sprintf("/q%d/%s > /q%d/%s", i, lock2, i, lock1))
		}
	}, cycleFound, "0x2 0x1 0x3", "unlock --force " + lock1 + " /q0"},
	"twice": {func(f *fakeEnsemble) {
		f.make(1, "", "/l/"+lock1)
		f.make(1, "", "/l/"+lock2)
		f.addWatches("/l/" + lock2 + " > /l/" + lock1)
	}, twiceFound, "0x1", "unlock --force " + lock1 + " /l"},
	"an upgrade": {func(f *fakeEnsemble) {
		f.make(1, "", "/l/"+read2)
		f.make(1, "", "/l/"+write4)
		f.addWatches("/l/" + write4 + " > /l/" + read2)
	}, upgradeFound, "0x1", "unlock --force " + read2 + " /l"},
	"unwatched": {func(f *fakeEnsemble) {
		f.make(1, "", "/l/"+lock1)
		f.make(2, "", "/l/"+lock2)
	}, unwatchedFound, "0x2", "unlock --force " + lock2 + " /l"},
	"a recipe of unknown watches": {func(f *fakeEnsemble) {
		f.make(1, "", "/l/lock-0000000001")
		f.make(2, "", "/l/lock-0000000002")
	}, "", "", ""},
	"a holder that is gone": {func(f *fakeEnsemble) { f.make(9, "", "/l/"+lock1) }, disconnectedFound, "0x9", "unlock --force " + lock1 + " /l"},
	"an orphan": {func(f *fakeEnsemble) {
		f.make(1, "", "/l/"+lock1)
		f.make(9, "", "/l/"+lock2)
		f.gone[9] = true
	}, orphanFound, "0x9", "unlock --force " + lock2 + " /l"},
	"an orphan that holds": {func(f *fakeEnsemble) {
		f.make(9, "", "/l/"+lock1)
		f.gone[9] = true
	}, orphanFound, "0x9", "unlock --force " + lock1 + " /l"},
	"families": {func(f *fakeEnsemble) {
		f.make(1, "", "/l/"+lock1)
		f.make(2, "", "/l/"+write4)
	}, familiesFound, "0x1 0x2", ""},
}

// newCaseEnsemble returns an ensemble of one server that answers all four-letter commands.
// Sessions 1 to 3 are connected.
func newCaseEnsemble() *fakeEnsemble {
	f := newFakeEnsemble()
	f.answersDump = true
	f.cons = func(context.Context, string) (string, error) {
		return " /h:1[1](queued=0,sid=0x1)\n /h:2[1](queued=0,sid=0x2)\n /h:3[1](queued=0,sid=0x3)\n", nil
	}
	f.make(0, "", "/l")
	return f
}

func kinds(d *Deadlocks) string {
	var all []string
	for _, f := range d.Findings {
		all = append(all, f.Kind)
	}
	return strings.Join(all, " ")
}

func TestFindDeadlocks(t *testing.T) {
	for name, c := range deadlockCases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newCaseEnsemble()
				c.make(f)
				start := time.Now()
				d, err := FindDeadlocks(t.Context(), f, "/")
				if err != nil || kinds(d) != c.kind || len(d.NotTold) > 0 {
					t.Fatalf("%q, %v, %q, want %q", kinds(d), err, d.NotTold, c.kind)
				}
				var text strings.Builder
				if err := d.Text(&text); err != nil {
					t.Fatal(err)
				}
				if c.kind == "" {
					if f.listCalls != 1 || text.String() != "no deadlock in 1 queues below /\n" {
						t.Errorf("%d cuts, %s", f.listCalls, text.String())
					}
					return
				}
				if f.listCalls != 2 && c.kind != orphanFound || time.Since(start) < recheckPause {
					t.Errorf("%d cuts in %v", f.listCalls, time.Since(start))
				}
				found := d.Findings[0]
				var chain []string
				for _, s := range found.Chain {
					chain = append(chain, s.Contender.Session)
					if !strings.Contains(text.String(), "  "+s.Contender.Session) {
						t.Error(text.String())
					}
				}
				if got := strings.Join(chain, " "); got != c.chain || found.Command != c.end || !strings.Contains(text.String(), c.end) {
					t.Errorf("%s, %q; %s", got, found.Command, text.String())
				}
			})
		})
	}
}

// A finding that only one of the two searches sees is not reported: in the other search a
// contender was gone, had been created by another transaction, had a watch or was connected.
func TestTransientFindings(t *testing.T) {
	again := func(path string) func(f *fakeEnsemble) {
		return func(f *fakeEnsemble) {
			n := f.znodes[path]
			stat := *n.Stat
			stat.Czxid = 1 << 40
			f.znodes[path] = Node{Stat: &stat}
		}
	}
	for name, meanwhile := range map[string]func(f *fakeEnsemble){
		"crossed":    again("/q1/" + lock1),
		"twice":      again("/l/" + lock2),
		"an upgrade": func(f *fakeEnsemble) { delete(f.znodes, "/l/"+read2) },
		"unwatched":  func(f *fakeEnsemble) { f.addWatches("/l/" + lock2 + " > /l/" + lock1) },
		"families":   again("/l/" + lock1),
		"a holder that is gone": func(f *fakeEnsemble) {
			f.cons = func(context.Context, string) (string, error) { return " /h:9[1](queued=0,sid=0x9)\n", nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newCaseEnsemble()
				deadlockCases[name].make(f)
				time.AfterFunc(recheckPause/2, func() {
					f.mu.Lock()
					defer f.mu.Unlock()
					meanwhile(f)
				})
				d, err := FindDeadlocks(t.Context(), f, "/")
				if err != nil || len(d.Findings) > 0 {
					t.Errorf("%q, %v", kinds(d), err)
				}
			})
		})
	}
}

// If the server rejects four-letter commands, the result says which searches were not
// possible; the other searches still work.
func TestUnavailableCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newCaseEnsemble()
		f.answersDump = false
		f.cons = func(context.Context, string) (string, error) { return rejection("cons"), nil }
		f.hosts = []string{"[::1"} // not a valid address, so that no AdminServer is queried
		deadlockCases["crossed"].make(f)
		deadlockCases["a holder that is gone"].make(f)
		d, err := FindDeadlocks(t.Context(), f, "/")
		if err != nil || kinds(d) != cycleFound || len(d.NotTold) != 3 || strings.Count(strings.Join(d.NotTold, ";"), "orphans: ") != 1 {
			t.Fatalf("%q, %v, %q", kinds(d), err, d.NotTold)
		}
		for i, word := range []string{"dump", "cons", "wchc"} { // without cons, dump is not asked for orphans
			if !strings.Contains(d.NotTold[i], word+" is not allowed") && word != "cons" {
				t.Errorf("%q", d.NotTold[i])
			}
		}
	})
}

// Cancellation ends the pause between the two searches.
func TestInterruptedBetweenSearches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newCaseEnsemble()
		deadlockCases["crossed"].make(f)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(recheckPause/2, func() { cancel(errors.New("enough")) })
		if _, err := FindDeadlocks(ctx, f, "/"); err == nil || err.Error() != "enough" {
			t.Error(err)
		}
	})
}

// The suggested command can be typed as it is printed, whatever the path.
func TestQuoteWord(t *testing.T) {
	for word, want := range map[string]string{"/a/b": "/a/b", "/a b": `"/a b"`, `/it's`: `"/it's"`, `/"a"`: `'/"a"'`} {
		if got := quoteWord(word); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
