package undo

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

// oneLine runs commands as operations of a single typed line.
func (h *testShell) oneLine(id string, lines ...string) {
	h.t.Helper()
	h.env.Line = id
	defer func() { h.env.Line = "" }()
	h.do(lines...)
}

// undo without a number undoes all operations of one typed line.
func TestUndoOfALine(t *testing.T) {
	h := newSandboxShell(t)
	h.do("create /before one", "set /before two", "create /app")
	for i := range 5 {
		h.do(fmt.Sprintf("create /app/w-%d data%d", i, i))
	}
	before := h.tree("/app")
	h.oneLine("a", "find /app -name w-* -- delete {}")
	h.wantTree("/app", map[string]string{"/app": before["/app"]})
	h.do("undo -n")
	if want := "would undo operation 2 (delete /app/w-0 to delete /app/w-4):\ncreate /app/w-0\ncreate /app/w-1\n"; !strings.Contains(h.screen.Printed(), want) {
		t.Errorf("%q", h.screen.Printed())
	}
	h.wantTree("/app", map[string]string{"/app": before["/app"]})
	h.do("undo")
	if want := "undid operation 2 (delete /app/w-0 to delete /app/w-4): 5 created\n"; !strings.HasSuffix(h.screen.Printed(), want) {
		t.Errorf("%q", h.screen.Printed())
	}
	h.wantTree("/app", before)

	// A line can change the same znode several times, as source does. Each undo is saved, too.
	h.oneLine("b", "set /app/w-0 x", "set /app/w-0 y", "delete /app/w-1", "deleteall /app")
	h.do("undo")
	h.wantTree("/app", before)
	h.do("undo")
	h.wantTree("/before", map[string]string{"/before": `"one" false [{31 world anyone}] persistent`})
	h.fails("undo", "there is nothing left to undo")
}

// If a znode has changed since, undo reverts nothing of the line, unless it may overwrite the change.
func TestUndoOfALineThatHasChanged(t *testing.T) {
	h := newSandboxShell(t)
	h.do("create /a one", "create /b one", "create /c one")
	h.oneLine("a", "set /a two", "set /b two", "set /c two")
	if err := zkconn.Exec(t.Context(), h.env.Session, zkconn.SetData("/b", []byte("other"), -1)); err != nil { // another client's write
		t.Fatal(err)
	}
	now := func(path string) string {
		node, err := zkconn.Do(t.Context(), h.env.Session, zkconn.GetData(path))
		zktest.Must(t, err)
		return string(node.Data)
	}
	h.fails("undo", "nothing was done: 1 of 3 znodes has changed since operation 1; to overwrite the changes, run: undo --overwrite 1")
	if now("/a") != "two" || now("/c") != "two" {
		t.Fatal("something of the line is undone")
	}
	h.do("undo --overwrite 1")
	if now("/a") != "one" || now("/b") != "one" || now("/c") != "one" {
		t.Errorf("there is %q, %q, %q", now("/a"), now("/b"), now("/c"))
	}
}

// A line is one operation, however many commands it runs, also if they change the same znode.
func TestManyCommandsOfALine(t *testing.T) {
	h := newSandboxShell(t)
	h.records = true
	h.do("create /a 1")
	var lines []string
	for i := range maxOperations/2 + 1 {
		lines = append(lines, fmt.Sprintf("set /a %d", i), fmt.Sprintf("create /b%d", i))
	}
	h.oneLine("a", append(lines, "delete /b7", "create /b7 again", "delete /b8")...)
	if n := h.operations(); n != 2 {
		t.Fatalf("%d operations", n)
	}
	h.do("undo")
	h.wantTree("/a", map[string]string{"/a": `"1" false [{31 world anyone}] persistent`})
	if got := h.tree("/"); len(got) != 5 {
		t.Errorf("there is %v", got)
	}
}

// A single command with several operations prints that one undo reverts them all. In JSON, the
// result of such an undo is one value.
func TestUndoOfACommandLine(t *testing.T) {
	h := newSandboxShell(t)
	h.do("create /a", "create /a/x", "create /a/y")
	log := h.log()
	log.Again = []string{"zksh", "undo"}
	s := log.Recorder()
	h.env.Mode, h.env.Recorder = commands.OneShot, s
	h.oneLine("a", "find /a -path /a/* -- delete {}")
	if got, want := s.Summary(h.env), "delete /a/x to delete /a/y: 2 znodes are saved; to restore them, run zksh undo"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	json := &commandtest.Screen{Format: render.JSON}
	h.env.Screen = json
	h.do("undo")
	want := `{"done":"undo","number":1,"command":"delete","path":"/a/x","conflicts":0,"created":2,"changed":0,"deleted":0}` + "\n"
	if json.Printed() != want {
		t.Errorf("%s, want %s", json.Printed(), want)
	}
}
