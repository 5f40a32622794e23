package transfer_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/transfer"
	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
	"github.com/zksh/zksh/internal/zktree"
	"github.com/zksh/zksh/shell"
)

func TestMain(m *testing.M) { zktest.Main(m) }

var anyone = zkconn.OpenACL()

// open starts a session that has the permissions for the ACLs of randomTree.
func open(t *testing.T, addr string) *zkconn.Session {
	t.Helper()
	return zksession.Open(t, zkconn.Config{Servers: addr, Timeout: 10 * time.Second,
		Auth: []zkconn.Credential{{Scheme: "digest", Auth: []byte("u:p")}}})
}

// buffer collects the output of a shell. It is safe for concurrent use.
type buffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (o *buffer) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *buffer) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// run runs lines as a script that stops at the first error. It closes the session.
func run(ctx context.Context, s *zkconn.Session, lines string) (status int, answers, remarks *buffer) {
	answers, remarks = &buffer{}, &buffer{}
	sh := shell.New(shell.Config{Session: s, Commands: [][]*commands.Command{commands.All(), transfer.Commands()}, Format: render.Text,
		Out: shell.Output{W: answers}, Err: shell.Output{W: remarks}, StopAtError: true, Window: 100})
	return sh.RunLines(ctx, "test", strings.NewReader(lines)), answers, remarks
}

// must runs lines that must succeed, and returns their results.
func must(t *testing.T, addr, lines string) string {
	t.Helper()
	status, answers, remarks := run(t.Context(), open(t, addr), lines)
	if status != 0 {
		t.Fatalf("%.300s: status %d: %.2000s", lines, status, remarks)
	}
	return answers.String()
}

// hardNames are names that are easily quoted or escaped incorrectly.
var hardNames = []string{"a b", `q"uote`, "it's", "100%2F", "北京", "back\\slash", "-r", "a", "#x", "$v", `"'`, "a\u3000b", "|"}

// randomData returns random data: null, empty, binary or text.
func randomData(r *rand.Rand) []byte {
	switch r.IntN(8) {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2:
		return []byte{0, byte(r.IntN(256)), '\n', '\'', 0xff}
	case 3:
		return []byte(strings.Repeat("行\n", r.IntN(50)))
	}
	return []byte(fmt.Sprint("value ", r.IntN(5)))
}

// randomTree returns the znodes of a random tree, in dump order. Two trees with the same size have
// many paths in common.
func randomTree(r *rand.Rand, root string, size int) []*dump.Znode {
	acls := [][]zk.ACL{anyone, anyone, anyone, append(zk.DigestACL(zk.PermAll, "u", "p"), zk.WorldACL(zk.PermRead)...), zk.DigestACL(zk.PermAll, "u", "p"),
		append(zk.WorldACL(zk.PermAll), zk.ACL{Perms: zk.PermRead, Scheme: "ip", ID: "10.0.0.0/8"})}
	all := map[string]*dump.Znode{root: {Path: root, ACL: anyone}}
	paths := []string{root}
	for range size {
		path := zkconn.Join(paths[r.IntN(len(paths))], hardNames[r.IntN(len(hardNames))])
		if all[path] == nil {
			all[path] = &dump.Znode{Path: path, ACL: acls[r.IntN(len(acls))], Data: randomData(r)}
			paths = append(paths, path)
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *dump.Znode) int { return dump.InOrder(a.Path, b.Path) })
}

// putTree creates the znodes of a tree on a server.
func putTree(t *testing.T, s *zkconn.Session, all []*dump.Znode) {
	t.Helper()
	var edits []*zktree.Edit
	for _, z := range all {
		edits = append(edits, &zktree.Edit{Does: zktree.Creates, Path: z.Path, New: z})
	}
	target := zktree.Target{Path: "/", Name: "/"}
	_, err := zktree.Apply(t.Context(), s.Client, zktree.Seq(edits), target, zktree.Refuse, nil)
	zktest.Must(t, err)
}

