package undo

import (
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"
	"pgregory.net/rapid"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktree"
)

// Undo leaves alone an ACL that somebody set after an import or a mirror, which did not touch it.
func TestLaterACLStays(t *testing.T) {
	h := newSandboxShell(t)
	file := t.TempDir() + "/dump"
	h.do("create /t", "create /t/a one", "create /t/b keep", "create /m", "create /m/a one", "create /m/b keep")
	h.do("export -R /t "+file, "set /t/a two", "set /m/a two", "create /n", "create /n/a one", "create /n/b keep")
	for root, line := range map[string]string{"/t": "import -R -y --overwrite " + file, "/m": "mirror -y /n /m"} {
		h.do(line)
		acl := []zk.ACL{{Perms: zk.PermAll, Scheme: "ip", ID: "127.0.0.1"}} // somebody locks it down
		zktest.Must(t, zkconn.Exec(t.Context(), h.env.Session, zkconn.SetACL(root+"/b", acl, -1)))
		h.do("undo")
		if got := h.tree(root); !strings.Contains(got[root+"/b"], "ip 127.0.0.1") || !strings.HasPrefix(got[root+"/a"], `"two"`) {
			t.Errorf("%s: there is %v", line, got)
		}
	}
}

// Undo reverts the last line, whatever the line has changed, and nothing before it.
func TestLastLine(t *testing.T) {
	h := newSandboxShell(t)
	h.records = true
	h.do("create /app", "create /app/json old", "set /app/json good", "create /src", "create /src/x x")
	for _, line := range []string{
		"create /app/oops mistake", "create -s /app/n-", "create -p /app/p/q/r x", "create -c /app/c", "create -e /app/e",
		"set /app/json bad", "delete /src/x", "deleteall -y /src", "rmr -y /src", "setAcl /app world:anyone:cdra",
		"setAcl -R /app world:anyone:cdra", "cp -R /src /dst", "cp /app/json /copy", "cp --overwrite /src/x /app/json",
		"mv /src /moved", "mirror -y /src /app", "find /app -- set {} 1", "find /src -- create {}/new",
	} {
		before := h.tree("/")
		h.oneLine(line, line)
		if maps.Equal(before, h.tree("/")) {
			t.Fatalf("%s changed nothing", line)
		}
		h.do("undo")
		h.wantTree("/", before)
	}
}

// Undo never goes further back than the last line that changed something without asking. An undo can be
// undone by its number.
func TestFurtherBack(t *testing.T) {
	h := newSandboxShell(t)
	var asked []string
	answer := false
	h.screen.Answer = func(question string) (bool, error) {
		asked = append(asked, anyAge(question))
		return answer, nil
	}
	h.do("create /a one", "set /a two", "set /a three", "undo")
	h.fails("undo", "nothing was undone")
	want := "the latest change, operation 3 (undo 2 /a), is itself an undo; to undo that, run undo 3. " +
		"Undo operation 1 (set /a), 0s ago, instead? [y/N] "
	if !slices.Equal(asked, []string{want}) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	h.do("undo 3")
	h.wantTree("/a", map[string]string{"/a": `"three" false [{31 world anyone}] persistent`})
	h.do("undo 4")
	answer = true
	h.do("undo")
	h.wantTree("/a", map[string]string{"/a": `"one" false [{31 world anyone}] persistent`})

	h.do("set /a four")
	for _, line := range []string{"setquota -n 9 /a", "delquota /a"} {
		asked, answer = nil, false
		h.do(line)
		h.fails("undo", "nothing was undone")
		change := strings.Replace(line, "-n 9 ", "", 1)
		if len(asked) != 1 || !strings.HasPrefix(asked[0], "the latest change ("+change+") was not saved. Undo operation ") {
			t.Errorf("%s: asked %q", line, asked)
		}
	}
}

// Undo of a line that created znodes leaves alone those that somebody has changed or added to since.
func TestCreatedAndChanged(t *testing.T) {
	h := newSandboxShell(t)
	h.records = true
	h.do("create /src", "create /src/a a", "create /src/b b", "create /src/c c", "cp -R /src /t")
	zktest.Must(t, zkconn.Exec(t.Context(), h.env.Session, zkconn.SetData("/t/a", []byte("theirs"), -1)))
	zktest.Must(t, h.create("/t/b/new", nil, zk.WorldACL(zk.PermAll)))
	h.fails("undo", "3 of 4 znodes have changed since operation 5")
	for _, want := range []string{
		"/t/a has changed since the operation: it is no longer as the operation created it",
		"/t/b has children that were created after the operation",
	} {
		if !strings.Contains(h.screen.Printed(), want) {
			t.Errorf("no %q in %q", want, h.screen.Printed())
		}
	}
	h.do("undo -s")
	if got := slices.Sorted(maps.Keys(h.tree("/t"))); !slices.Equal(got, []string{"/t", "/t/a", "/t/b", "/t/b/new"}) {
		t.Errorf("there is %q", got)
	}
}

