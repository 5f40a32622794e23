package undo

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/commands/transfer"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
	"github.com/zksh/zksh/internal/zktree"
	"github.com/zksh/zksh/lockcmd"
)

func TestMain(m *testing.M) { zktest.Main(m) }

// testShell is a shell with a prompt, and its user.
type testShell struct {
	t       *testing.T
	env     *commands.Env
	screen  *commandtest.Screen
	store   *store // the undo log
	by      Origin
	records bool     // whether lines with create are recorded, too
	lines   int      // number of lines so far
	asked   []string // questions so far, except those about deletions
	yes     bool     // answer to all questions; those about deletions are always answered yes
}

func newTestShell(t *testing.T, addr, dir string) *testShell {
	t.Helper()
	h := &testShell{t: t, screen: &commandtest.Screen{}, store: &store{dir}, by: AtPrompt("")}
	h.screen.Answer = func(question string) (bool, error) {
		if strings.HasPrefix(question, "delete ") || strings.HasPrefix(question, "the latest change") {
			return true, nil
		}
		h.asked = append(h.asked, question)
		return h.yes, nil
	}
	h.env = &commands.Env{Screen: h.screen, Mode: commands.ByHand, Recorder: h.log().Recorder(),
		Session: zksession.Open(t, zkconn.Config{Servers: addr, Timeout: 20 * time.Second})}
	h.env.Run = func(ctx context.Context, _ *commands.Env, words []commands.Word) error {
		texts := make([]string, len(words))
		for i, w := range words {
			texts[i] = w.Text
		}
		return h.run(ctx, texts)
	}
	return h
}

// log returns the undo log as this shell uses it.
func (h *testShell) log() Log { return Log{Dir: h.store.dir, By: h.by, Queue: lockcmd.InQueue} }

func newSandboxShell(t *testing.T) *testShell {
	t.Helper()
	return newTestShell(t, zktest.Sandbox(t, sandbox.Options{}).Addr(), t.TempDir())
}

// try runs a line. Its words are separated by spaces.
func (h *testShell) try(line string) error {
	h.t.Helper()
	return h.run(h.t.Context(), strings.Fields(line))
}

func (h *testShell) run(ctx context.Context, words []string) error {
	h.t.Helper()
	env := *h.env
	if h.lines++; env.Line == "" {
		env.Line = fmt.Sprint(h.lines)
	}
	if words[0] == "create" && !h.records {
		env.Recorder = nil
	}
	for _, c := range slices.Concat(commands.All(), []*commands.Command{Command(h.log())}, transfer.Commands()) {
		if c.Name == words[0] {
			return commandtest.Run(ctx, c, &env, words[1:]...)
		}
	}
	h.t.Fatalf("there is no command %s", words[0])
	return nil
}

// create creates a znode with data or an ACL that cannot be written as a word of a line.
func (h *testShell) create(path string, data []byte, acl []zk.ACL) error {
	err := zkconn.Exec(h.t.Context(), h.env.Session, zkconn.Create(path, data, acl, zkconn.CreateMode{}))
	return err
}

// do runs lines that must succeed.
func (h *testShell) do(lines ...string) {
	h.t.Helper()
	for _, line := range lines {
		if err := h.try(line); err != nil {
			h.t.Fatalf("%s: %v", line, err)
		}
	}
}

// age matches how long ago something happened. A slow machine can make it longer than 0 s.
var age = regexp.MustCompile(`, \d+s ago,`)

// anyAge replaces how long ago something happened by a fixed age.
func anyAge(text string) string { return age.ReplaceAllString(text, ", 0s ago,") }

// fails runs a line that must fail with an error that contains want. The age of an operation in want
// is 0s.
func (h *testShell) fails(line, want string) {
	h.t.Helper()
	if err := h.try(line); err == nil || !strings.Contains(anyAge(err.Error()), want) {
		h.t.Fatalf("%s: %v; want %s", line, err, want)
	}
}

