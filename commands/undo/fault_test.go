package undo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd"
)

// destroyers are lines that destroy something of /t.
var destroyers = []string{"set /t/a other", "setAcl /t/a world:anyone:cdra", "delete /t/b/c", "deleteall /t", "setAcl -R /t/b world:anyone:cdra"}

// plant makes a tree for them.
func (h *hand) plant() map[string]string {
	h.t.Helper()
	h.do("create /t", "create /t/a old", "create /t/b", "create /t/b/c deep", "setAcl /t/b world:anyone:cdrwa,ip:10.0.0.0/8:r")
	return h.tree("/t")
}

// The connection is cut before and behind each request of a command, and of its undo:
// whatever has become of it, undo brings all back, if need be when asked again.
func TestEveryStepCut(t *testing.T) {
	for _, line := range destroyers {
		t.Run(strings.Fields(line)[0], func(t *testing.T) {
			t.Parallel()
			p := zktest.NewProxy(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
			_, port, _ := strings.Cut(p.Addr(), ":")
			h := newHand(t, p.Addr()+",localhost:"+port, t.TempDir()) // the other name is tried at once
			before := h.plant()
			steps := func(line string) []int32 {
				t.Helper()
				p.Requests()
				h.do(line)
				return p.Requests()
			}
			doing, undoing := steps(line), steps("undo")
			h.wantTree("/t", before)
			for i := range doing {
				for _, set := range cuts(p, doing[i]) {
					set(doing[i], same(doing[:i], doing[i]))
					_ = h.try(line)         // it may have been done all the same
					p.CutBeforeRequest(-77) // nothing more
					// The cut may come late, and once more.
					if err := h.try("undo"); err != nil && !strings.Contains(err.Error(), "nothing left to undo") {
						h.do(fmt.Sprintf("undo %d", h.lastOf(line)))
					}
					h.wantTree("/t", before)
				}
			}
			for i := range undoing {
				for _, set := range cuts(p, undoing[i]) {
					h.do(line)
					set(undoing[i], same(undoing[:i], undoing[i]))
					err := h.try("undo")
					p.CutBeforeRequest(-77)
					if err != nil {
						h.do(fmt.Sprintf("undo %d", h.lastOf(line)))
					}
					h.wantTree("/t", before)
				}
			}
		})
	}
}

// everyRequest makes TestEveryStepCut take a second for each request.
var everyRequest = flag.Bool("cuts", false, "have TestEveryStepCut cut the connection at what only reads, too")

// cuts are before a request, and behind one that changes something: whether another was
// done does not matter.
func cuts(p *zktest.Proxy, op int32) []func(int32, int) <-chan struct{} {
	if jute.Writes(op) {
		return []func(int32, int) <-chan struct{}{p.CutBeforeSkipping, p.CutAfterSkipping}
	}
	if !*everyRequest {
		return nil
	}
	return []func(int32, int) <-chan struct{}{p.CutBeforeSkipping}
}

// same counts requests of one kind.
func same(of []int32, op int32) (n int) {
	for _, o := range of {
		if o == op {
			n++
		}
	}
	return n
}

// last is the newest operation.
func (h *hand) last() *entry {
	h.t.Helper()
	all, err := h.store.list()
	if err != nil || len(all) == 0 {
		h.t.Fatalf("%v, %v", all, err)
	}
	return all[0]
}

// lastOf is the number of the newest operation that is no undo.
func (h *hand) lastOf(line string) int {
	h.t.Helper()
	all, err := h.store.list()
	for _, e := range all {
		if strings.HasPrefix(line, e.Command) {
			return e.N
		}
	}
	h.t.Fatalf("%s is not kept: %v", line, err)
	return 0
}

// killed is the keeper of a shell that is killed when it begins to destroy, or when it
// has destroyed.
type killed struct {
	commands.Keeper
	after bool
}

func (k killed) Around(ctx context.Context, env *commands.Env, l commands.Loss, destroy commands.Destroy) error {
	var end sync.WaitGroup
	end.Go(func() {
		_ = k.Keeper.Around(ctx, env, l, func(ctx context.Context, version int32) error {
			if k.after {
				if err := destroy(ctx, version); err != nil {
					panic(err)
				}
			}
			runtime.Goexit()
			return nil
		})
	})
	end.Wait()
	return nil
}

// A shell that is killed between keeping and destroying has destroyed nothing, and undo
// knows; so it does of one that is killed behind that.
func TestKilled(t *testing.T) {
	for _, line := range destroyers {
		h := sandboxed(t)
		before, keeper := h.plant(), h.env.Keeper
		h.env.Keeper = killed{keeper, false}
		h.do(line)
		h.wantTree("/t", before)
		h.do("undo")
		if want := "already in the saved state\n"; !strings.HasSuffix(h.screen.Printed(), want) {
			t.Errorf("%s: %q", line, h.screen.Printed())
		}
		h.wantTree("/t", before)
		h.env.Keeper = killed{keeper, true}
		h.do(line)
		if h.last().State != begun {
			t.Errorf("%s: %v", line, h.last())
		}
		h.env.Keeper = keeper
		h.do("undo")
		h.wantTree("/t", before)
	}
	// What somebody else has written meanwhile is theirs.
	h := sandboxed(t)
	h.plant()
	keeper := h.env.Keeper
	h.env.Keeper = killed{keeper, false}
	h.do("set /t/a other")
	h.env.Keeper = nil
	h.do("set /t/a theirs")
	h.env.Keeper = keeper
	h.fails("undo", "has changed since")
}

// full is a shelf on a full disk.
type full struct {
	after  int
	demand bool // as with --undo FILE
}

func (f full) begin() (draft, error) { return &fullDraft{f.after}, nil }
func (full) update(*entry) error     { return nil }
func (full) remove(int) error        { return nil }
func (f full) whole() bool           { return f.demand }

type fullDraft struct{ left int }

func (d *fullDraft) Write(p []byte) (int, error) {
	if d.left -= len(p); d.left < 0 {
		return 0, syscall.ENOSPC
	}
	return len(p), nil
}
func (d *fullDraft) keep(*entry) error { return syscall.ENOSPC }
func (d *fullDraft) drop() error       { return nil }

// What cannot be saved is only destroyed when the person says so. Where saving was demanded it
// never is, and a command that a person has typed in another shell says so and goes on.
func TestNoPlace(t *testing.T) {
	addr := zktest.Sandbox(t, sandbox.Options{}).Addr()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := newHand(t, addr, t.TempDir())
	before := h.plant()
	for name, shelf := range map[string]shelf{
		"no space left on device": full{}, "no space left": full{after: 1 << 20}, file: &store{filepath.Join(file, "undo")},
	} {
		h.env.Keeper = &Keeper{shelf: shelf, queue: lockcmd.InQueue}
		for _, line := range destroyers {
			h.asked, h.yes = nil, false
			h.fails(line, "not run")
			if len(h.asked) != 1 || !strings.HasPrefix(h.asked[0], "zksh cannot save the whole subtree /t") || !strings.Contains(h.asked[0], name) || strings.Contains(h.asked[0], "..") {
				t.Errorf("%s: asked %q", line, h.asked)
			}
			h.wantTree("/t", before)
		}
	}
	h.env.Mode, h.env.Keeper = commands.Batch, &Keeper{shelf: full{demand: true}, queue: lockcmd.InQueue}
	for _, line := range destroyers {
		h.fails(line, "nothing was done, because zksh cannot save the whole subtree /t")
		h.wantTree("/t", before)
	}
	h.env.Mode, h.env.Keeper = commands.OneShot, &Keeper{shelf: full{}, queue: lockcmd.InQueue}
	h.do("delete /t/b/c")
	if want := "zksh cannot save the whole subtree /t/b/c for undo: no space left on device; continuing anyway"; h.screen.Alerts() != want {
		t.Errorf("%q, want %q", h.screen.Alerts(), want)
	}
	if _, there := h.tree("/t")["/t/b/c"]; there {
		t.Error("it is still there")
	}
	h.do("create /t/b/c")
	h.env.Mode, h.yes = commands.ByHand, true
	h.do("delete /t/b/c")
	if _, there := h.tree("/t")["/t/b/c"]; there {
		t.Error("it is still there")
	}
}

// Of what may not be read the rest is kept, when the person says so.
func TestUnreadable(t *testing.T) {
	h := sandboxed(t)
	h.do("create /t", "create /t/a", "create /t/shut", "setAcl /t/shut world:anyone:cdwa", "create /t/z")
	h.fails("deleteall /t", "not run")
	h.fails("set /t/shut x", "not run")
	h.fails("delete /t/shut", "not run")
	want := []string{"zksh cannot save the whole subtree /t for undo: 1 znode of /t could not be read: Insufficient permission : /t/shut. Continue? [y/N] "}
	for range 2 {
		want = append(want, "no permission to read /t/shut, so undo will not be able to restore it. Continue? [y/N] ")
	}
	if !slices.Equal(h.asked, want) {
		t.Errorf("asked %q", h.asked)
	}
	h.yes = true
	h.do("deleteall /t", "undo")
	if got := h.tree("/t"); len(got) != 3 {
		t.Errorf("there is %v", got)
	}
}

// An interruption before all is kept has destroyed nothing.
func TestInterrupted(t *testing.T) {
	h := sandboxed(t)
	before := h.plant()
	operations := h.operations()
	for _, line := range destroyers {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		words := strings.Fields(strings.Replace(line, "deleteall", "deleteall -y", 1)) // whose question needs the server, too
		if err := h.run(ctx, words); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", line, err)
		}
		path := words[slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "/t") })]
		if want := fmt.Sprintf("nothing was done, because zksh was still saving %s for undo", path); !strings.HasSuffix(h.screen.Alerts(), want) {
			t.Errorf("%s: said %q", line, h.screen.Alerts())
		}
		h.wantTree("/t", before)
	}
	if n := h.operations(); n != operations {
		t.Errorf("%d operations more", n-operations)
	}
}