// Undo of mv deletes no copy if the source cannot be restored.
func TestMoveIsNotLost(t *testing.T) {
	h := newSandboxShell(t)
	h.do("create /a", "create /a/x x", "mv /a /b", "create /a other")
	h.fails("undo", "have changed since operation 1")
	h.do("undo -s")
	if got := h.tree("/b"); len(got) != 2 {
		t.Errorf("there is %v", got)
	}
}

// Data and ACL count separately.
func TestDataAndACL(t *testing.T) {
	h := newSandboxShell(t)
	h.do("create /a one", "set /a two")
	acl := zk.WorldACL(zk.PermAll &^ zk.PermDelete)
	zktest.Must(t, zkconn.Exec(t.Context(), h.env.Session, zkconn.SetACL("/a", acl, -1)))
	h.do("undo")
	h.wantTree("/a", map[string]string{"/a": `"one" false [{23 world anyone}] persistent`})
	h.do("setAcl /a world:anyone:cdrwa")
	zktest.Must(t, zkconn.Exec(t.Context(), h.env.Session, zkconn.SetData("/a", []byte("theirs"), -1)))
	h.do("undo")
	h.wantTree("/a", map[string]string{"/a": `"theirs" false [{23 world anyone}] persistent`})
}

// The undo of a line that set data does not make an ACL its own that another client has set since.
func TestOthersACLBetweenUndos(t *testing.T) {
	h := newSandboxShell(t)
	h.do("create /a one", "setAcl /a world:anyone:crwa")
	first := h.last().N
	h.do("set /a two")
	theirs := zk.WorldACL(zk.PermRead | zk.PermWrite | zk.PermAdmin)
	zktest.Must(t, zkconn.Exec(t.Context(), h.env.Session, zkconn.SetACL("/a", theirs, -1)))
	h.do("undo")
	h.fails(fmt.Sprintf("undo %d", first), "1 of 1 znode has changed since operation")
	h.wantTree("/a", map[string]string{"/a": `"one" false [{19 world anyone}] persistent`})
}

// A line can hide a znode before it changes other things of the znode or of its subtree. All of that is
// saved without a question, and restored.
func TestHiddenByItsOwnLine(t *testing.T) {
	w := newWorld(t)
	for path, acl := range map[string][]zk.ACL{"/s": zk.WorldACL(zk.PermAll), "/s/b": hiddenACL} {
		zktest.Must(t, w.admin.create(path, []byte("new"), acl))
	}
	file := filepath.Join(w.files, "dump")
	w.admin.do("export -R /s "+file, "create /d")
	opened := append(zk.WorldACL(zk.PermAll&^zk.PermCreate), zk.DigestACL(zk.PermAll, "u", "p")...)
	zktest.Must(t, w.admin.create("/d/b", []byte("old"), opened))
	zktest.Must(t, w.admin.create("/d/b/below", []byte("text"), zk.WorldACL(zk.PermAll)))
	before := w.admin.tree("/d")
	w.shell.yes = false
	w.shell.do("import -R -y --prune " + file + " /d")
	if got := w.admin.tree("/d"); len(got) != 2 || got["/d/b"] == before["/d/b"] {
		t.Fatalf("after the import, there is %v", got)
	}
	w.shell.yes = true // the undo cannot save the hidden znode for its own undo
	w.shell.do("undo")
	w.admin.wantTree("/d", before)
}

// The children of a znode that could not be saved are saved, but undo cannot restore them.
func TestBelowAnUnsavedZnode(t *testing.T) {
	w := newWorld(t)
	w.shell.yes = true
	masked := append(zk.WorldACL(zk.PermAll&^zk.PermAdmin), zk.DigestACL(zk.PermAll, "admin", "all")...)
	w.admin.do("create /t", "create /t/a")
	zktest.Must(t, w.admin.create("/t/b", nil, masked))
	w.admin.do("create /t/b/c", "create /t/b/c/d", "create /t/z")
	w.shell.do("deleteall -y /t", "undo")
	if got := slices.Sorted(maps.Keys(w.admin.tree("/t"))); !slices.Equal(got, []string{"/t", "/t/a", "/t/z"}) {
		t.Errorf("there is %q", got)
	}
	want := "not restored, because the old state was not saved: 3 znodes"
	if !strings.HasSuffix(w.shell.screen.Notes(), want) {
		t.Errorf("%q; want %q", w.shell.screen.Notes(), want)
	}
}