// tree returns descriptions of all znodes at and below root, by path.
func (h *testShell) tree(root string) map[string]string {
	h.t.Helper()
	all := map[string]string{}
	for z, err := range zktree.ServerTree(h.t.Context(), h.env.Session.Client, root, nil).OrEmpty().Nodes {
		zktest.Must(h.t, err)
		all[z.Path] = fmt.Sprintf("%q %v %v %v", z.Data, z.Data == nil, z.ACL, z.Kind)
	}
	return all
}

func (h *testShell) wantTree(root string, want map[string]string) {
	h.t.Helper()
	if got := h.tree(root); !maps.Equal(got, want) {
		h.t.Fatalf("there is\n%v\nwant\n%v", got, want)
	}
}

func (h *testShell) operations() int {
	h.t.Helper()
	all, err := h.store.list()
	zktest.Must(h.t, err)
	return len(all)
}

// interfering is a Recorder that calls before once: after the old state has been saved, and before it
// is overwritten or deleted. It calls after in place of recording a result, unless after is nil.
type interfering struct {
	commands.Recorder
	before, after func()
}

func (m *interfering) Record(ctx context.Context, env *commands.Env, command, path string, change commands.Change) error {
	return m.Recorder.Record(ctx, env, command, path, func(ctx context.Context, rec zktree.Recorder) error {
		return change(ctx, interferingRecorder{rec, m})
	})
}

type interferingRecorder struct {
	zktree.Recorder
	m *interfering
}

func (r interferingRecorder) Before(ctx context.Context, images iter.Seq2[*zktree.Image, error]) error {
	err := r.Recorder.Before(ctx, images)
	if before := r.m.before; err == nil && before != nil {
		r.m.before = nil
		before()
	}
	return err
}

func (r interferingRecorder) After(e *zktree.Edit, result zktree.Result) {
	if r.m.after != nil {
		r.m.after()
	}
	r.Recorder.After(e, result)
}

func TestSingleZnodes(t *testing.T) {
	h := newSandboxShell(t)
	h.do("create /a one", "set /a two", "undo", "create /b b", "setAcl /b world:anyone:cdra", "delete /b", "set /a three")
	if h.screen.Printed() == "" || h.operations() != 5 {
		t.Fatalf("%d operations", h.operations())
	}
	before := h.tree("/a")
	h.do("undo", "undo")
	h.wantTree("/b", map[string]string{"/b": `"b" false [{29 world anyone}] persistent`})
	h.wantTree("/a", map[string]string{"/a": `"one" false [{31 world anyone}] persistent`})
	h.do("undo")
	h.wantTree("/b", map[string]string{"/b": `"b" false [{31 world anyone}] persistent`})
	h.fails("undo", "nothing left to undo")
	h.do(fmt.Sprintf("undo %d", h.lastOf("undo 5"))) // undoes an undo
	h.wantTree("/a", before)
	h.fails("undo 5", "has already been undone")
	h.fails("undo 17", "there is no operation 17; to list the operations, run: undo -l")
	h.fails("undo x", `"x" is not an operation number`)

	// A command that the server rejects destroys nothing, so nothing is saved.
	n := h.operations()
	h.fails("set -v 77 /a x", "version No is not valid")
	h.fails("delete -v 77 /a", "version No is not valid")
	h.fails("delete /none", "Node does not exist")
	h.fails("deleteall /none", "Node does not exist")
	h.do("create /a/x")
	h.fails("delete /a", "Node not empty")
	if got := h.operations(); got != n || len(h.asked) > 0 {
		t.Errorf("%d operations, asked %q", got-n, h.asked)
	}

	// Null data is restored as null, not as empty data.
	h.do("create /null", "set /null x", "undo")
	h.wantTree("/null", map[string]string{"/null": `"" true [{31 world anyone}] persistent`})
}

