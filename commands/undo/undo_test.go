package undo

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// A damaged entry is listed by undo -l, its dump is never removed, and import can restore the dump.
func TestDamagedEntryIsKept(t *testing.T) {
	h := newSandboxShell(t)
	h.do("create /u", "create /u/a x", "create /b one", "set /b two", "deleteall /u")
	damagedFile := h.store.file(2, entryFile)
	for _, content := range []string{"x", "", "null", "{}"} {
		zktest.Must(t, os.WriteFile(damagedFile, []byte(content), 0o600))
		h.do("set /b three", "undo -l")
		if _, err := os.Stat(h.store.file(2, dumpFile)); err != nil {
			t.Fatalf("with the entry %q: %v", content, err)
		}
		row := regexp.MustCompile(`(?m)^  2     -  -               -       -  -        \(unreadable\)$`)
		if !row.MatchString(h.screen.Printed()) {
			t.Errorf("listed %q", h.screen.Printed())
		}
		note := "operation 2 is unreadable: " + damagedFile + " is damaged: "
		if way := "; to restore the saved copy, run: import -R --overwrite " + h.store.file(2, dumpFile); !strings.Contains(h.screen.Notes(), note) || !strings.HasSuffix(h.screen.Notes(), way) {
			t.Errorf("noted %q", h.screen.Notes())
		}
		h.do("undo") // skips the damaged operation
	}
	for range maxOperations + 2 {
		h.do("set /b more")
	}
	if n := h.operations(); n != maxOperations {
		t.Errorf("%d operations", n)
	}
	h.do("import -R --overwrite " + h.store.file(2, dumpFile))
	if got := h.tree("/u"); len(got) != 2 {
		t.Errorf("there is %v", got)
	}

	json := &commandtest.Screen{Format: render.JSON}
	h.env.Screen = json
	h.do("undo -l")
	want := fmt.Sprintf(`{"number":2,"state":"unreadable","reason":"%s is damaged: the file does not say which command was run, or on which path","files":["%s","%s"]}`,
		damagedFile, damagedFile, h.store.file(2, dumpFile))
	if runtime.GOOS != "windows" && !strings.Contains(json.Printed(), want) {
		t.Errorf("no %s in %.2000s", want, json.Printed())
	}
}

// A store that is a symbolic link is neither read nor written.
func TestStoreIsNoLink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("who may make links there is another matter")
	}
	h := newSandboxShell(t)
	h.do("create /a one", "set /a two")
	real, link := h.store.dir, filepath.Join(t.TempDir(), "link")
	zktest.Must(t, os.Symlink(real, link))
	h.store = &store{link}
	h.env.Recorder = h.log().Recorder()
	for _, line := range []string{"undo", "undo 1", "undo -l"} {
		h.fails(line, link+" is a symbolic link")
	}
	h.fails("set /a three", "not run")
	if len(h.asked) != 1 || !strings.Contains(h.asked[0], link+" is a symbolic link") {
		t.Errorf("asked %q", h.asked)
	}
	if files, err := os.ReadDir(real); err != nil || len(files) != 4 { // the lock, and one operation
		t.Errorf("%v, %v", files, err)
	}
}