// If it is unknown whether a line has created a znode, undo leaves the znode and its parents alone, and
// reverts the rest.
func TestPerhapsCreated(t *testing.T) {
	w := newWorld(t)
	w.admin.do("create /s", "create /s/new")
	zktest.Must(t, w.admin.create("/s/new/hidden", nil, hiddenACL))
	file := filepath.Join(w.files, "dump")
	w.admin.do("export -R /s "+file, "create /d", "create /d/old text")
	before := w.admin.tree("/d")
	w.proxy.CutAfterRequest(jute.OpMulti)
	if err := w.shell.try("import -R -y --prune " + file + " /d"); err == nil {
		t.Fatal("the import succeeded")
	}
	if !w.disarm() {
		t.Fatal("the connection was not cut")
	}
	w.shell.do("undo")
	got := w.admin.tree("/d")
	if _, is := got["/d/new/hidden"]; !is || len(got) != len(before)+2 || got["/d/old"] != before["/d/old"] {
		t.Errorf("there is %v", got)
	}
	if want := "/d/new has children that the operation may have created"; !strings.Contains(w.shell.screen.Notes(), want) {
		t.Errorf("%q is not in %q", want, w.shell.screen.Notes())
	}
}

// lines are lines that can change the znodes below two roots. The names are those of fill.
var lines = append(slices.Clone(destroying), "create P/new mine", "create -s P/n- mine", "create -p P/x/y/z mine",
	"cp -R Q N", "cp Q N", "mirror -y S D", "mv Q N", "find D -- set {} mine")

// known is the state of a znode that a test has read.
type known struct {
	data, acl string
	stat      zk.Stat
}

func (w *world) states(rt *rapid.T, root string) map[string]known {
	all := map[string]known{}
	for z, err := range zktree.ServerTree(w.t.Context(), w.admin.env.Session.Client, root, nil).Nodes {
		zktest.Must(rt, err)
		all[z.Path] = known{fmt.Sprintf("%q %v", z.Data, z.Data == nil), fmt.Sprint(z.ACL), *z.Stat}
	}
	return all
}

func (s known) same(other known) bool { return s.data == other.data && s.acl == other.acl }

// changedBy reports in which respects a znode was changed between two states.
func (s known) changed(other known) (data, acl bool) {
	again := s.stat.Czxid != other.stat.Czxid
	return again || s.stat.Version != other.stat.Version, again || s.stat.Aversion != other.stat.Aversion
}

