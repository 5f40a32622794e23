package zktree

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

var anyone = zkconn.OpenACL()

var rootTarget = Target{Path: "/", Name: "/"}

// hardNames are names of znodes that are easily quoted wrongly.
var hardNames = []string{"a b", `q"uote`, "it's", "100%2F", "北京", "back\\slash", "-r", "a", "a-", "a.b", "é", "#x", "$v"}

// randomTree returns a random tree in the order of dump.Znodes. Its znodes vary in data and ACL.
func randomTree(r *rand.Rand, root string, size int) []*dump.Znode {
	acls := [][]zk.ACL{anyone, anyone, anyone, zk.WorldACL(zk.PermRead | zk.PermWrite | zk.PermAdmin), zk.DigestACL(zk.PermAll, "u", "p"),
		append(zk.WorldACL(zk.PermRead|zk.PermWrite|zk.PermCreate|zk.PermAdmin), zk.ACL{Perms: 31, Scheme: "ip", ID: "10.0.0.0/8"})}
	all := map[string]*dump.Znode{root: {Path: root, ACL: anyone}}
	paths := []string{root}
	for i := range size {
		path := zkconn.Join(paths[r.IntN(len(paths))], fmt.Sprint(hardNames[r.IntN(len(hardNames))], r.IntN(20)))
		if all[path] != nil {
			continue
		}
		z := &dump.Znode{Path: path, ACL: acls[r.IntN(len(acls))]}
		switch i % 4 {
		case 0:
			z.Data = []byte{}
		case 1:
			z.Data = []byte{0, 255, '\n', '"', byte(r.IntN(256))}
		case 2:
			z.Data = []byte(strings.Repeat("文字 ", r.IntN(3000)))
		}
		all[path] = z
		paths = append(paths, path)
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *dump.Znode) int { return dump.InOrder(a.Path, b.Path) })
}

// creations returns the edits that create znodes.
func creations(all []*dump.Znode) []*Edit {
	var edits []*Edit
	for _, z := range all {
		edits = append(edits, &Edit{Does: Creates, Path: z.Path, New: z})
	}
	return edits
}

// writeAll creates znodes. The test fails if a write fails.
func writeAll(t *testing.T, s *zkconn.Session, policy Policy, all []*dump.Znode) Counts {
	t.Helper()
	done, err := Apply(t.Context(), s.Client, Seq(creations(all)), rootTarget, policy, nil)
	zktest.Must(t, err)
	return done
}

// serverTree returns the subtree at root on the server.
func serverTree(t *testing.T, s *zkconn.Session, root string) Tree {
	t.Helper()
	return ServerTree(t.Context(), s.Client, root, nil)
}

// memoryTree returns a Tree of the given znodes.
func memoryTree(root string, all []*dump.Znode) Tree {
	return Tree{root, func(yield func(*dump.Znode, error) bool) {
		for _, z := range all {
			if !yield(z, nil) {
				return
			}
		}
	}}
}

// differences returns the result of Compare, one string for each difference, with the path below the
// root.
func differences(t *testing.T, a, b Tree) (all []string) {
	t.Helper()
	for d, err := range Compare(a, b) {
		zktest.Must(t, err)
		all = append(all, fmt.Sprintf("%q %t %t %d %v", strings.TrimPrefix(d.Path, strings.TrimSuffix(a.Root, "/")), d.A != nil, d.B != nil, d.Aspect, d.Err))
	}
	return all
}