// With --overwrite, undo restores the saved state over later changes, and saves these, so that they
// can be restored by the number of that undo.
func TestOverwrite(t *testing.T) {
	h := newSandboxShell(t)
	h.do("create /a one", "set /a two", "set /a three")
	h.fails("undo 1", "nothing was done: 1 of 1 znode has changed since operation 1; to overwrite the changes, run: undo --overwrite 1; to skip this operation, run: undo -s 1")
	if want := "/a has changed since the operation: the data is now 5 bytes (version 2), and undo would restore the saved 3 bytes:\n- three\n+ one\n"; !strings.HasSuffix(h.screen.Printed(), want) {
		t.Errorf("%q", h.screen.Printed())
	}
	h.do("undo --overwrite 1")
	h.wantTree("/a", map[string]string{"/a": `"one" false [{31 world anyone}] persistent`})
	h.do(fmt.Sprintf("undo %d", h.last().N))
	h.wantTree("/a", map[string]string{"/a": `"three" false [{31 world anyone}] persistent`})

	h.do("create /t x", "create /t/x x", "create /t/y y", "create /t/z z")
	before := h.tree("/t")
	h.do("deleteall /t", "create /t", "create /t/x other", "create /t/new", "setAcl /t/x world:anyone:cdrwa,ip:10.0.0.0/8:r")
	after := h.tree("/t")
	n := h.lastOf("deleteall")
	h.fails("undo "+fmt.Sprint(n), fmt.Sprintf("nothing was done: 2 of 4 znodes have changed since operation %d; to overwrite the changes, run: undo --overwrite %d; to restore only the rest, run: undo -s %d", n, n, n))
	h.do(fmt.Sprintf("undo -n --overwrite %d", n))
	if want := "change /t\nchange /t/x\ncreate /t/y\ncreate /t/z\n"; !strings.HasSuffix(h.screen.Printed(), want) {
		t.Errorf("%q", h.screen.Printed())
	}
	h.wantTree("/t", after)
	h.do(fmt.Sprintf("undo --overwrite %d", n))
	before["/t/new"] = after["/t/new"] // undo does not delete new znodes
	h.wantTree("/t", before)
	h.do(fmt.Sprintf("undo %d", h.last().N))
	h.wantTree("/t", after)

	h.do("create /acl", "setAcl /acl world:anyone:cdra", "setAcl /acl world:anyone:cra")
	h.fails(fmt.Sprintf("undo %d", h.last().N-1), "1 of 1 znode has changed")
	h.do(fmt.Sprintf("undo --overwrite %d", h.last().N-1))
	h.wantTree("/acl", map[string]string{"/acl": `"" true [{31 world anyone}] persistent`})
}

// Conflicts that even --overwrite cannot resolve are reported, and skipped with -s.
func TestOverwriteHasLimits(t *testing.T) {
	h := newSandboxShell(t)
	h.do("create /a one", "set /a two", "delete /a")
	h.fails("undo --overwrite 1", "nothing was done: 1 of 1 znode has changed since operation 1; 1 cannot be overwritten; to skip this operation, run: undo --overwrite -s 1")
	if want := "/a was deleted after the operation; create it, then run undo again\n"; !strings.HasSuffix(h.screen.Printed(), want) {
		t.Errorf("%q", h.screen.Printed())
	}
	h.do("create /t", "create /t/a a", "create /t/b b", "deleteall /t", "create /t", "create -e /t/a other", "create /t/b other")
	n := h.last().N
	h.fails(fmt.Sprintf("undo %d", n), "2 of 3 znodes have changed since operation 3; to overwrite the changes, run: undo --overwrite 3; 1 cannot be overwritten; to restore only the rest, run: undo --overwrite -s 3")
	h.fails(fmt.Sprintf("undo --overwrite %d", n), "1 of 3 znodes has changed since operation 3; 1 cannot be overwritten; to restore only the rest, run: undo --overwrite -s 3")
	h.do(fmt.Sprintf("undo --overwrite -s %d", n))
	if got := h.tree("/t"); !strings.HasPrefix(got["/t/b"], `"b"`) || !strings.HasPrefix(got["/t/a"], `"other"`) {
		t.Errorf("there is %v", got)
	}
}

// After undo -s, undo without a number continues with the operation before it. The partly undone
// operation can still be undone by number.
func TestPartlyUndone(t *testing.T) {
	h := newSandboxShell(t)
	h.do("create /before one", "set /before two", "create /r", "create /r/x x", "create /r/y y", "deleteall /r", "create /r other")
	h.fails("undo", "1 of 3 znodes has changed since operation 2")
	h.fails("undo", "1 of 3 znodes has changed since operation 2") // again, until the user decides
	h.do("undo -s")
	if want := "undid operation 2 (deleteall /r): 2 created\n"; !strings.HasSuffix(h.screen.Printed(), want) {
		t.Errorf("%q", h.screen.Printed())
	}
	h.do("undo -l")
	if !strings.Contains(h.screen.Printed(), " /r (partly undone)\n") {
		t.Errorf("listed %q", h.screen.Printed())
	}
	h.do("undo")
	h.wantTree("/before", map[string]string{"/before": `"one" false [{31 world anyone}] persistent`})
	h.do("undo -s 2")
	if want := "nothing was left to undo of operation 2 (deleteall /r)\n"; !strings.HasSuffix(h.screen.Printed(), want) {
		t.Errorf("%q", h.screen.Printed())
	}
	h.do("undo --overwrite 2")
	h.fails("undo 2", "has already been undone")
}

