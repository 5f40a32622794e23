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

// destroyers are lines that overwrite or delete a part of /t.
var destroyers = []string{"set /t/a other", "setAcl /t/a world:anyone:cdra", "delete /t/b/c", "deleteall /t", "setAcl -R /t/b world:anyone:cdra"}

// plant creates /t and returns its contents.
func (h *testShell) plant() map[string]string {
	h.t.Helper()
	h.do("create /t", "create /t/a old", "create /t/b", "create /t/b/c deep", "setAcl /t/b world:anyone:cdrwa,ip:10.0.0.0/8:r")
	return h.tree("/t")
}

// Undo restores everything if the connection is cut before or after any request of a command, or
// of the undo itself. If that undo fails, a second one succeeds.
func TestEveryStepCut(t *testing.T) {
	for _, line := range destroyers {
		t.Run(strings.Fields(line)[0], func(t *testing.T) {
			t.Parallel()
			p := zktest.NewProxy(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
			_, port, _ := strings.Cut(p.Addr(), ":")
			h := newTestShell(t, p.Addr()+",localhost:"+port, t.TempDir()) // the client tries the second name at once
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
					set(doing[i], countOf(doing[:i], doing[i]))
					_ = h.try(line) // may succeed in spite of the cut
					p.Disarm()
					// The cut may come only now, during the undo, which is then repeated.
					if err := h.try("undo"); err != nil && !strings.Contains(err.Error(), "nothing left to undo") {
						h.do(fmt.Sprintf("undo %d", h.lastOf(line)))
					}
					h.wantTree("/t", before)
				}
			}
			for i := range undoing {
				for _, set := range cuts(p, undoing[i]) {
					h.do(line)
					set(undoing[i], countOf(undoing[:i], undoing[i]))
					err := h.try("undo")
					p.Disarm()
					if err != nil {
						h.do(fmt.Sprintf("undo %d", h.lastOf(line)))
					}
					h.wantTree("/t", before)
				}
			}
		})
	}
}

// everyRequest makes TestEveryStepCut cut at each request; it then takes about a second for each.
var everyRequest = flag.Bool("cuts", false, "have TestEveryStepCut cut the connection at what only reads, too")

// cuts returns functions that cut the connection before a request of type op, and, if it writes,
// after it. After a read, a cut makes no difference.
func cuts(p *zktest.Proxy, op int32) []func(int32, int) <-chan struct{} {
	if jute.Writes(op) {
		return []func(int32, int) <-chan struct{}{p.CutBeforeSkipping, p.CutAfterSkipping}
	}
	if !*everyRequest {
		return nil
	}
	return []func(int32, int) <-chan struct{}{p.CutBeforeSkipping}
}

// countOf counts the requests of type op.
func countOf(of []int32, op int32) (n int) {
	for _, o := range of {
		if o == op {
			n++
		}
	}
	return n
}

// last returns the newest operation.
func (h *testShell) last() *entry {
	h.t.Helper()
	all, err := h.store.list()
	if err != nil || len(all) == 0 {
		h.t.Fatalf("%v, %v", all, err)
	}
	return all[0]
}

