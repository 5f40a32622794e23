package undo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd"
)

// put keeps an operation of some bytes.
func put(t *testing.T, s *store, bytes int) *entry {
	t.Helper()
	d, err := s.begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Write(make([]byte, bytes)); err != nil {
		t.Fatal(err)
	}
	e := &entry{Command: "delete", Path: "/a", Time: time.Now()}
	if err := d.keep(e); err != nil {
		t.Fatal(err)
	}
	return e
}

// files are those of a store, by name.
func (s *store) files(t *testing.T) (names []string) {
	t.Helper()
	all, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.Name() != "lock" {
			names = append(names, f.Name())
		}
		if info, err := f.Info(); err != nil || !zktest.Private(info) {
			t.Errorf("%s: %v, %v", f.Name(), info, err)
		}
	}
	return names
}

func (s *store) wantNumbers(t *testing.T, want ...int) {
	t.Helper()
	list, err := s.list()
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, e := range list {
		got = append(got, e.N)
	}
	if !slices.Equal(got, want) {
		t.Errorf("operations %d, want %d", got, want)
	}
}

func TestStoreIsBounded(t *testing.T) {
	s := &store{filepath.Join(t.TempDir(), "a", "undo")}
	s.wantNumbers(t)
	for range maxOperations + 3 {
		put(t, s, 1)
	}
	if list, err := s.list(); err != nil || len(list) != maxOperations || list[0].N != maxOperations+3 || len(s.files(t)) != 2*maxOperations {
		t.Errorf("%d operations, %v", len(list), err)
	}

	// Files with holes take no room.
	s = &store{t.TempDir()}
	for range 4 {
		e := put(t, s, 1)
		if err := os.Truncate(s.file(e.N, dumpFile), 60<<20); err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, 1)
	s.wantNumbers(t, 5, 4, 3, 2, 1)
	put(t, s, 17<<20)
	s.wantNumbers(t, 6, 5, 4, 3, 2)

	d, err := s.begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Write(make([]byte, maxOperation)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Write([]byte{0}); !errors.Is(err, errTooLarge) {
		t.Errorf("%v", err)
	}
	if err := d.drop(); err != nil {
		t.Fatal(err)
	}
	s.wantNumbers(t, 6, 5, 4, 3, 2)
}

// Shells that share a store get numbers of their own, and one that still writes is left
// alone.
func TestStoreIsShared(t *testing.T) {
	dir := t.TempDir()
	a, b := &store{dir}, &store{dir}
	slow, err := a.begin()
	if err != nil {
		t.Fatal(err)
	}
	if e := put(t, b, 1); e.N != 2 {
		t.Errorf("number %d", e.N)
	}
	if _, err := slow.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := slow.keep(&entry{Command: "set", Path: "/"}); err != nil {
		t.Fatal(err)
	}
	a.wantNumbers(t, 2, 1)

	var all sync.WaitGroup
	numbers := make(chan int, 40)
	for _, s := range []*store{a, b, {dir}, {dir}} {
		all.Go(func() {
			for range cap(numbers) / 4 {
				numbers <- put(t, s, 10).N
			}
		})
	}
	all.Wait()
	close(numbers)
	seen := map[int]bool{}
	for n := range numbers {
		if seen[n] {
			t.Errorf("%d was given twice", n)
		}
		seen[n] = true
	}
}

// What a shell was still writing when it was killed is removed by the next one. Nothing else is
// that cannot be read: it may be the only copy of a tree.
func TestStoreAfterKill(t *testing.T) {
	s := &store{t.TempDir()}
	put(t, s, 1)
	for name, text := range map[string]string{
		"2.part": "half a dump", "3.dump": "a dump without an entry", "4.json": "{", "5.json.123": "{}", "x.json": "{}", "-3.dump": "x",
	} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.wantNumbers(t, 1)
	if _, err := s.entry(4); err == nil || !strings.Contains(err.Error(), "4.json is damaged") {
		t.Errorf("%v", err)
	}
	if e := put(t, s, 1); e.N != 5 {
		t.Errorf("number %d", e.N)
	}
	s.wantNumbers(t, 5, 1)
	if got, want := s.files(t), []string{"-3.dump", "1.dump", "1.json", "3.dump", "4.json", "5.dump", "5.json", "5.json.123", "x.json"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// One that was removed by another shell is not written again.
	e, err := s.entry(5)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.remove(5), s.remove(5)); err != nil {
		t.Fatal(err)
	}
	if err := s.update(e); err != nil {
		t.Fatal(err)
	}
	s.wantNumbers(t, 1)
}

// A store that somebody else could read, or that is damaged, is told of.
func TestStoreOfOthers(t *testing.T) {
	h := sandboxed(t)
	h.do("create /a one", "set /a two")
	dump := h.store.file(1, dumpFile)
	data, err := os.ReadFile(dump)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(dump, data, 0o600); err != nil {
		t.Fatal(err)
	}
	h.fails("undo", dump)
	if err := os.Remove(dump); err != nil {
		t.Fatal(err)
	}
	h.fails("undo 1", dump)
	h.fails("undo", "nothing left to undo")
	if runtime.GOOS == "windows" {
		return // who may make links there is another matter
	}
	if err := os.Remove(filepath.Join(h.store.dir, "lock")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(h.store.dir, "lock")); err != nil {
		t.Fatal(err)
	}
	h.fails("set /a three", "not run")
	if len(h.asked) != 1 || !strings.Contains(h.asked[0], "lock is a symbolic link") {
		t.Errorf("asked %q", h.asked)
	}
}

// Two shells at once: each undoes what it has done itself, and asks before it undoes what
// another one has; elsewhere is elsewhere.
func TestTwoShells(t *testing.T) {
	addr, dir := zktest.Sandbox(t, sandbox.Options{}).Addr(), t.TempDir()
	a, b := newHand(t, addr, dir), newHand(t, addr, dir)
	a.do("create /app", "create /app/x one", "create /app/y one", "set /app/x two")
	b.do("set /app/y two")
	a.do("undo") // not the latest
	a.wantTree("/app/x", map[string]string{"/app/x": `"one" false [{31 world anyone}] persistent`})
	a.wantTree("/app/y", map[string]string{"/app/y": `"two" false [{31 world anyone}] persistent`})
	a.fails("undo", "nothing was undone")
	ask := regexp.MustCompile(`^nothing left to undo from this shell; the latest change from another shell is operation 2 \(set /app/y\), \d+s ago, by the shell \(pid \d+\)\. Undo it\? \[y/N\] $`)
	if len(a.asked) != 1 || !ask.MatchString(a.asked[0]) {
		t.Errorf("asked %q", a.asked)
	}
	a.do("undo -n")
	a.wantTree("/app/y", map[string]string{"/app/y": `"two" false [{31 world anyone}] persistent`})
	a.yes = true
	a.do("undo")
	a.wantTree("/app/y", map[string]string{"/app/y": `"one" false [{31 world anyone}] persistent`})
	b.do("set /app/x three", "undo")

	below := newHand(t, addr+"/app", dir)
	below.fails("undo", "nothing left to undo; to list what was saved, run: undo -l")
	below.do("delete /x")
	n := below.last().N
	a.fails("undo", fmt.Sprintf("nothing left to undo here (operation %d was done on %s/app)", n, addr))
	undo := fmt.Sprintf("undo %d", n)
	a.fails(undo, fmt.Sprintf("operation %d was done on %s/app, but this shell is connected to %s; run connect %s/app, then undo %d", n, addr, addr, addr, n))
	elsewhere := newHand(t, zktest.Sandbox(t, sandbox.Options{}).Addr(), dir)
	elsewhere.fails(undo, "connect "+addr+"/app")
	below.do("undo")
	// One server in common is the same ensemble.
	more := newHand(t, zktest.Refused(t)+","+addr+"/app", dir)
	more.do("delete /x")
	below.do(fmt.Sprintf("undo %d", below.last().N)) // a number needs no question
	below.wantTree("/x", map[string]string{"/x": `"one" false [{31 world anyone}] persistent`})
	if len(below.asked) > 0 {
		t.Errorf("asked %q", below.asked)
	}
}

func TestList(t *testing.T) {
	h := sandboxed(t)
	h.do("undo -l", "create /app", "create -e /app/e x", "deleteall /app", "undo", "create /配置 一", "set /配置 二", "undo -l")
	lines := strings.Split(h.screen.Printed(), "\n")
	if got, want := lines[len(lines)-3], regexp.MustCompile(`^  2 +\d+s  set             1       3  here     /配置$`); !want.MatchString(got) {
		t.Errorf("%q, want %s", got, want)
	}
	for _, line := range lines {
		if len([]rune(line)) > 60 {
			t.Errorf("%q does not fit into 60 columns", line)
		}
	}
	h.fails("undo -l 3", "-l cannot be combined with other flags or a number")
	h.store = &store{}
	h.fails("undo", "nothing is saved for undo, because XDG_STATE_HOME is not set and there is no home directory")
}

// In a script what is destroyed goes to a file that import brings all back from.
func TestToFile(t *testing.T) {
	h := sandboxed(t)
	lost := filepath.Join(t.TempDir(), "lost")
	keeper, err := ToFile(lost, lockcmd.InQueue)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // Windows removes no open file
		if err := keeper.shelf.(*file).f.Close(); err != nil {
			t.Error(err)
		}
	})
	h.env.Mode, h.env.Keeper = commands.Batch, keeper
	h.do("create /t", "create /t/a one", "create /t/b two", "create /t/b/c deep", "create -e /e", "create /read-0000000001")
	before := h.tree("/t")
	h.fails("delete /t", "Node not empty")
	h.fails("set -v 5 /t/a x", "version No is not valid")
	if _, err := os.Stat(lost); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file for nothing: %v", err)
	}
	h.do("set /t/a new", "set /t/a newer", "delete /t/b/c", "delete /e", "delete /read-0000000001", "deleteall /t")
	h.fails("delete /none", "does not exist")
	h.env.Keeper = nil
	h.do("create /t x", "create /t/shut", "setAcl /t/shut world:anyone:cdwa")
	h.env.Keeper = keeper
	h.fails("deleteall /t", "nothing was done, because zksh cannot save the whole subtree /t: 1 znode of /t could not be read")
	h.env.Keeper = nil
	h.do("setAcl /t/shut world:anyone:cdrwa", "deleteall /t", "import -R --overwrite "+lost)
	h.wantTree("/t", before)
	if info, err := os.Stat(lost); err != nil || !zktest.Private(info) {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := ToFile(lost, nil); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("%v", err)
	}
	tree, err := dump.Open(t.Context(), lost)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	if _, is := tree.Has("/read-0000000001"); is {
		t.Error("a place in a lock's queue is there")
	}
}

// Another ensemble that has got the name of the servers, and has not come as far, gets
// nothing of what was lost on the first.
func TestOtherEnsembleOfTheSameName(t *testing.T) {
	other := zktest.Sandbox(t, sandbox.Options{}) // first, as a sandbox counts from the second in which it begins
	h := sandboxed(t)
	for n := range 30 { // the other one counts its sessions, too
		h.do(fmt.Sprintf("create /n%d", n))
	}
	h.do("create /a", "create /a/b old", "set /a/b new", "deleteall /a")
	next := newHand(t, other.Addr(), h.store.dir)
	next.yes = true
	for n := 1; n <= 2; n++ {
		e, err := next.store.entry(n)
		if err != nil {
			t.Fatal(err)
		}
		e.Servers = next.env.Session.Servers().Hosts
		if err := next.store.write(e); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{"undo", "undo -n", "undo -s", "undo 1"} {
		next.fails(line, "to restore the saved znodes anyway, use import -R with the file")
	}
	next.wantTree("/a", map[string]string{})
}