// If another client writes to a znode just before zksh overwrites or deletes it, undo restores the
// other client's data.
func TestSavedCopyIsLatest(t *testing.T) {
	h := newSandboxShell(t)
	h.do("create /a one", "create /b one")
	other := h.env.Session
	saver := &interfering{Recorder: h.env.Recorder}
	h.env.Recorder = saver
	overtake := func(path string) func() {
		return func() {
			zktest.Must(t, zkconn.Exec(t.Context(), other, zkconn.SetData(path, []byte("theirs"), -1)))
		}
	}
	saver.before = overtake("/a")
	h.do("set /a mine", "undo")
	h.wantTree("/a", map[string]string{"/a": `"theirs" false [{31 world anyone}] persistent`})
	saver.before = overtake("/b")
	h.do("delete /b", "undo")
	h.wantTree("/b", map[string]string{"/b": `"theirs" false [{31 world anyone}] persistent`})
	// With -v, the command fails if the znode has another version.
	saver.before = overtake("/b")
	h.fails("set -v 0 /b mine", "version No is not valid")
}

func TestConflicts(t *testing.T) {
	h := newSandboxShell(t)
	h.do("create /a one", "set /a two", "set /a three")
	h.fails("undo 1", "1 of 1 znode has changed since operation 1")
	if want := "- three\n+ one\n"; !strings.Contains(h.screen.Printed(), want) {
		t.Errorf("%q is not in %q", want, h.screen.Printed())
	}
	h.do("delete /a")
	h.fails("undo 2", "1 of 1 znode has changed since")
	h.do("create /a one")
	h.fails("undo", "1 of 1 znode has changed since") // the operation is the delete
	if want := "- one\n+ three\n"; !strings.Contains(h.screen.Printed(), want) {
		t.Errorf("%q is not in %q", want, h.screen.Printed())
	}

	h.do("create /t", "create /t/x x", "create /t/y y", "create /t/y/z z", "create /t/u u")
	before := h.tree("/t")
	h.do("deleteall /t", "create /t", "create /t/x other", "create /t/new", "setAcl /t world:anyone:cdrwa,ip:10.0.0.0/8:r")
	undo := fmt.Sprintf("undo %d", h.lastOf("deleteall"))
	h.fails(undo, "2 of 5 znodes have changed since")
	for _, want := range []string{"/t has changed since the operation: the ACL is different\n", "/t/x has changed since the operation: the data is now 5 bytes (version 0), and undo would restore the saved 1 byte:\n- other\n+ x\n"} {
		if !strings.Contains(h.screen.Printed(), want) {
			t.Errorf("%q is not in %q", want, h.screen.Printed())
		}
	}
	if got := h.tree("/t"); len(got) != 3 {
		t.Fatalf("there is %v", got)
	}
	h.do(undo + " -s")
	if got := h.tree("/t"); len(got) != 6 || got["/t/y/z"] != before["/t/y/z"] || got["/t/x"] == before["/t/x"] {
		t.Errorf("there is %v", got)
	}
	h.do("deleteall /t/x", "deleteall /t", "undo -n")
	if want := "create /t\ncreate /t/new\n"; !strings.Contains(h.screen.Printed(), want) || len(h.tree("/t")) != 0 {
		t.Errorf("%q is not in %q", want, h.screen.Printed())
	}
}

func TestWhatDoesNotComeBack(t *testing.T) {
	h := newSandboxShell(t)
	h.do("create /t", "create -e /t/e", "create -s -e /t/lock- x", "create /t/lock-0000000007", "create /t/lock-0000000007/below",
		"create /t/0123456789abcdef0123456789abcdef", "deleteall /t", "undo")
	if got := h.tree("/t"); len(got) != 2 {
		t.Errorf("there is %v", got)
	}
	if want := "not restored: 2 ephemeral znodes, 1 znode of lock queues (and their descendants)"; h.screen.Notes() != want {
		t.Errorf("%q; want %q", h.screen.Notes(), want)
	}
	h.do("create -e /e", "delete /e")
	h.fails("undo", "deleted only znodes that cannot be restored: 1 ephemeral")
	h.do("create /write-0000000001", "delete /write-0000000001")
	h.fails("undo", "deleted only znodes that cannot be restored: 1 znode of lock queues")
	h.do("create -e /e one", "set /e two", "undo") // the ephemeral znode still exists
	h.wantTree("/e", map[string]string{"/e": `"one" false [{31 world anyone}] ephemeral`})
}

