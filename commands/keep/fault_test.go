package keep

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-zookeeper/zk"
	"pgregory.net/rapid"

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
		if want := "it is as it was already\n"; !strings.HasSuffix(h.screen.Printed(), want) {
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
	h.fails("undo", "1 changed since")
}

// full is a shelf on a full disk.
type full struct{ after int }

func (f full) begin() (draft, error) { return &fullDraft{f.after}, nil }
func (full) update(*entry) error     { return nil }
func (full) remove(int) error        { return nil }
func (full) whole() bool             { return false }

type fullDraft struct{ left int }

func (d *fullDraft) Write(p []byte) (int, error) {
	if d.left -= len(p); d.left < 0 {
		return 0, syscall.ENOSPC
	}
	return len(p), nil
}
func (d *fullDraft) keep(*entry) error { return syscall.ENOSPC }
func (d *fullDraft) drop() error       { return nil }

// What cannot be kept is only destroyed when the person says so, and in a script never.
func TestNoPlace(t *testing.T) {
	addr := zktest.Sandbox(t, sandbox.Options{}).Addr()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := newHand(t, addr, t.TempDir())
	before := h.plant()
	for name, shelf := range map[string]shelf{
		"no space left on device": full{}, "no space left": full{1 << 20}, file + ": ": &store{filepath.Join(file, "undo")},
	} {
		h.env.Keeper = &Keeper{shelf, lockcmd.InQueue}
		for _, line := range destroyers {
			h.asked, h.yes = nil, false
			h.fails(line, "not run")
			if len(h.asked) != 1 || !strings.HasPrefix(h.asked[0], "not all of /t") || !strings.Contains(h.asked[0], name) || strings.Contains(h.asked[0], "..") {
				t.Errorf("%s: asked %q", line, h.asked)
			}
			h.env.Mode = commands.Batch
			h.fails(line, "nothing was done, because not all of /t")
			h.env.Mode = commands.ByHand
			h.wantTree("/t", before)
		}
	}
	h.yes = true
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
	for _, q := range h.asked {
		if !strings.Contains(q, "1 znode of /t") || !strings.Contains(q, "Insufficient permission : /t/shut. Go on? [y/N] ") {
			t.Errorf("asked %q", q)
		}
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
		words := strings.Fields(line)
		if err := h.run(ctx, words); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", line, err)
		}
		h.wantTree("/t", before)
	}
	if n := h.operations(); n != operations {
		t.Errorf("%d operations more", n-operations)
	}
}

// Whatever a line destroys of a tree, undo brings back.
func TestUndoBringsBack(t *testing.T) {
	h := sandboxed(t)
	h.do("addauth digest u:p")
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		root := fmt.Sprintf("/%d", n)
		paths := []string{root}
		create := func(path string) {
			data := rapid.SampledFrom([][]byte{nil, {}, []byte("text"), {0, 255, '\n'}, []byte(strings.Repeat("文", 5000))}).Draw(rt, "data")
			acl := rapid.SampledFrom([][]zk.ACL{zk.WorldACL(31), zk.WorldACL(29), zk.DigestACL(31, "u", "p"), append(zk.WorldACL(27), zk.DigestACL(31, "u", "p")...)}).Draw(rt, "acl")
			if err := h.make(path, data, acl); err != nil {
				rt.Fatal(err)
			}
		}
		create(root)
		for i := range rapid.IntRange(0, 12).Draw(rt, "size") {
			name := rapid.SampledFrom([]string{"a", "北京", "q\"", "100%", "-r", "é"}).Draw(rt, "name")
			paths = append(paths, fmt.Sprintf("%s/%s%d", rapid.SampledFrom(paths).Draw(rt, "parent"), name, i))
			create(paths[len(paths)-1])
		}
		before := h.tree(root)
		path := rapid.SampledFrom(paths).Draw(rt, "path")
		line := rapid.SampledFrom([]string{"set -- %s new", "delete -- %s", "deleteall -- %s", "rmr -- %s", "setAcl -R -- %s auth::cdrwa", "setAcl -R -- %s world:anyone:ra"}).Draw(rt, "line")
		h.yes = true
		if err := h.try(fmt.Sprintf(line, path)); err != nil {
			return // it has children, or nobody may write
		}
		if err := h.try("undo"); err != nil {
			rt.Fatalf("%s %s: %v", line, path, err)
		}
		if got := h.tree(root); fmt.Sprint(got) != fmt.Sprint(before) {
			rt.Fatalf("%s %s: %v\nbefore: %v", line, path, got, before)
		}
	})
}
