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
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd"
)

// saveOperation saves an operation whose dump has a given size.
func saveOperation(t *testing.T, s *store, bytes int) *entry {
	t.Helper()
	d, err := s.begin()
	zktest.Must(t, err)
	if _, err := d.Write(make([]byte, bytes)); err != nil {
		t.Fatal(err)
	}
	e := &entry{Command: "delete", Path: "/a", Time: time.Now()}
	zktest.Must(t, d.commit(e))
	return e
}

// files returns the names of the files in a store, except for the lock.
func (s *store) files(t *testing.T) (names []string) {
	t.Helper()
	all, err := os.ReadDir(s.dir)
	zktest.Must(t, err)
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
	zktest.Must(t, err)
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
		saveOperation(t, s, 1)
	}
	if list, err := s.list(); err != nil || len(list) != maxOperations || list[0].N != maxOperations+3 || len(s.files(t)) != 3*maxOperations {
		t.Errorf("%d operations, %v", len(list), err)
	}

	// Sparse files keep this test small on the disk.
	s = &store{t.TempDir()}
	for range 4 {
		e := saveOperation(t, s, 1)
		zktest.Must(t, os.Truncate(s.file(e.N, dumpFile), 60<<20))
	}
	saveOperation(t, s, 1)
	s.wantNumbers(t, 5, 4, 3, 2, 1)
	saveOperation(t, s, 17<<20)
	s.wantNumbers(t, 6, 5, 4, 3, 2)

	d, err := s.begin()
	zktest.Must(t, err)
	if _, err := d.Write(make([]byte, maxOperation)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Write([]byte{0}); !errors.Is(err, errTooLarge) {
		t.Errorf("%v", err)
	}
	zktest.Must(t, d.abort())
	s.wantNumbers(t, 6, 5, 4, 3, 2)
}

