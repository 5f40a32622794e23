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

// watching has every waiter of a queue watch the one before, as recipes do.
func (f *fake) watching(names ...string) {
	if f.watch == nil {
		f.watch = map[int64][]string{}
	}
	for _, n := range names {
		waiter, ahead, _ := strings.Cut(n, " > ")
		s := f.znodes[waiter].Stat.EphemeralOwner
		f.watch[s] = append(f.watch[s], ahead)
	}
}

// scenes are what is found, with the sessions and znodes that make it.
var scenes = map[string]struct {
	make  func(f *fake)
	kind  string // empty: nothing is found
	chain string // the sessions of its steps
	end   string
}{
	"a queue": {func(f *fake) {
		f.make(1, "", "/l/"+lock1)
		f.make(2, "", "/l/"+lock2)
		f.watching("/l/" + lock2 + " > /l/" + lock1)
	}, "", "", ""},
	"a herd": {func(f *fake) {
		f.make(1, "", "/l/"+lock1)
		f.make(2, "", "/l/"+lock2)
		f.watching("/l/" + lock2 + " > /l") // a persistent watch, or a recursive one
	}, "", "", ""},
	"readers": {func(f *fake) {
		f.make(1, "", "/l/"+read2)
		f.make(1, "", "/l/"+read3)
	}, "", "", ""},
	"crossed": {func(f *fake) {
		ring(f, 3)
		for i := range 3 {
			f.watching(fmt.Sprintf("/q%d/%s > /q%d/%s", i, lock2, i, lock1))
		}
	}, circleFound, "0x2 0x1 0x3", "unlock --force " + lock1 + " /q0"},
	"twice": {func(f *fake) {
		f.make(1, "", "/l/"+lock1)
		f.make(1, "", "/l/"+lock2)
		f.watching("/l/" + lock2 + " > /l/" + lock1)
	}, twiceFound, "0x1", "unlock --force " + lock1 + " /l"},
	"an upgrade": {func(f *fake) {
		f.make(1, "", "/l/"+read2)
		f.make(1, "", "/l/"+write4)
		f.watching("/l/" + write4 + " > /l/" + read2)
	}, upgradeFound, "0x1", "unlock --force " + read2 + " /l"},
	"unwatched": {func(f *fake) {
		f.make(1, "", "/l/"+lock1)
		f.make(2, "", "/l/"+lock2)
	}, unwatched, "0x2", "unlock --force " + lock2 + " /l"},
	"a recipe of unknown watches": {func(f *fake) {
		f.make(1, "", "/l/lock-0000000001")
		f.make(2, "", "/l/lock-0000000002")
	}, "", "", ""},
	"a holder that is gone": {func(f *fake) { f.make(9, "", "/l/"+lock1) }, disconnected, "0x9", "unlock --force " + lock1 + " /l"},
	"families": {func(f *fake) {
		f.make(1, "", "/l/"+lock1)
		f.make(2, "", "/l/"+write4)
	}, ignoring, "0x1 0x2", ""},
}

// sceneFake makes an ensemble of one server that tells all. Sessions 1 to 3 are
// connected.
func sceneFake() *fake {
	f := newFake()
	f.tells = true
	f.word = func(context.Context, string) (string, error) {
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
	for name, c := range scenes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := sceneFake()
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
					if f.cuts != 1 || text.String() != "no deadlock in 1 queues below /\n" {
						t.Errorf("%d cuts, %s", f.cuts, text.String())
					}
					return
				}
				if f.cuts != 2 || time.Since(start) < between {
					t.Errorf("%d cuts in %v", f.cuts, time.Since(start))
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

// What was there in one cut only is not told: a contender has gone, or has come
// again by another transaction, or is woken, or connected, in the other.
func TestWhatPasses(t *testing.T) {
	again := func(path string) func(f *fake) {
		return func(f *fake) {
			n := f.znodes[path]
			stat := *n.Stat
			stat.Czxid = 1 << 40
			f.znodes[path] = Node{Stat: &stat}
		}
	}
	for name, meanwhile := range map[string]func(f *fake){
		"crossed":    again("/q1/" + lock1),
		"twice":      again("/l/" + lock2),
		"an upgrade": func(f *fake) { delete(f.znodes, "/l/"+read2) },
		"unwatched":  func(f *fake) { f.watching("/l/" + lock2 + " > /l/" + lock1) },
		"families":   again("/l/" + lock1),
		"a holder that is gone": func(f *fake) {
			f.word = func(context.Context, string) (string, error) { return " /h:9[1](queued=0,sid=0x9)\n", nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := sceneFake()
				scenes[name].make(f)
				time.AfterFunc(between/2, func() {
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

// What a server keeps to itself is said, with what allows it; the rest is found.
func TestNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := sceneFake()
		f.tells = false
		f.word = func(context.Context, string) (string, error) { return rejection("cons"), nil }
		f.hosts = []string{"[::1"} // nobody's address, so that no AdminServer is asked
		scenes["crossed"].make(f)
		scenes["a holder that is gone"].make(f)
		d, err := FindDeadlocks(t.Context(), f, "/")
		if err != nil || kinds(d) != circleFound || len(d.NotTold) != 3 {
			t.Fatalf("%q, %v, %q", kinds(d), err, d.NotTold)
		}
		for i, word := range []string{"dump", "cons", "wchc"} {
			if !strings.Contains(d.NotTold[i], word+" is not allowed") && word != "cons" {
				t.Errorf("%q", d.NotTold[i])
			}
		}
	})
}

// An interrupt ends the wait between the cuts.
func TestInterruptedBetweenCuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := sceneFake()
		scenes["crossed"].make(f)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(between/2, func() { cancel(errors.New("enough")) })
		if _, err := FindDeadlocks(ctx, f, "/"); err == nil || err.Error() != "enough" {
			t.Error(err)
		}
	})
}

// A command is typed as it is printed, whatever the path.
func TestCommandWord(t *testing.T) {
	for word, want := range map[string]string{"/a/b": "/a/b", "/a b": `"/a b"`, `/it's`: `"/it's"`, `/"a"`: `'/"a"'`} {
		if got := commandWord(word); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