// Undo reverts exactly the changes of a random line that nobody has overwritten since, znode by znode.
// The connection is cut at random, other clients change znodes between the line and the undo, and the
// shell can be killed.
func TestEachZnode(t *testing.T) {
	var cuts, restored, kept int
	w := newWorld(t)
	editor(t)
	rapid.Check(t, func(rt *rapid.T) {
		w.cases++
		root := fmt.Sprintf("/%d", w.cases)
		w.admin.do("create " + root)
		shell := *w.shell
		shell.records = true
		shell.do("addauth digest admin:all") // so that the shell can read everything
		from, _ := w.plant(rt, root+"/s")
		paths, _ := w.plant(rt, root+"/d")
		dumped := w.files + fmt.Sprint("/each", w.cases)
		w.admin.do("export -R " + from[0] + " " + dumped)
		text := rapid.SampledFrom(lines).Draw(rt, "line")
		words := fill(text, map[string]string{
			"S": from[0], "D": paths[0], "N": root + "/n", "F": dumped, plainFile: w.files + "/" + plainFile,
			"P": rapid.SampledFrom(paths).Draw(rt, "path"), "Q": rapid.SampledFrom(from).Draw(rt, "source"),
		})
		for i, word := range words {
			if rest, is := strings.CutPrefix(word, "P/"); is {
				words[i] = rapid.SampledFrom(paths).Draw(rt, "parent") + "/" + rest
			}
		}
		before := w.states(rt, root)
		last := w.lastNumber()
		dead := rapid.IntRange(0, 4).Draw(rt, "killed") == 0
		if dead {
			at := rapid.IntRange(0, 3).Draw(rt, "at")
			shell.env.Recorder = &interfering{Recorder: shell.log().Recorder(), after: func() {
				if at--; at < 0 {
					runtime.Goexit()
				}
			}}
		}
		w.arm(rt)
		var lineErr error
		var end sync.WaitGroup
		end.Go(func() {
			shell.env.Line = "line" + fmt.Sprint(w.cases)
			lineErr = shell.run(w.t.Context(), words)
		})
		end.Wait()
		shell.env.Line = ""
		shell.env.Recorder = shell.log().Recorder()
		if w.disarm() {
			cuts++
		}
		// Requests of a killed shell may still be in flight.
		zktest.Must(rt, zkconn.Exec(w.t.Context(), shell.env.Session, zkconn.Sync("/")))
		left := w.states(rt, root)
		if w.lastNumber() == last {
			if !maps.EqualFunc(before, left, known.same) {
				rt.Fatalf("%q (%v) changed something and is not recorded", words, lineErr)
			}
			return
		}
		w.others(rt, left)
		found := w.states(rt, root)
		undoErr := shell.try("undo -s")
		after := w.states(rt, root)
		told := fmt.Sprintf("%q (%v), killed: %v; undo: %v\n%s\n%s", words, lineErr, dead, undoErr, shell.screen.Printed(), shell.screen.Notes())
		all := maps.Clone(before)
		maps.Copy(all, left)
		maps.Copy(all, found)
		maps.Copy(all, after)
		unrestored := false // whether a znode that the line deleted stays away
		for p := range all {
			_, was := before[p]
			_, is := left[p]
			_, last := after[p]
			unrestored = unrestored || was && !is && (!last || !before[p].same(after[p]))
		}
		for p := range all {
			was, is, now, last := has(before, p), has(left, p), has(found, p), has(after, p)
			mine := was != is || was && before[p] != left[p] && !before[p].same(left[p])
			theirs := is != now || is && !left[p].same(found[p])
			same := now == last && found[p].same(after[p])
			back := was == last && before[p].same(after[p])
			switch {
			case theirs && is && now && was && last && before[p].stat.Czxid == found[p].stat.Czxid: // each on its own
				data, acl := left[p].changed(found[p])
				if data && after[p].data != found[p].data || acl && after[p].acl != found[p].acl {
					rt.Fatalf("%s: %s was changed by others, and undo changed it", told, p)
				}
				kept++
			case !mine && !same, theirs && !same:
				rt.Fatalf("%s: %s was not changed by the line, or by others since, and undo changed it:\n%v\n%v\n%v\n%v",
					told, p, before[p], left[p], found[p], after[p])
			case !mine || theirs:
				kept++
			case back:
				restored++
			case !has(after, dump.Parent(p)), !was && (hasOther(after, p) || unrestored), dead && !was:
				kept++
			case dead && is && strings.Contains(left[p].acl, "digest"), undoErr != nil:
				kept++
			default:
				rt.Fatalf("%s: %s is as the line left it, and undo did not restore it:\n%v\n%v\n%v\n%v",
					told, p, before[p], left[p], found[p], after[p])
			}
		}
	})
	t.Logf("%d cases, %d cuts, %d znodes restored, %d kept", w.cases, cuts, restored, kept)
}

func has(all map[string]known, path string) bool {
	_, is := all[path]
	return is
}

func hasOther(all map[string]known, path string) bool {
	for p := range all {
		if dump.Parent(p) == path {
			return true
		}
	}
	return false
}

// others makes the administrator change znodes at random.
func (w *world) others(rt *rapid.T, all map[string]known) {
	paths := slices.Sorted(maps.Keys(all))
	for range rapid.IntRange(0, 2).Draw(rt, "others") {
		p := rapid.SampledFrom(paths).Draw(rt, "theirs")
		s, ctx := w.admin.env.Session, w.t.Context()
		switch rapid.IntRange(0, 3).Draw(rt, "do") { // errors do not matter
		case 0:
			_ = zkconn.Exec(ctx, s, zkconn.SetData(p, []byte("theirs"), -1))
		case 1:
			_ = w.admin.create(p+"/theirs", []byte("theirs"), zk.WorldACL(zk.PermAll))
		case 2:
			_ = zkconn.Exec(ctx, s, zkconn.SetACL(p, append(zk.WorldACL(zk.PermAll), zk.ACL{Perms: 1, Scheme: "ip", ID: "10.9.9.9"}), -1))
		case 3:
			_ = zkconn.Exec(ctx, s, zkconn.Delete(p, -1))
		}
	}
}
