package transfer_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktree"
)

// others is the number of cases of TestNothingOfOthersIsLost for each kind of line.
var others = flag.Int("others", 15, "number of random cases in which another client changes something; 600 in make proof")

// states returns the data, the czxid and the ACL of each znode at and below root, as text.
func states(t *testing.T, s *zkconn.Session, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for z, err := range zktree.ServerTree(t.Context(), s.Client, root, nil).OrEmpty().Nodes {
		if err != nil {
			t.Error(err)
			break
		}
		all[z.Path] = fmt.Sprintf("%q %d %v", z.Data, z.Stat.Czxid, z.ACL)
	}
	return all
}

// interfere changes something at or below root, or creates root if it does not exist. wanted are paths
// at which the line creates znodes. interfere returns what it changed, and whether it changed an ACL or
// created a znode anew.
func interfere(t *testing.T, s *zkconn.Session, r *rand.Rand, root string, wanted []string) (what string, subtle bool) {
	ctx, theirs := t.Context(), fmt.Appendf(nil, "theirs %d", r.Int())
	paths := slices.Sorted(maps.Keys(states(t, s, root)))
	create := func(path string) string {
		_ = zkconn.Exec(ctx, s, zkconn.Create(path, theirs, anyone, zkconn.CreateMode{}))
		return "create " + path
	}
	if len(paths) == 0 {
		return create(root), false
	}
	path := paths[r.IntN(len(paths))]
	remove := func() {
		for { // find a znode without children
			path = paths[r.IntN(len(paths))]
			if zkconn.Exec(ctx, s, zkconn.Delete(path, -1)) == nil {
				return
			}
		}
	}
	switch kind := r.IntN(6); kind {
	case 0:
		_ = zkconn.Exec(ctx, s, zkconn.SetData(path, theirs, -1))
		return "set " + path, false
	case 1:
		return create(path + "/theirs"), false
	case 2:
		return create(wanted[r.IntN(len(wanted))]), false // fails if it exists, or if its parent does not
	case 3:
		acl := append(zk.WorldACL(zk.PermAll), zk.ACL{Perms: zk.PermRead, Scheme: "ip", ID: "10.9.8.7"})
		_ = zkconn.Exec(ctx, s, zkconn.SetACL(path, acl, -1))
		return "setAcl " + path, true
	case 4:
		remove()
		return "delete " + path, false
	default:
		remove()
		create(path)
		return "create anew " + path, true
	}
}

// Nothing that another client changes during a line is lost, if it does so after the line has read
// the znodes. The exception is a change between the check and the write, within one round trip, that
// a server cannot notice: of an ACL, or a znode that is created anew.
func TestNothingOfOthersIsLost(t *testing.T) {
	for name, line := range map[string]string{
		"mirror": "mirror -y /s%[1]d /d%[1]d", "cp": "cp -R /s%[1]d /d%[1]d",
		"mv": "mv /d%[1]d /m%[1]d", "mv slowly": "mv /d%[1]d /m%[1]d", "import": "import -R --skip %[2]s /d%[1]d",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := zktest.Sandbox(t, sandbox.Options{}).Addr()
			s := open(t, box)
			proxy := zktest.NewProxy(t, box)
			r := rand.New(rand.NewPCG(1, 1))
			putTree(t, s, randomTree(r, "/file", 12))
			file := t.TempDir() + "/dump"
			must(t, box, "addauth digest u:p\nexport -R /file "+file)
			changed := 0
			for n := range *others {
				src, dst := fmt.Sprint("/s", n), fmt.Sprint("/d", n)
				var wanted []string
				for _, z := range randomTree(r, src, 12) {
					z.ACL = anyone
					putTree(t, s, []*dump.Znode{z})
					wanted = append(wanted, dst+strings.TrimPrefix(z.Path, src))
				}
				if name != "cp" && name != "import" {
					all := randomTree(r, dst, 12)
					for _, z := range all {
						z.ACL = anyone
					}
					if name == "mv slowly" {
						all[0].ACL = noCreate
					}
					putTree(t, s, all)
				}
				theirs, gone, what, subtle := map[string]string{}, map[string]bool{}, "", false
				// The list of quotas is read after the trees, and before the check.
				at, skip := int32(jute.OpGetChildren2), 0
				if r.IntN(2) == 0 {
					at, skip = jute.OpMulti, r.IntN(3)
				}
				proxy.CallBefore(at, skip, func() {
					before := states(t, s, dst)
					what, subtle = interfere(t, s, r, dst, wanted)
					after := states(t, s, dst)
					for path, state := range after {
						if before[path] != state {
							theirs[path] = state
						}
					}
					for path := range before {
						if after[path] == "" {
							gone[path] = true
						}
					}
				})
				status, _, remarks := run(t.Context(), open(t, proxy.Addr()), fmt.Sprintf(line, n, file))
				proxy.CallBefore(-77, 0, func() {})
				if len(theirs)+len(gone) == 0 || subtle && at != jute.OpGetChildren2 {
					continue
				}
				changed++
				now := states(t, s, dst)
				for path, state := range theirs {
					same := now[path] == state
					if strings.HasPrefix(what, "setAcl") { // the line may have changed the data, which is independent
						same = strings.HasSuffix(now[path], " [{31 world anyone} {1 ip 10.9.8.7}]")
					}
					if !same {
						t.Errorf("case %d, %s before operation %d: %s is %s; want %s; status %d: %s",
							n, what, at, path, now[path], state, status, remarks)
					}
				}
				for path := range gone {
					if now[path] != "" {
						t.Errorf("case %d, %s: %s is there again; status %d: %s", n, what, path, status, remarks)
					}
				}
			}
			if t.Logf("%d changes of another client", changed); changed < *others/4 {
				t.Error("too few changes")
			}
		})
	}
}