// Shells that share a store get different numbers, and do not touch the file of a shell that is
// still writing.
func TestStoreIsShared(t *testing.T) {
	dir := t.TempDir()
	a, b := &store{dir}, &store{dir}
	slow, err := a.begin()
	zktest.Must(t, err)
	if e := saveOperation(t, b, 1); e.N != 2 {
		t.Errorf("number %d", e.N)
	}
	if _, err := slow.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	zktest.Must(t, slow.commit(&entry{Command: "set", Path: "/"}))
	a.wantNumbers(t, 2, 1)

	var all sync.WaitGroup
	numbers := make(chan int, 40)
	for _, s := range []*store{a, b, {dir}, {dir}} {
		all.Go(func() {
			for range cap(numbers) / 4 {
				numbers <- saveOperation(t, s, 10).N
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

// The next operation removes a .part file that a killed shell has left behind. It removes no other
// unreadable file, because that may be the only copy of a subtree.
func TestStoreAfterKill(t *testing.T) {
	s := &store{t.TempDir()}
	saveOperation(t, s, 1)
	for name, text := range map[string]string{
		"2.part": "half a dump", "3.dump": "a dump without an entry", "4.json": "{", "5.json.123": "{}", "x.json": "{}", "-3.dump": "x",
	} {
		zktest.Must(t, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600))
	}
	s.wantNumbers(t, 1)
	if _, err := s.entry(4); err == nil || !strings.Contains(err.Error(), "4.json is damaged") {
		t.Errorf("%v", err)
	}
	if e := saveOperation(t, s, 1); e.N != 5 {
		t.Errorf("number %d", e.N)
	}
	s.wantNumbers(t, 5, 1)
	if got, want := s.files(t), []string{"-3.dump", "1.dump", "1.json", "1.list", "3.dump", "4.json", "5.dump", "5.json", "5.json.123", "5.list", "x.json"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// update does not write the entry of an operation that another shell has removed.
	e, err := s.entry(5)
	zktest.Must(t, err)
	zktest.Must(t, errors.Join(s.remove(5), s.remove(5)))
	zktest.Must(t, s.update(e))
	s.wantNumbers(t, 1)
}

// A damaged dump, a missing one, and a lock that is a symbolic link cause errors.
func TestStoreOfOthers(t *testing.T) {
	h := newSandboxShell(t)
	h.do("create /a one", "set /a two")
	dump := h.store.file(1, dumpFile)
	data, err := os.ReadFile(dump)
	zktest.Must(t, err)
	data[len(data)/2] ^= 1
	zktest.Must(t, os.WriteFile(dump, data, 0o600))
	h.fails("undo", dump)
	zktest.Must(t, os.Remove(dump))
	h.fails("undo 1", dump)
	h.fails("undo", "nothing left to undo")
	if runtime.GOOS == "windows" {
		return // on Windows, symbolic links need other permissions
	}
	zktest.Must(t, os.Remove(filepath.Join(h.store.dir, "lock")))
	zktest.Must(t, os.Symlink("/etc/passwd", filepath.Join(h.store.dir, "lock")))
	h.fails("set /a three", "not run")
	if len(h.asked) != 1 || !strings.Contains(h.asked[0], "lock is a symbolic link") {
		t.Errorf("asked %q", h.asked)
	}
}

// With two shells on one store, each undoes its own operations, and one of the other only by its
// number. It does not undo operations of other ensembles or chroots.
func TestTwoShells(t *testing.T) {
	addr, dir := zktest.Sandbox(t, sandbox.Options{}).Addr(), t.TempDir()
	a, b := newTestShell(t, addr, dir), newTestShell(t, addr, dir)
	a.do("create /app", "create /app/x one", "create /app/y one", "set /app/x two")
	b.do("set /app/y two")
	a.do("undo") // not the latest operation, which is b's
	a.wantTree("/app/x", map[string]string{"/app/x": `"one" false [{31 world anyone}] persistent`})
	a.wantTree("/app/y", map[string]string{"/app/y": `"two" false [{31 world anyone}] persistent`})
	a.fails("undo", "nothing left to undo from this shell; the latest change from another shell is operation 2 (set /app/y), ")
	a.fails("undo -n", "; to undo it, run: undo 2")
	a.wantTree("/app/y", map[string]string{"/app/y": `"two" false [{31 world anyone}] persistent`})
	a.do("undo 2")
	a.wantTree("/app/y", map[string]string{"/app/y": `"one" false [{31 world anyone}] persistent`})
	b.do("set /app/x three", "undo")

	below := newTestShell(t, addr+"/app", dir)
	below.fails("undo", "nothing left to undo; to list what was saved, run: undo -l")
	below.do("delete /x")
	n := below.last().N
	a.fails("undo", fmt.Sprintf("nothing left to undo here (operation %d was done on %s/app)", n, addr))
	undo := fmt.Sprintf("undo %d", n)
	a.fails(undo, fmt.Sprintf("operation %d was done on %s/app, but this shell is connected to %s; run connect %s/app, then undo %d", n, addr, addr, addr, n))
	elsewhere := newTestShell(t, zktest.Sandbox(t, sandbox.Options{}).Addr(), dir)
	elsewhere.fails(undo, "connect "+addr+"/app")
	below.do("undo")
	// Connect strings with a server in common are taken for the same ensemble.
	more := newTestShell(t, zktest.Refused(t)+","+addr+"/app", dir)
	more.do("delete /x")
	below.do(fmt.Sprintf("undo %d", below.last().N)) // with a number, undo does not ask
	below.wantTree("/x", map[string]string{"/x": `"one" false [{31 world anyone}] persistent`})
	if len(below.asked) > 0 {
		t.Errorf("asked %q", below.asked)
	}
}

func TestList(t *testing.T) {
	h := newSandboxShell(t)
	h.do("undo -l", "create /app", "create -e /app/e x", "deleteall /app", "undo", "create /配置 一", "set /配置 二", "undo -l")
	lines := strings.Split(h.screen.Printed(), "\n")
	if got, want := lines[len(lines)-4], regexp.MustCompile(`^  3 +\d+s  set             1       3  here     /配置$`); !want.MatchString(got) {
		t.Errorf("%q, want %s", got, want)
	}
	for _, line := range lines {
		if len([]rune(line)) > 60 {
			t.Errorf("%q does not fit into 60 columns", line)
		}
	}
	h.fails("undo -l 3", "-l cannot be combined with other flags or a number")
}

// Without a directory for the log, undo says why there is none.
func TestUndoWithoutDirectory(t *testing.T) {
	h := newSandboxShell(t)
	for _, args := range [][]string{nil, {"-l"}, {"3"}} {
		err := commandtest.Run(t.Context(), Command(Log{NoDir: errors.New("HOME is not set")}), h.env, args...)
		if want := "nothing is saved for undo: HOME is not set"; err == nil || err.Error() != want {
			t.Errorf("undo %q: %v, want %s", args, err, want)
		}
	}
}

// In a script with --undo, the old state is saved to a file from which import restores everything.
func TestToFile(t *testing.T) {
	h := newSandboxShell(t)
	lost := filepath.Join(t.TempDir(), "lost")
	saver, err := ToFile(lost, lockcmd.InQueue)
	zktest.Must(t, err)
	t.Cleanup(func() { // Windows does not remove open files
		zktest.Check(t, saver.backend.(*fileBackend).f.Close())
	})
	h.env.Mode, h.env.Recorder = commands.Batch, saver
	h.do("create /t", "create /t/a one", "create /t/b two", "create /t/b/c deep", "create -e /e", "create /read-0000000001")
	before := h.tree("/t")
	h.fails("delete /t", "Node not empty")
	h.fails("set -v 5 /t/a x", "version No is not valid")
	if _, err := os.Stat(lost); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file for nothing: %v", err)
	}
	h.do("set /t/a new", "set /t/a newer", "delete /t/b/c", "delete /e", "delete /read-0000000001", "deleteall /t")
	h.fails("delete /none", "does not exist")
	h.env.Recorder = nil
	h.do("create /t x", "create /t/shut", "setAcl /t/shut world:anyone:cdwa")
	h.env.Recorder = saver
	h.fails("deleteall /t", "nothing was done, because zksh cannot save the whole subtree /t: 1 znode of /t could not be read")
	h.env.Recorder = nil
	h.do("setAcl /t/shut world:anyone:cdrwa", "deleteall /t", "import -R --overwrite "+lost)
	h.wantTree("/t", before)
	if info, err := os.Stat(lost); err != nil || !zktest.Private(info) {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := ToFile(lost, nil); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("%v", err)
	}
	tree, err := dump.Open(t.Context(), lost)
	zktest.Must(t, err)
	defer tree.Close()
	if tree.Has("/read-0000000001") {
		t.Error("a place in a lock's queue is there")
	}
}

// undo restores nothing on another ensemble that got the name of the first, if its last zxid is
// older.
func TestOtherEnsembleOfTheSameName(t *testing.T) {
	other := zktest.Sandbox(t, sandbox.Options{}) // first, because a sandbox derives its zxids from the time at which it starts
	h := newSandboxShell(t)
	for n := range 30 { // exceed the zxids of the other sandbox, which also counts its sessions
		h.do(fmt.Sprintf("create /n%d", n))
	}
	h.do("create /a", "create /a/b old", "set /a/b new", "deleteall /a")
	next := newTestShell(t, other.Addr(), h.store.dir)
	for n := 1; n <= 2; n++ {
		e, err := next.store.entry(n)
		zktest.Must(t, err)
		e.Servers = next.env.Session.Servers().Hosts
		zktest.Must(t, next.store.write(e))
	}
	for _, line := range []string{"undo 2", "undo -n 2", "undo -s 2", "undo 1"} {
		next.fails(line, "to restore the saved znodes anyway, use import -R with the file")
	}
	next.wantTree("/a", map[string]string{})
}
