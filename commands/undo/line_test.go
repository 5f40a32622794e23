package undo

import (
	"context"
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
	h.env.Run = func(ctx context.Context, _ *commands.Env, words []commands.Word) error {
		texts := make([]string, len(words))
		for i, w := range words {
			texts[i] = w.Text
		}
		return h.run(ctx, texts)
	}
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
	if want := "would undo operations 2-6, all 5 from one line (delete /app/w-0 to delete /app/w-4):\ncreate /app/w-4\ncreate /app/w-3\n"; !strings.Contains(h.screen.Printed(), want) {
		t.Errorf("%q", h.screen.Printed())
	}
	h.wantTree("/app", map[string]string{"/app": before["/app"]})
	h.do("undo")
	if want := "undid operations 2-6, all 5 from one line (delete /app/w-0 to delete /app/w-4): 5 created\n"; !strings.HasSuffix(h.screen.Printed(), want) {
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

// If a znode has changed since, undo reverts no operation of the line. After the conflict is
// resolved by number, undo without a number reverts the rest.
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
	h.fails("undo", "nothing was done: 1 of 1 znode has changed since operation 2; to overwrite the changes, run: undo --overwrite 2")
	if now("/a") != "two" || now("/c") != "two" {
		t.Fatal("something of the line is undone")
	}
	h.do("undo --overwrite 2", "undo")
	if now("/a") != "one" || now("/b") != "one" || now("/c") != "one" {
		t.Errorf("there is %q, %q, %q", now("/a"), now("/b"), now("/c"))
	}
}

// The operations of one line count as one, up to a limit, and undo reports those that are no longer
// in the log.
func TestManyOperationsOfALine(t *testing.T) {
	s := &store{t.TempDir()}
	add := func(line string, part int) {
		t.Helper()
		d, err := s.begin()
		zktest.Must(t, err)
		zktest.Must(t, d.commit(&entry{Command: "delete", Path: "/a", Line: line, Part: part}))
	}
	for i := range maxOperations {
		add(fmt.Sprint(i), 1)
	}
	for i := range 3 * trimEvery {
		add("many", i+1)
	}
	all, err := s.list()
	if err != nil || len(all) != maxOperations-1+3*trimEvery {
		t.Fatalf("%d operations, %v", len(all), err)
	}

	h := newSandboxShell(t)
	h.do("create /a 1", "create /b 1", "create /c 1")
	h.oneLine("a", "set /a 2", "set /b 2", "set /c 2")
	zktest.Must(t, h.store.discard(1))
	h.do("undo")
	if want := "not restored: 1 earlier operation of this line, which the log no longer contains"; h.screen.Notes() != want {
		t.Errorf("%q, want %q", h.screen.Notes(), want)
	}
}

// A single command with several operations prints that one undo reverts them all. In JSON, the
// result of such an undo is one value.
func TestUndoOfACommandLine(t *testing.T) {
	h := newSandboxShell(t)
	h.do("create /a", "create /a/x", "create /a/y")
	log := h.log()
	log.Again = []string{"zksh", "undo"}
	s := log.Summary()
	h.env.Mode, h.env.Saver = commands.OneShot, s
	h.oneLine("a", "find /a -path /a/* -- delete {}")
	if got, want := s.Text(h.env), "2 operations are saved; to undo them, run zksh undo; to list them, run zksh undo -l"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	json := &commandtest.Screen{Format: render.JSON}
	h.env.Screen = json
	h.do("undo")
	want := `{"done":"undo","operations":[{"done":"undo","number":2,"command":"delete","path":"/a/y","conflicts":0,"created":1,"changed":0},` +
		`{"done":"undo","number":1,"command":"delete","path":"/a/x","conflicts":0,"created":1,"changed":0}]}` + "\n"
	if json.Printed() != want {
		t.Errorf("%s, want %s", json.Printed(), want)
	}
}