// lastOf returns the number of the newest operation of the line's command.
func (h *testShell) lastOf(line string) int {
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

// killed makes a Recorder that belongs to a shell that is killed just before it changes something, or
// just after.
func killed(rec commands.Recorder, after bool) *interfering {
	if after {
		return &interfering{Recorder: rec, after: runtime.Goexit}
	}
	return &interfering{Recorder: rec, before: runtime.Goexit}
}

// doKilled runs a line in a shell that is killed.
func (h *testShell) doKilled(line string) {
	h.t.Helper()
	var end sync.WaitGroup
	end.Go(func() { _ = h.try(line) })
	end.Wait()
	rec := h.log().Recorder() // the next shell with the same Origin
	h.env.Recorder = rec
}

// If a shell is killed after it has saved the old state, undo works, whether or not the command has
// taken effect.
func TestKilled(t *testing.T) {
	for _, line := range destroyers {
		h := newSandboxShell(t)
		before := h.plant()
		h.env.Recorder = killed(h.env.Recorder, false)
		h.doKilled(line)
		h.wantTree("/t", before)
		h.do("undo")
		if want := "already in the saved state\n"; !strings.HasSuffix(h.screen.Printed(), want) {
			t.Errorf("%s: %q", line, h.screen.Printed())
		}
		h.wantTree("/t", before)
		h.env.Recorder = killed(h.env.Recorder, true)
		h.doKilled(line)
		if h.last().State != begun {
			t.Errorf("%s: %v", line, h.last())
		}
		h.do("undo")
		h.wantTree("/t", before)
	}
	// Undo does not overwrite what another client has written meanwhile.
	h := newSandboxShell(t)
	h.plant()
	h.env.Recorder = killed(h.env.Recorder, false)
	h.doKilled("set /t/a other")
	saver := h.env.Recorder
	h.env.Recorder = nil
	h.do("set /t/a theirs")
	h.env.Recorder = saver
	h.fails("undo", "has changed since")
}

// fullBackend is a backend on a full disk.
type fullBackend struct {
	after  int  // bytes that can be written
	demand bool // forImport, as with --undo FILE
}

func (f fullBackend) begin() (draft, error) { return &fullDraft{f.after}, nil }
func (fullBackend) update(*entry) error     { return nil }
func (fullBackend) remove(int) error        { return nil }
func (f fullBackend) forImport() bool       { return f.demand }

type fullDraft struct{ left int }

func (d *fullDraft) Write(p []byte) (int, error) {
	if d.left -= len(p); d.left < 0 {
		return 0, syscall.ENOSPC
	}
	return len(p), nil
}
func (d *fullDraft) note([]byte) error   { return nil }
func (d *fullDraft) close() error        { return nil }
func (d *fullDraft) commit(*entry) error { return syscall.ENOSPC }
func (d *fullDraft) abort() error        { return nil }

// If the old state cannot be saved, the shell asks before it destroys anything. With --undo FILE,
// the command fails. A single command prints a message and continues.
func TestNoPlace(t *testing.T) {
	addr := zktest.Sandbox(t, sandbox.Options{}).Addr()
	file := filepath.Join(t.TempDir(), "file")
	zktest.Must(t, os.WriteFile(file, nil, 0o600))
	h := newTestShell(t, addr, t.TempDir())
	before := h.plant()
	for name, shelf := range map[string]backend{
		"no space left on device": fullBackend{}, "no space left": fullBackend{after: 1 << 20}, file: &store{filepath.Join(file, "undo")},
		"HOME is not set": Log{NoDir: errors.New("HOME is not set")}.Recorder().backend,
	} {
		h.env.Recorder = &Recorder{backend: shelf, inQueue: lockcmd.InQueue}
		for _, line := range destroyers {
			h.asked, h.yes = nil, false
			h.fails(line, "not run")
			if len(h.asked) != 1 || !strings.HasPrefix(h.asked[0], "zksh cannot save the whole subtree /t") || !strings.Contains(h.asked[0], name) || strings.Contains(h.asked[0], "..") {
				t.Errorf("%s: asked %q", line, h.asked)
			}
			h.wantTree("/t", before)
		}
	}
	h.env.Mode, h.env.Recorder = commands.Batch, &Recorder{backend: fullBackend{demand: true}, inQueue: lockcmd.InQueue}
	for _, line := range destroyers {
		h.fails(line, "nothing was done, because zksh cannot save the whole subtree /t")
		h.wantTree("/t", before)
	}
	h.env.Mode, h.env.Recorder = commands.OneShot, &Recorder{backend: fullBackend{}, inQueue: lockcmd.InQueue}
	h.do("delete /t/b/c")
	if want := "zksh cannot save the whole subtree /t/b/c for undo: no space left on device; continuing anyway"; h.screen.Alerts() != want {
		t.Errorf("%q, want %q", h.screen.Alerts(), want)
	}
	if _, exists := h.tree("/t")["/t/b/c"]; exists {
		t.Error("it is still there")
	}
	h.do("create /t/b/c")
	h.env.Mode, h.yes = commands.ByHand, true
	h.do("delete /t/b/c")
	if _, exists := h.tree("/t")["/t/b/c"]; exists {
		t.Error("it is still there")
	}
}

// If the user agrees, a subtree is saved without its unreadable znodes.
func TestUnreadable(t *testing.T) {
	h := newSandboxShell(t)
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

// A command that is interrupted while it saves the old state destroys nothing.
func TestInterrupted(t *testing.T) {
	h := newSandboxShell(t)
	before := h.plant()
	operations := h.operations()
	for _, line := range destroyers {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		words := strings.Fields(strings.Replace(line, "deleteall", "deleteall -y", 1)) // -y, because the question needs the server, too
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
