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
	"github.com/zksh/zksh/internal/zktree"
	"github.com/zksh/zksh/lockcmd"
)

// destroying has lines for every command that destroys something. S and D stand for the roots of
// two subtrees, P for a znode of D, Q for a znode of S, N for a path without a znode, and F for a
// dump of S.
var destroying = []string{
	"set -- P new", "set -v 0 P new", "delete -- P", "deleteall -y P", "rmr P", "edit P",
	"setAcl -- P world:anyone:cdra", "setAcl -R -- P auth::cdrwa", "setAcl -R -- P world:anyone:ra",
	"mirror -y S D", "cp -R --overwrite S D", "cp --overwrite Q P", "mv P N", "mv D N",
	"import -R -y --overwrite F D", "import -R -y --prune F D", "import P " + plainFile,
}

// plainFile stands for a file that is not a dump.
const plainFile = "PLAIN"

// destroying contains every command that has the effect Destroys.
func TestDestroyingIsComplete(t *testing.T) {
	for _, c := range slices.Concat(commands.All(), transfer.Commands()) {
		drawn := slices.ContainsFunc(destroying, func(line string) bool { return strings.Fields(line)[0] == c.Name })
		if c.Effect.Has(commands.Destroys) && !drawn {
			t.Errorf("%s destroys something, and no line has it", c.Name)
		}
	}
}

// world consists of a server, a shell behind a proxy, and an administrator who can read everything.
type world struct {
	t     *testing.T
	proxy *zktest.Proxy
	shell *testShell // behind the proxy, without the administrator's permissions
	admin *testShell
	files string // folder for dumps
	cases int
}

func newWorld(t *testing.T) *world {
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	w := &world{t: t, proxy: zktest.NewProxy(t, server), files: t.TempDir()}
	_, port, _ := strings.Cut(w.proxy.Addr(), ":")
	w.shell = newTestShell(t, w.proxy.Addr()+",localhost:"+port, t.TempDir()) // the client tries the second name at once
	w.shell.do("addauth digest u:p")
	w.shell.yes = true
	w.admin = &testShell{t: t, screen: &commandtest.Screen{}, store: &store{t.TempDir()}}
	w.admin.env = &commands.Env{Screen: w.admin.screen, Mode: commands.ByHand,
		Session: zksession.Open(t, zkconn.Config{Servers: server, Timeout: 20 * time.Second})}
	w.admin.do("addauth digest admin:all", "addauth digest u:p")
	zktest.Must(t, os.WriteFile(filepath.Join(w.files, plainFile), []byte("plain"), 0o600))
	return w
}

// hiddenACL is an ACL that lets only the administrator read the znode.
var hiddenACL = append(zk.WorldACL(zk.PermAll&^zk.PermRead), zk.DigestACL(zk.PermAll, "admin", "all")...)

var (
	someData = [][]byte{nil, {}, []byte("text"), {0, 255, '\n'}, []byte(strings.Repeat("文", 5000))}
	someACLs = [][]zk.ACL{zk.WorldACL(31), zk.WorldACL(31), zk.WorldACL(29), zk.DigestACL(31, "u", "p"),
		append(zk.WorldACL(27), zk.DigestACL(31, "u", "p")...), hiddenACL}
)

// plant creates a random subtree. It returns its paths, and the set of those that the shell cannot
// read.
func (w *world) plant(rt *rapid.T, root string) (paths []string, hidden map[string]bool) {
	hidden = map[string]bool{}
	create := func(path string) {
		data := someData[rapid.IntRange(0, len(someData)-1).Draw(rt, "data")] // keeps the data, up to 15 kB, out of rapid's log
		acl := rapid.SampledFrom(someACLs).Draw(rt, "acl")
		if path == root {
			acl = zk.WorldACL(31)
		}
		zktest.Must(rt, w.admin.create(path, data, acl))
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

// fill replaces the placeholders in a line by paths.
func fill(line string, at map[string]string) []string {
	words := strings.Fields(line)
	for i, word := range words {
		if path, is := at[word]; is {
			words[i] = path
		}
	}
	return words
}

// Undo, or import from a file of --undo, restores exactly what a line destroyed. A copy exists if
// and only if the line destroyed something, or may have. Znodes can be unreadable, the connection
// can be cut before or after any request, and the line can run at the prompt or in a script.
func TestUndoBringsBack(t *testing.T) {
	editor(t)
	for i := range *worlds {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, newWorld(t).oneCase)
		})
	}
}