// Single commands of one terminal session undo each other's operations, but not those of a shell.
func TestCommandsUndoTheirOwn(t *testing.T) {
	addr, dir := zktest.Sandbox(t, sandbox.Options{}).Addr(), t.TempDir()
	shell := newTestShell(t, addr, dir)
	command := func(id string) (*testShell, *Recorder) {
		h := newTestShell(t, addr, dir)
		h.by = Origin{ID: id, Kind: commandLine, PID: 77, Host: shell.by.Host, Terminal: "pts/" + id}
		log := h.log()
		log.Again = []string{"zksh", "undo"}
		s := log.Recorder()
		h.env.Mode, h.env.Recorder = commands.OneShot, s
		return h, s
	}
	says := func(line, want string) *testShell {
		t.Helper()
		h, s := command("1")
		h.do(line)
		if got := s.Summary(h.env); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
		return h
	}
	shell.do("create /a one", "create /t", "create /t/x x", "create -e /t/e")
	says("create /b", "")
	says("deleteall /t", "deleteall /t: 3 znodes are saved; to restore them, run zksh undo; this does not restore 1 ephemeral znode")
	says("set /a two", "set /a: the old data is saved; to restore it, run zksh undo")
	says("setAcl -R /a world:anyone:cdrwa,ip:10.0.0.0/8:r", "setAcl -R /a: the old ACLs of 1 znode are saved; to restore them, run zksh undo")
	shell.do("create /s one", "set /s two")
	h, s := command("1")
	h.do("undo")
	h.fails("undo", "is itself an undo; to undo that, run undo 5; to undo operation 2 (set /a), 0s ago, run: undo 2")
	h.do("undo 2")
	if got, want := s.Summary(h.env), "2 operations are saved; to list them, run zksh undo -l; to undo the last one (undo 2 /a), run zksh undo 6"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	says("undo 1", "") // nothing was overwritten
	if got := h.tree("/t"); len(got) != 2 {
		t.Errorf("there is %v", got)
	}
	h.fails("undo", fmt.Sprintf("nothing left to undo from this terminal; the latest change from another shell is operation 4 (set /s), 0s ago, by the shell (pid %d); to undo it, run: undo 4", os.Getpid()))

	// In another terminal, undo reverts the operation of a single command only by its number.
	says("delete /b", "delete /b: 1 znode is saved; to restore it, run zksh undo")
	other, _ := command("2")
	other.fails("undo", "nothing left to undo from this terminal; the latest change from another shell is operation 8 (delete /b), 0s ago, by a command in pts/1; to undo it, run: undo 8")
	other.do("undo 8")
	if got := other.tree("/b"); len(got) != 1 {
		t.Errorf("there is %v", got)
	}

	// A command that the server rejects saves nothing.
	h, s = command("1")
	h.fails("set -v 77 /a x", "version No is not valid")
	if got := s.Summary(h.env); got != "" {
		t.Errorf("%q", got)
	}
}

// An undo in a script saves what it overwrites.
func TestUndoInScriptIsSaved(t *testing.T) {
	h := newSandboxShell(t)
	h.do("create /a one", "set /a two", "set /a three")
	h.env.Mode, h.env.Recorder = commands.Batch, nil
	h.do("undo --overwrite 1")
	if e := h.last(); e.Command != "undo 1" {
		t.Fatalf("the last operation is %v", e)
	}
	h.do(fmt.Sprintf("undo %d", h.last().N))
	h.wantTree("/a", map[string]string{"/a": `"three" false [{31 world anyone}] persistent`})
}

