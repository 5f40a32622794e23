package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// ownedName is a znode name of the owner web-1, who holds a lock.
const ownedName = "_c_c4719afa-76fa-8448-9000-000000276b05-lock-0000000003"

// addOwned adds the znode of a lock that an owner holds.
func (f *fakeEnsemble) addOwned(t *testing.T, owner, path string) {
	t.Helper()
	data, err := OwnerNote(owner, "kernel", 0)
	zktest.Must(t, err)
	f.make(0, string(data), path)
	f.znodes[path].Stat.Ctime, f.znodes[path].Stat.Mtime = time.Now().UnixMilli(), time.Now().UnixMilli()
}

func TestOwnerInQueue(t *testing.T) {
	for name, c := range map[string]struct {
		node, owner string // znode and the owner in its note
		want        Contender
	}{
		"holds":         {ownedName, "web-1", Contender{Owner: "web-1", Persistent: true, Who: "owned by web-1: kernel ("}},
		"another note":  {ownedName, "web-2", Contender{Owner: "unknown", Persistent: true, Who: "owned by web-2: kernel ("}},
		"no owner":      {uuid + "-lock-0000000003", "web-1", Contender{Persistent: true, Who: "owner web-1: kernel ("}},
		"waiting owner": {"_c_c4719afa-76fa-8448-8000-000000276b05-lock-0000000003", "web-1", Contender{Owner: "web-1", Persistent: true, Who: "owner web-1: kernel ("}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeEnsemble()
			f.make(0, "", "/l")
			f.addOwned(t, c.owner, "/l/"+c.node)
			q, err := Read(t.Context(), f, "/l")
			if err != nil || len(q.Contenders) != 1 {
				t.Fatal(q, err)
			}
			got := q.Contenders[0]
			if got.Owner != c.want.Owner || got.Persistent != c.want.Persistent || !strings.HasPrefix(got.Who, c.want.Who) || got.Session != "" {
				t.Errorf("owner %q, persistent %t, session %q: %s", got.Owner, got.Persistent, got.Session, got.Who)
			}
		})
	}
}

// No server lists persistent znodes, so the locks of owners are found only in a small tree.
func TestLookAllFindsOwners(t *testing.T) {
	defer func(n int) { maxOwnerWalk = n }(maxOwnerWalk)
	maxOwnerWalk = 50
	for _, dump := range []bool{true, false} {
		f := newFakeEnsemble()
		f.answersDump = dump
		f.make(0, "", "/locks", "/locks/l", "/big")
		f.addOwned(t, "web-1", "/locks/l/"+ownedName)
		for i := range maxOwnerWalk + 1 {
			f.make(0, "", fmt.Sprint("/big/", i))
		}
		for root, found := range map[string]bool{"/locks": true, "/": !dump} { // without dump, zksh walks the whole tree anyway
			s, err := LookAll(t.Context(), f, root)
			zktest.Must(t, err)
			if got := len(s.Queues) == 1; got != found || (s.NoOwners == "") != found {
				t.Errorf("dump %t, %s: %d queues; %q", dump, root, len(s.Queues), s.NoOwners)
			}
			if told := slices.ContainsFunc(s.Remarks(), func(r string) bool { return strings.Contains(r, "may be missing") }); told == found {
				t.Errorf("dump %t, %s: %q", dump, root, s.Remarks())
			}
		}
	}
}