// firstDifference describes the first difference between a tree and the subtree at root on the
// server. It is empty if there is none.
func firstDifference(t *testing.T, all []*dump.Znode, s *zkconn.Session, root string) string {
	t.Helper()
	put := zktree.Tree{Root: all[0].Path, Nodes: zktree.Seq(all)}
	for d, err := range zktree.Compare(put, zktree.ServerTree(t.Context(), s.Client, root, nil)) {
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%q %v %v %v", d.Path, d.A, d.B, d.Err)
	}
	return ""
}

// publicTree returns a random tree on which everybody has all permissions.
func publicTree(seed uint64, root string) []*dump.Znode {
	all := randomTree(rand.New(rand.NewPCG(seed, 5)), root, 15)
	for _, z := range all {
		z.ACL = anyone
	}
	return all
}

// mirror makes one random tree like another, on one server or on two.
func TestMirror(t *testing.T) {
	here, there := zktest.Sandbox(t, sandbox.Options{}).Addr(), zktest.Sandbox(t, sandbox.Options{}).Addr()
	s, other := open(t, here), open(t, there)
	for seed := range uint64(30) {
		a, b := fmt.Sprint("/a", seed), fmt.Sprint("/b", seed)
		putTree(t, s, randomTree(rand.New(rand.NewPCG(seed, 1)), a, 40))
		model := randomTree(rand.New(rand.NewPCG(seed, 2)), b, 40)
		to := b
		if seed%2 == 0 {
			putTree(t, s, model)
		} else { // the other server does not get our credentials
			for _, z := range model {
				z.ACL = anyone
			}
			putTree(t, other, model)
			to = there + ":" + b
		}
		must(t, here, "mirror "+to+" "+a)
		if d := firstDifference(t, model, s, a); d != "" {
			t.Fatalf("seed %d: %s", seed, d)
		}
		must(t, here, "diff "+a+" "+to)
	}
}

// cp, diff, mv and mirror work on a tree with a thousand levels.
func TestDeep(t *testing.T) {
	here, there := zktest.Sandbox(t, sandbox.Options{}).Addr(), zktest.Sandbox(t, sandbox.Options{}).Addr()
	s := open(t, here)
	all := []*dump.Znode{{Path: "/deep", ACL: anyone}}
	for i := range 1000 {
		all = append(all, &dump.Znode{Path: all[i].Path + "/d", ACL: anyone, Data: []byte(fmt.Sprint(i))})
	}
	putTree(t, s, all)
	must(t, here, strings.ReplaceAll("cp -R /deep T:/deep\ndiff /deep T:/deep\nmv /deep /moved\ndiff /moved T:/deep\n"+
		"deleteall -y /moved/d/d/d\nmirror T:/deep /moved\ndiff /moved T:/deep", "T:", there+":"))
	if d := firstDifference(t, all, s, "/moved"); d != "" {
		t.Error(d)
	}
}

// The root of a server or chroot can be compared with, copied to and mirrored to a znode with a
// name, and the other way round. It is never deleted.
func TestRootBesideANamedOne(t *testing.T) {
	addr := zktest.Sandbox(t, sandbox.Options{}).Addr()
	file := t.TempDir() + "/dump"
	must(t, addr, "create /app a\ncreate /app/x 1\ncreate /app/x/y 2\ncreate /other b\ncreate /other/z 3\n")
	root := addr + "/app"
	must(t, root, "diff / "+addr+":/app\ndiff "+addr+":/app /\nexport -R / "+file+"\ndiff / file:"+file+"\n")
	must(t, addr, "diff /app file:"+file+"\ndiff file:"+file+" "+addr+":/app\n")

	must(t, addr, "cp -R "+root+":/ /copied\nimport -R "+file+" /imported\nmirror "+root+":/ /mirrored\nmirror file:"+file+" /restored\n")
	for _, path := range []string{"/copied", "/imported", "/mirrored", "/restored"} {
		must(t, addr, "diff /app "+path+"\n")
	}
	before := must(t, addr, "stat /other\n")
	must(t, addr+"/other", "mirror "+addr+":/app /\n")
	must(t, addr, "diff /app /other\n")
	if after := must(t, addr, "stat /other\n"); strings.SplitN(after, "\n", 2)[0] != strings.SplitN(before, "\n", 2)[0] {
		t.Errorf("it has been made anew:\n%s%s", before, after)
	}
}