// TestCopy writes random trees and reads the same trees back: on a real server, on sandboxes of
// an old and a new version, and on an overloaded sandbox.
func TestCopy(t *testing.T) {
	var n atomic.Int32
	busy := sandbox.Options{Throttle: func(int32) bool { return n.Add(1)%50 == 0 }}
	addrs := map[string]string{"real": zktest.Shared(t).Addr(), "busy": zktest.Sandbox(t, busy).Addr(),
		"3.4": zktest.Sandbox(t, sandbox.Options{As: version(t, "3.4")}).Addr(), "3.9": zktest.Sandbox(t, sandbox.Options{As: version(t, "3.9")}).Addr()}
	for name, addr := range addrs {
		t.Run(name, func(t *testing.T) {
			s := zksession.Open(t, zkconn.Config{Servers: addr, Timeout: 30 * time.Second,
				Auth: []zkconn.Credential{{Scheme: "digest", Auth: []byte("u:p")}}})
			for seed := range uint64(2) {
				root := fmt.Sprintf("/copy%d", seed)
				all := randomTree(rand.New(rand.NewPCG(seed, 1)), root, 300)
				all = append(all, &dump.Znode{Path: root + "/龥", ACL: anyone, Data: bytes.Repeat([]byte{7}, 1<<20-200)})
				if done := writeAll(t, s, Refuse, all); done.Created != len(all) {
					t.Errorf("created %d of %d", done.Created, len(all))
				}
				if d := differences(t, memoryTree(root, all), serverTree(t, s, root)); d != nil {
					t.Errorf("seed %d: %d differences: %v", seed, len(d), d[:min(5, len(d))])
				}
				if done := writeAll(t, s, Skip, all); done.Skipped != len(all) {
					t.Errorf("skipped %d of %d", done.Skipped, len(all))
				}
				all[len(all)/2].Data = []byte("new")
				if done := writeAll(t, s, Overwrite, all); done.Changed != 1 || done.Skipped != len(all)-1 {
					t.Errorf("overwritten %d, and %d of %d were equal", done.Changed, done.Skipped, len(all))
				}
				if d := differences(t, memoryTree(root, all), serverTree(t, s, root)); d != nil {
					t.Errorf("seed %d, overwritten: %d differences: %v", seed, len(d), d[:min(5, len(d))])
				}
			}
		})
	}
}

func version(t *testing.T, name string) sandbox.Version {
	t.Helper()
	v, err := sandbox.ParseVersion(name)
	zktest.Must(t, err)
	return v
}

// TestCompare checks the differences of random trees against a comparison of maps.
func TestCompare(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		a := randomTree(r, "/r", 60)
		var b []*dump.Znode
		gone := "" // path of the subtree that b lacks, with a slash at the end
		for _, z := range a {
			if r.IntN(8) == 0 && z.Path != "/r" || gone != "" && strings.HasPrefix(z.Path, gone) {
				if gone == "" || !strings.HasPrefix(z.Path, gone) {
					gone = z.Path + "/"
				}
				continue
			}
			other := *z
			if other.Path = strings.Replace(z.Path, "/r", "/other/root", 1); r.IntN(4) == 0 {
				other.Data = []byte("other")
			}
			b = append(b, &other)
		}
		b = append(b, &dump.Znode{Path: "/other/root/龥", ACL: anyone})
		byPath := map[string]*dump.Znode{}
		for _, z := range b {
			byPath[strings.TrimPrefix(z.Path, "/other/root")] = z
		}
		var want []string
		for _, z := range a {
			below := strings.TrimPrefix(z.Path, "/r")
			switch other := byPath[below]; {
			case other == nil:
				want = append(want, fmt.Sprintf("%q true false 0 <nil>", below))
			case !SameData(z.Data, other.Data):
				want = append(want, fmt.Sprintf("%q true true 1 <nil>", below))
			}
		}
		want = append(want, `"/龥" false true 0 <nil>`)
		if got := differences(t, memoryTree("/r", a), memoryTree("/other/root", b)); !slices.Equal(got, want) {
			t.Fatalf("seed %d:\n got %v\nwant %v", seed, got, want)
		}
	}
}

// Compare reports an unreadable znode and no descendants of it.
func TestCompareUnread(t *testing.T) {
	tree := func(paths ...string) Tree {
		return Tree{"/", func(yield func(*dump.Znode, error) bool) {
			for _, path := range paths {
				path, unreadable := strings.CutSuffix(path, "!")
				var err error
				if unreadable {
					err = zkconn.NoAuth
				}
				if !yield(&dump.Znode{Path: path}, err) {
					return
				}
			}
		}}
	}
	got := differences(t, tree("/", "/a!", "/b!", "/c"), tree("/", "/a", "/a/x", "/a/x/y", "/a-", "/b!", "/d!"))
	want := []string{`"/a" true true 0 KeeperErrorCode = NoAuth`, `"/a-" false true 0 <nil>`, `"/b" true true 0 KeeperErrorCode = NoAuth`,
		`"/c" true false 0 <nil>`, `"/d" false true 0 KeeperErrorCode = NoAuth`}
	if !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}