func TestACLs(t *testing.T) {
	h := newSandboxShell(t)
	h.do("create /t", "create /t/a", "create /t/b", "create /t/b/c", "setAcl /t/b world:anyone:cdrwa,ip:10.0.0.0/8:r", "addauth digest u:p")
	before := h.tree("/t")
	h.do("setAcl -R /t world:anyone:ca") // afterwards, only the ACLs can be read
	h.yes = true
	h.do("undo")
	h.wantTree("/t", before)
	if len(h.asked) != 0 {
		t.Errorf("asked %q", h.asked) // the undo itself changes only what it can save
	}

	// Three undos restore the first ACLs. An ACL that another client has set stays.
	h.do("setAcl /t/b world:anyone:cdra", "setAcl -R /t auth::cdrwa", "setAcl -R /t world:anyone:cdrwa", "undo", "undo", "undo")
	h.wantTree("/t", before)
	h.do("setAcl -R /t/b world:anyone:cdra")
	h.env.Recorder = nil
	h.do("setAcl /t/b/c world:anyone:ra")
	h.fails("undo", "has changed since")
	h.do("undo -s")
	after := h.tree("/t")
	if after["/t/b"] != before["/t/b"] || after["/t/b/c"] == before["/t/b/c"] {
		t.Errorf("there is %v", after)
	}
}

// Undo restores what import overwrote and deleted, unless it has changed since.
func TestImport(t *testing.T) {
	h := newSandboxShell(t)
	file := t.TempDir() + "/dump"
	h.do("create /t", "create /t/a old", "create /t/b old", "create /t/c old", "setAcl /t/c world:anyone:cdrwa,ip:10.0.0.0/8:r")
	h.do("export -R /t "+file, "set /t/a new", "setAcl /t/b world:anyone:cra", "delete /t/c", "create /t/d", "create /t/d/e gone")
	before := h.tree("/t")
	h.do("import -R --prune " + file)
	after := h.tree("/t")
	h.do("undo")
	h.wantTree("/t", before)
	h.do(fmt.Sprintf("undo %d", h.last().N))
	h.wantTree("/t", after)

	h.do("set /t/a new", "import -R --overwrite "+file, "set /t/a newer")
	h.fails(fmt.Sprintf("undo %d", h.lastOf("import")), "has changed since")
}

// Undo of mv moves the subtree back.
func TestMove(t *testing.T) {
	h := newSandboxShell(t)
	before := h.plant()
	h.do("mv /t /u", "undo")
	h.wantTree("/t", before)
	if got := h.tree("/u"); len(got) != 0 {
		t.Errorf("there is %v", got)
	}
	n := h.last().N
	h.do("create /u")
	h.fails("mv /t /u", "/u")
	if e := h.last(); e.N != n {
		t.Errorf("%v is kept for nothing", e)
	}
}

// import can replace an ACL that permits writing by one that permits only the creation of children.
func TestImportOpensLast(t *testing.T) {
	w := newWorld(t)
	a := w.admin
	a.do("create /s new", "create /s/x new", "create /s/x/y y", "setAcl /s/x world:anyone:rwda", "create /d old", "create /d/x old world:anyone:crda")
	for _, root := range []string{"/s", "/d"} {
		a.do("export -R " + root + " " + w.files + root)
	}
	a.do("import -R -y --overwrite " + w.files + "/s /d")
	if text := a.screen.Notes(); !strings.Contains(text, "created 1 znode at and below /d; 2 changed;") {
		t.Error(text)
	}
	a.do("import -R -y --overwrite " + w.files + "/d /d")
	want := map[string]string{
		"/d":     `"old" false [{31 world anyone}] persistent`,
		"/d/x":   `"old" false [{29 world anyone}] persistent`,
		"/d/x/y": `"y" false [{31 world anyone}] persistent`,
	}
	for path, text := range a.tree("/d") {
		if text != want[path] {
			t.Errorf("%s is %s; want %s", path, text, want[path])
		}
	}
}