// editor sets an editor that writes a text of its own.
func editor(t *testing.T) {
	name := filepath.Join(t.TempDir(), "editor")
	zktest.Must(t, os.WriteFile(name, []byte("#!/bin/sh\nprintf edited > \"$1\"\n"), 0o700))
	t.Setenv("VISUAL", name)
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
	shell := *w.shell
	if script {
		saver, err := ToFile(saved, lockcmd.InQueue)
		zktest.Must(rt, err)
		env := *w.shell.env
		env.Recorder, env.Mode = saver, commands.Batch
		shell.env = &env
	}
	w.shell.yes = rapid.IntRange(0, 3).Draw(rt, "yes") > 0 // answer to destroying what cannot be saved
	last := w.lastNumber()
	w.arm(rt)
	lineErr := shell.run(w.t.Context(), words)
	wasCut := w.disarm()

	destroyed, secret := changedPaths(before, w.admin.tree(root), hidden)
	hasCopy := w.lastNumber() > last
	if _, err := os.Stat(saved); script {
		hasCopy = err == nil
	}
	switch {
	case len(destroyed) > 0 && !hasCopy:
		rt.Fatalf("%q (%v) destroyed %q, and there is no copy", words, lineErr, destroyed)
	case len(destroyed)+len(secret) == 0 && hasCopy && !wasCut && w.versions(rt, root) == versions:
		rt.Fatalf("%q (%v) destroyed nothing, and there is a copy", words, lineErr)
	case !hasCopy:
		return
	}
	if script {
		if len(destroyed) == 0 {
			return
		}
		if err := w.admin.try("import -R -y --overwrite " + saved); err != nil {
			rt.Fatalf("%q: the copy cannot be read: %v", words, err)
		}
	} else if w.shell.yes = true; len(destroyed) == 0 {
		_ = w.shell.try("undo") // of a write that may not have happened, or that wrote the same data
	} else if err := w.shell.try("undo"); err != nil {
		rt.Fatalf("%q (%v), which destroyed %q: undo: %v\n%s", words, lineErr, destroyed, err, w.shell.screen.Printed())
	}
	after := w.admin.tree(root)
	for _, path := range destroyed {
		if after[path] != before[path] {
			rt.Fatalf("%q (%v): %s is %s; want %s", words, lineErr, path, after[path], before[path])
		}
	}
}

// versions lists the versions of all data and ACLs. They change even if the same data is written.
func (w *world) versions(rt *rapid.T, root string) string {
	var b strings.Builder
	for z, err := range zktree.ServerTree(w.t.Context(), w.admin.env.Session.Client, root, nil).Nodes {
		zktest.Must(rt, err)
		if !strings.HasPrefix(z.Path, root+"/n") {
			fmt.Fprintln(&b, z.Path, z.Stat.Version, z.Stat.Aversion)
		}
	}
	return b.String()
}

// lastNumber returns the number of the newest operation in the shell's store, or 0.
func (w *world) lastNumber() int {
	all, err := w.shell.store.numbers(entryFile)
	zktest.Must(w.t, err)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1]
}

// arm decides at random whether the connection is cut, and at which request.
func (w *world) arm(rt *rapid.T) {
	skip := rapid.IntRange(0, 20).Draw(rt, "cut at")
	switch rapid.IntRange(0, 2).Draw(rt, "cut") {
	case 0:
		w.proxy.CutBeforeSkipping(zktest.AnyRequest, skip)
	case 1:
		w.proxy.CutAfterSkipping(zktest.AnyRequest, skip)
	}
}

// disarm reports whether the connection was cut, and waits for the next one.
func (w *world) disarm() (wasCut bool) {
	wasCut = w.proxy.Disarm()
	zktest.Must(w.t, w.shell.env.Session.WaitReady(zktest.Within(w.t)))
	return wasCut
}

// changedPaths returns the paths that are missing or changed. Those that the shell could not read
// are listed in secret.
func changedPaths(before, after map[string]string, hidden map[string]bool) (destroyed, secret []string) {
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