// Entries of older versions of zksh have no Origin. Undo without a number does not use them.
func TestEntriesOfOlderVersions(t *testing.T) {
	h := newSandboxShell(t)
	h.do("create /a one", "set /a two")
	e := h.last()
	e.By = nil
	zktest.Must(t, h.store.write(e))
	h.fails("undo", "operation 1 (set /a), 0s ago, by an older version of zksh; to undo it, run: undo 1")
	h.do("undo -l")
	if want := "  set             1       -  -        /a\n"; !strings.HasSuffix(h.screen.Printed(), want) {
		t.Errorf("%q", h.screen.Printed())
	}
	h.env.Mode = commands.OneShot
	h.fails("undo", "nothing left to undo from this terminal")
	h.do("undo 1")
}

// undo -l shows the Origin of each operation, with all its fields in JSON.
func TestListSaysWho(t *testing.T) {
	h := newSandboxShell(t)
	h.do("create /a one")
	for i, by := range []Origin{
		{ID: "1", Kind: prompt, PID: 12, Host: h.by.Host, Terminal: "pts/12"}, {ID: "2", Kind: prompt, PID: 13, Host: h.by.Host},
		{ID: "3", Kind: commandLine, PID: 14, Host: h.by.Host, Terminal: "pts/1"}, {ID: "4", Kind: prompt, Script: "/tmp/setup.zk", PID: 15, Host: "far"},
		h.by,
	} {
		h.do(fmt.Sprintf("set /a %d", i))
		e := h.last()
		e.By = &by
		zktest.Must(t, h.store.write(e))
	}
	h.do("undo -l")
	var who []string
	for _, m := range regexp.MustCompile(`(?m)  [13]  (\S.*?) +/a$`).FindAllStringSubmatch(h.screen.Printed(), -1) {
		who = append(who, m[1])
	}
	if want := []string{"here", "setup.zk@far", "command", "pid 13", "pts/12"}; !slices.Equal(who, want) {
		t.Errorf("%q, want %q in %s", who, want, h.screen.Printed())
	}
	json := &commandtest.Screen{Format: render.JSON}
	h.env.Screen = json
	h.do("undo -l")
	for _, want := range []string{`"by":{"id":"4","kind":"prompt","script":"/tmp/setup.zk","pid":15,"host":"far","here":false}`, `"here":true`, `"bytes":3,"fileBytes":`} {
		if !strings.Contains(json.Printed(), want) {
			t.Errorf("no %s in %s", want, json.Printed())
		}
	}
}

// All programs of one terminal session have the same Origin. Without a session, each program has
// its own, and so does each shell.
func TestWhoIsTheSame(t *testing.T) {
	one, two, far := OnCommandLine("s1", "pts/1"), OnCommandLine("s1", ""), OnCommandLine("s1", "")
	if !one.same(two) {
		t.Errorf("%v is not %v", one, two)
	}
	far.ID = ""
	others := []Origin{OnCommandLine("s2", ""), OnCommandLine("", ""), OnCommandLine("", ""), AtPrompt("pts/1"), AtPrompt("pts/1"), one, far}
	for i, a := range others {
		for _, b := range others[i+1:] {
			if a.same(b) {
				t.Errorf("%v is %v", a, b)
			}
		}
	}
	if far.same(far) || (*Origin)(nil).same(far) {
		t.Error("nobody is the same")
	}
}

// A command with more operations than the log keeps reports how many are in the log.
func TestManyOperationsOfACommand(t *testing.T) {
	h := newSandboxShell(t)
	log := h.log()
	log.By.Kind, log.Again = commandLine, []string{"zksh", "undo"}
	s := log.Recorder()
	h.env.Recorder = s
	h.do("create /a 1")
	for i := range maxOperations + 3 {
		h.do(fmt.Sprintf("set /a %d", i))
	}
	want := fmt.Sprintf("the last %d of %d operations are saved; to list them, run zksh undo -l; to undo the last one (set /a), run zksh undo", maxOperations, maxOperations+3)
	if got := s.Summary(h.env); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
