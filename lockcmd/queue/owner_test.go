package queue

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// A znode name of the owner web-1, who holds a lock: without an expiry, and with one of an hour.
const (
	ownedName   = "_c_c4719afa-76fa-8448-9000-000000276b05-lock-0000000003"
	expiresName = "_c_c4719afa-76fa-8448-9000-000000276b05-x36ee80-lock-0000000003"
)

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
		"holds":         {ownedName, "web-1", Contender{Owner: "web-1", Persistent: true, Who: "owned by web-1 ("}},
		"expires":       {expiresName, "web-1", Contender{Owner: "web-1", Persistent: true, Expire: "1h", Who: "owned by web-1 ("}},
		"another note":  {ownedName, "web-2", Contender{Owner: "unknown", Persistent: true, Who: "owned by web-2 ("}},
		"no owner":      {uuid + "-lock-0000000003", "web-1", Contender{Persistent: true, Who: "owner web-1 ("}},
		"waiting owner": {"_c_c4719afa-76fa-8448-8000-000000276b05-lock-0000000003", "web-1", Contender{Owner: "web-1", Persistent: true, Who: "owner web-1 ("}},
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
			if got.Owner != c.want.Owner || got.Persistent != c.want.Persistent || got.Expire != c.want.Expire || !strings.HasPrefix(got.Who, c.want.Who) || got.Session != "" {
				t.Errorf("owner %q, persistent %t, expire %q, session %q: %s", got.Owner, got.Persistent, got.Expire, got.Session, got.Who)
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

// An owner's lock that expires counts as overdue once the servers have had time to delete it.
func TestOverdueOwner(t *testing.T) {
	for name, c := range map[string]struct {
		node    string
		after   time.Duration
		overdue bool
	}{
		"not yet expired": {expiresName, time.Hour, false},
		"in the margin":   {expiresName, time.Hour + expireMargin - time.Second, false},
		"overdue":         {expiresName, time.Hour + expireMargin + time.Second, true},
		"without expiry":  {ownedName, 1000 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newCaseEnsemble()
				f.make(0, "", "/l")
				f.addOwned(t, "web-1", "/l/"+c.node)
				time.Sleep(c.after)
				d, err := FindDeadlocks(t.Context(), f, "/")
				zktest.Must(t, err)
				want := ""
				if c.overdue {
					want = overdueFound
				}
				if kinds(d) != want {
					t.Fatalf("%q, want %q", kinds(d), want)
				}
				var text bytes.Buffer
				zktest.Must(t, d.Text(&text))
				if c.overdue && !strings.Contains(text.String(), "unlock --force "+c.node+" /l") {
					t.Error(text.String())
				}
			})
		})
	}
}
