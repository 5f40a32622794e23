package undo

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"pgregory.net/rapid"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/commands/transfer"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
	"github.com/zksh/zksh/lockcmd"
)

// destroying has lines for every command that destroys something. In them S and D are
// the roots of two subtrees, P is a znode of D, Q one of S, N a path that is free, and F
// a dump of S.
var destroying = []string{
	"set -- P new", "set -v 0 P new", "delete -- P", "deleteall -y P", "rmr P", "edit P",
	"setAcl -- P world:anyone:cdra", "setAcl -R -- P auth::cdrwa", "setAcl -R -- P world:anyone:ra",
	"mirror -y S D", "cp -R --overwrite S D", "cp --overwrite Q P", "mv P N", "mv D N",
	"import -R -y --overwrite F D", "import -R -y --prune F D", "import P " + plainFile,
}

// plainFile stands for a file without a tree.
const plainFile = "PLAIN"

// The lines above leave out no command.
func TestDestroyingIsComplete(t *testing.T) {
	for _, c := range slices.Concat(commands.All(), transfer.Commands()) {
		drawn := slices.ContainsFunc(destroying, func(line string) bool { return strings.Fields(line)[0] == c.Name })
		if c.Effect.Has(commands.Destroys) && !drawn {
			t.Errorf("%s destroys something, and no line has it", c.Name)
		}
	}
}

// world is a server, a shell behind a proxy, and an administrator who sees everything.
type world struct {
	t     *testing.T
	proxy *zktest.Proxy
	hand  *hand // the shell
	admin *hand
	files string
	cases int
}

func newWorld(t *testing.T) *world {
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	w := &world{t: t, proxy: zktest.NewProxy(t, server), files: t.TempDir()}
	_, port, _ := strings.Cut(w.proxy.Addr(), ":")
	w.hand = newHand(t, w.proxy.Addr()+",localhost:"+port, t.TempDir()) // the other name is tried at once
	w.hand.do("addauth digest u:p")
	w.hand.yes = true
	w.admin = &hand{t: t, screen: &commandtest.Screen{}, store: &store{t.TempDir()}}
	w.admin.env = &commands.Env{Screen: w.admin.screen, Mode: commands.ByHand,
		Session: zksession.Open(t, zkconn.Config{Servers: server, Timeout: 20 * time.Second})}
	w.admin.do("addauth digest admin:all", "addauth digest u:p")
	if err := os.WriteFile(filepath.Join(w.files, plainFile), []byte("plain"), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

// hiddenACL is the ACL of a znode that only the administrator may read.
var hiddenACL = append(zk.WorldACL(zk.PermAll&^zk.PermRead), zk.DigestACL(zk.PermAll, "admin", "all")...)

var (
	someData = [][]byte{nil, {}, []byte("text"), {0, 255, '\n'}, []byte(strings.Repeat("文", 5000))}
	someACLs = [][]zk.ACL{zk.WorldACL(31), zk.WorldACL(31), zk.WorldACL(29), zk.DigestACL(31, "u", "p"),
		append(zk.WorldACL(27), zk.DigestACL(31, "u", "p")...), hiddenACL}
)

// plant makes a subtree and returns its paths and those that the shell may not read.
func (w *world) plant(rt *rapid.T, root string) (paths []string, hidden map[string]bool) {
	hidden = map[string]bool{}
	create := func(path string) {
		data := someData[rapid.IntRange(0, len(someData)-1).Draw(rt, "data")] // 15 kB are not to be logged
		acl := rapid.SampledFrom(someACLs).Draw(rt, "acl")
		if path == root {
			acl = zk.WorldACL(31)
		}
		if err := w.admin.make(path, data, acl); err != nil {
			rt.Fatal(err)
		}
		paths = append(paths, path)
		hidden[path] = &acl[0] == &hiddenACL[0] || hidden[path[:strings.LastIndexByte(path, '/')]]
	}
	create(root)
	for range rapid.IntRange(0, 8).Draw(rt, "size") {
		name := rapid.SampledFrom([]string{"a", "b", "北京", "q\"", "100%", "-r"}).Draw(rt, "name")
		if path := rapid.SampledFrom(paths).Draw(rt, "parent") + "/" + name; !slices.Contains(paths, path) {
			create(path)
		}
	}
	return paths, hidden
}

// fill puts paths into a line.
func fill(line string, at map[string]string) []string {
	words := strings.Fields(line)
	for i, word := range words {
		if path, is := at[word]; is {
			words[i] = path
		}
	}
	return words
}

// Whatever a line destroys, with znodes that may not be read on either side, with the
// connection cut before or behind any of its requests, at the prompt and in a script:
// the copy is there if and only if something was destroyed, or may have been, and undo
// restores exactly that.
func TestUndoBringsBack(t *testing.T) {
	editor := filepath.Join(t.TempDir(), "editor")
	if err := os.WriteFile(editor, []byte("#!/bin/sh\nprintf edited > \"$1\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("VISUAL", editor)
	for i := range *worlds {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, newWorld(t).oneCase)
		})
	}
}

var worlds = flag.Int("worlds", 1, "number of servers that TestUndoBringsBack uses at the same time; each gets all cases of -rapid.checks")

func (w *world) oneCase(rt *rapid.T) {
	w.cases++
	root := fmt.Sprintf("/%d", w.cases)
	w.admin.do("create " + root)
	from, _ := w.plant(rt, root+"/s")
	paths, hidden := w.plant(rt, root+"/d")
	dumped := filepath.Join(w.files, fmt.Sprint(w.cases))
	w.admin.do("export -R " + from[0] + " " + dumped)
	words := fill(rapid.SampledFrom(destroying).Draw(rt, "line"), map[string]string{
		"S": from[0], "D": paths[0], "N": root + "/n", "F": dumped, plainFile: filepath.Join(w.files, plainFile),
		"P": rapid.SampledFrom(paths).Draw(rt, "path"), "Q": rapid.SampledFrom(from).Draw(rt, "source"),
	})
	before, versions := w.admin.tree(root), w.versions(rt, root)

	script := rapid.Bool().Draw(rt, "in a script")
	saved := filepath.Join(w.files, fmt.Sprint("undo", w.cases))
	shell := *w.hand
	if script {
		keeper, err := ToFile(saved, lockcmd.InQueue)
		if err != nil {
			rt.Fatal(err)
		}
		env := *w.hand.env
		env.Keeper, env.Mode = keeper, commands.Batch
		shell.env = &env
	}
	w.hand.yes = rapid.IntRange(0, 3).Draw(rt, "yes") > 0 // to destroying what cannot be saved
	last := w.lastNumber()
	cut := w.arm(rt)
	lineErr := shell.run(w.t.Context(), words)
	wasCut := w.disarm(cut)

	destroyed, secret := lost(before, w.admin.tree(root), hidden)
	kept := w.lastNumber() > last
	if _, err := os.Stat(saved); script {
		kept = err == nil
	}
	switch {
	case len(destroyed) > 0 && !kept:
		rt.Fatalf("%q (%v) destroyed %q, and there is no copy", words, lineErr, destroyed)
	case len(destroyed)+len(secret) == 0 && kept && !wasCut && w.versions(rt, root) == versions:
		rt.Fatalf("%q (%v) destroyed nothing, and there is a copy", words, lineErr)
	case !kept:
		return
	}
	if script {
		if len(destroyed) == 0 {
			return
		}
		if err := w.admin.try("import -R -y --overwrite " + saved); err != nil {
			rt.Fatalf("%q: the copy cannot be read: %v", words, err)
		}
	} else if w.hand.yes = true; len(destroyed) == 0 {
		_ = w.hand.try("undo") // of a write that may not have happened, or of the same data
	} else if err := w.hand.try("undo"); err != nil {
		rt.Fatalf("%q (%v), which destroyed %q: undo: %v\n%s", words, lineErr, destroyed, err, w.hand.screen.Printed())
	}
	after := w.admin.tree(root)
	for _, path := range destroyed {
		if after[path] != before[path] {
			rt.Fatalf("%q (%v): %s is %s; want %s", words, lineErr, path, after[path], before[path])
		}
	}
}

// versions are those of all data and ACLs: a write of the same is one.
func (w *world) versions(rt *rapid.T, root string) string {
	var b strings.Builder
	for z, err := range subtree(w.t.Context(), w.admin.env, root, "").Nodes {
		if err != nil {
			rt.Fatal(err)
		}
		if !strings.HasPrefix(z.Path, root+"/n") {
			fmt.Fprintln(&b, z.Path, z.Stat.Version, z.Stat.Aversion)
		}
	}
	return b.String()
}

// lastNumber is that of the newest operation in the store.
func (w *world) lastNumber() int {
	all, err := w.hand.store.numbers(entryFile)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1]
}

// arm draws whether the connection is to be cut, and at which request.
func (w *world) arm(rt *rapid.T) <-chan struct{} {
	skip := rapid.IntRange(0, 20).Draw(rt, "cut at")
	switch rapid.IntRange(0, 2).Draw(rt, "cut") {
	case 0:
		return w.proxy.CutBeforeSkipping(zktest.AnyRequest, skip)
	case 1:
		return w.proxy.CutAfterSkipping(zktest.AnyRequest, skip)
	}
	return nil
}

// disarm reports whether the connection was cut, and waits for the next one.
func (w *world) disarm(cut <-chan struct{}) bool {
	w.proxy.CutBeforeRequest(-77) // which no request has
	if err := w.hand.env.Session.WaitReady(zktest.Within(w.t)); err != nil {
		w.t.Fatal(err)
	}
	select {
	case <-cut:
		return true
	default:
		return false
	}
}

// lost returns the paths that are gone or changed, those apart that the shell could not
// read.
func lost(before, after map[string]string, hidden map[string]bool) (destroyed, secret []string) {
	for _, path := range slices.Sorted(maps.Keys(before)) {
		switch {
		case after[path] == before[path]:
		case hidden[path]:
			secret = append(secret, path)
		default:
			destroyed = append(destroyed, path)
		}
	}
	return destroyed, secret
}
