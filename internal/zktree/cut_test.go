package zktree

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

// If the connection is cut before or after any multi, Apply makes all edits nevertheless, each once.
func TestApplyCut(t *testing.T) {
	box := zktest.Sandbox(t, sandbox.Options{})
	watching := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: 10 * time.Second})
	n := 0
	trial := func(prepare func(*zktest.Proxy) <-chan struct{}) (wasCut bool) {
		n++
		root := fmt.Sprint("/cut", n)
		all := randomTree(rand.New(rand.NewPCG(uint64(n), 7)), root, 500)
		for _, z := range all {
			z.ACL = anyone
			z.Data = make([]byte, 5000)
		}
		proxy := zktest.NewProxy(t, box.Addr())
		s := zksession.Open(t, zkconn.Config{Servers: proxy.Addr(), Timeout: 10 * time.Second})
		prepare(proxy)
		target := Target{Path: root, Name: root}
		done, err := Apply(t.Context(), s.Client, Seq(creations(all)), target, Refuse, nil)
		if err != nil || done.Created != len(all) {
			t.Errorf("%d: %d of %d created: %v", n, done.Created, len(all), err)
		}
		if d := differences(t, memoryTree(root, all), serverTree(t, watching, root)); d != nil {
			t.Errorf("%d: %d differences: %v", n, len(d), d[:min(5, len(d))])
		}
		return proxy.Disarm()
	}
	for skip := 0; trial(func(p *zktest.Proxy) <-chan struct{} { return p.CutBeforeSkipping(jute.OpMulti, skip) }); skip++ {
		trial(func(p *zktest.Proxy) <-chan struct{} { return p.CutAfterSkipping(jute.OpMulti, skip) })
	}
	if n < 10 {
		t.Errorf("only %d multis were cut", n/2)
	}
}

// If the server rejects one ACL, Apply reports it and writes the other znodes.
func TestApplyRefusals(t *testing.T) {
	box := zktest.Sandbox(t, sandbox.Options{})
	s := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: 10 * time.Second})
	create(t, s, "/r", "/r/there")
	var edits []*Edit
	bad := []zk.ACL{{Perms: 31, Scheme: "none", ID: "x"}}
	for _, path := range []string{"/r/a", "/r/bad", "/r/bad/below", "/r/there", "/r/z"} {
		acl := anyone
		if path == "/r/bad" {
			acl = bad
		}
		edits = append(edits, &Edit{Does: Creates, Path: path, New: &dump.Znode{ACL: acl}})
	}
	done, err := Apply(t.Context(), s.Client, Seq(edits), Target{Path: "/r", Name: "/r"}, Skip, nil)
	so, _ := errors.AsType[*PartialError](err)
	if so == nil || so.N != 1 || so.Below != 1 || done.Created != 2 || done.Skipped != 1 || !errors.Is(err, zkconn.InvalidACL) {
		t.Errorf("%+v, %v", done, err)
	}
}

// A PartialError says who rejected znodes: the server, or zksh because they are too large to be sent.
func TestApplySaysWhoRejected(t *testing.T) {
	s := zksession.Open(t, zkconn.Config{Servers: zktest.Sandbox(t, sandbox.Options{}).Addr(), Timeout: zktest.Patience})
	large := &Edit{Does: Creates, Path: "/large", New: &dump.Znode{Data: make([]byte, zkconn.UsualMaxRequest)}}
	invalid := &Edit{Does: Creates, Path: "/invalid", New: &dump.Znode{ACL: []zk.ACL{{Perms: 31, Scheme: "none", ID: "x"}}}}
	for want, edits := range map[string][]*Edit{
		"; zksh rejected 1: the request for /large was not sent":                         {large},
		"; the server rejected 1: ":                                                      {invalid},
		"; the server rejected 1 and zksh 1: the request for /large was not sent, becau": {large, invalid},
	} {
		small := &Edit{Does: Creates, Path: fmt.Sprintf("/small%d", len(want)), New: &dump.Znode{}}
		all := append(edits, small)
		_, err := Apply(t.Context(), s.Client, Seq(all), rootTarget, Refuse, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A znode whose ACL and data change counts once, whichever of the two the server rejects.
func TestApplyCountsAZnodeOnce(t *testing.T) {
	s := zksession.Open(t, zkconn.Config{Servers: zktest.Sandbox(t, sandbox.Options{}).Addr(), Timeout: zktest.Patience})
	create(t, s, "/open")
	for name, c := range map[string]struct {
		deeds    []Deed
		stale    bool // whether the edit of the data requires another version
		rejected int
	}{
		"the ACL first":                   {[]Deed{Opens, Sets}, false, 0},
		"the data first":                  {[]Deed{Sets, Opens}, false, 0},
		"the data is rejected":            {[]Deed{Opens, Sets}, true, 1},
		"the data is rejected, the first": {[]Deed{Sets, Opens}, true, 1},
	} {
		var edits []*Edit
		both := &pair{}
		for _, does := range c.deeds {
			e := &Edit{Does: does, Path: "/open", Old: &dump.Znode{}, New: &dump.Znode{Data: []byte("x"), ACL: anyone}, pair: both}
			if does == Sets && c.stale {
				e.Old.Stat = &zk.Stat{Version: 77}
			}
			edits = append(edits, e)
		}
		done, err := Apply(t.Context(), s.Client, Seq(edits), rootTarget, Refuse, nil)
		rejected := 0
		if e := (*PartialError)(nil); errors.As(err, &e) {
			rejected = e.Changed.N
		}
		if done != (Counts{Changed: 1}) || rejected != c.rejected {
			t.Errorf("%s: %+v, %v", name, done, err)
		}
	}
}

// If the connection is cut at any request, Compare, Plan and Apply nevertheless make a tree equal to
// another one.
func TestEqualInSpiteOfCuts(t *testing.T) {
	const groups, size = 6, 10 // at the same time, because most of the time is spent on connecting again
	for group := range groups {
		t.Run(fmt.Sprint(group), func(t *testing.T) {
			t.Parallel()
			equalInSpiteOfCuts(t, group*size, (group+1)*size)
		})
	}
}

// equalInSpiteOfCuts is a part of TestEqualInSpiteOfCuts: the cases with the numbers from first to end-1.
func equalInSpiteOfCuts(t *testing.T, first, end int) {
	box := zktest.Sandbox(t, sandbox.Options{})
	auth := []zkconn.Credential{{Scheme: "digest", Auth: []byte("u:p")}}
	direct := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: zktest.Patience, Auth: auth})
	proxy := zktest.NewProxy(t, box.Addr())
	_, port, _ := strings.Cut(proxy.Addr(), ":")
	servers := proxy.Addr() + ",localhost:" + port // the client tries the second name at once
	s := zksession.Open(t, zkconn.Config{Servers: servers, Timeout: zktest.Patience, Auth: auth})
	for n := first; n < end; n++ {
		r := rand.New(rand.NewPCG(uint64(n), 9))
		a, b := fmt.Sprint("/a", n), fmt.Sprint("/b", n)
		old := randomTree(r, a, 30)
		for _, z := range old {
			if !worldMay(z, zk.PermDelete) { // else Apply could not delete the children
				z.ACL = anyone
			}
		}
		writeAll(t, direct, Refuse, old)
		writeAll(t, direct, Refuse, randomTree(r, b, 30))
		if at := r.IntN(60); n%2 == 0 {
			proxy.CutBeforeSkipping(zktest.AnyRequest, at)
		} else {
			proxy.CutAfterSkipping(zktest.AnyRequest, at)
		}
		current, wanted := ServerTree(t.Context(), s.Client, a, nil), ServerTree(t.Context(), s.Client, b, nil)
		all := DeletionsLast(Plan(Compare(current, wanted)), func([]*Edit) (bool, error) { return true, nil })
		_, err := Apply(t.Context(), s.Client, all, Target{Path: a, Name: a}, LeaveAlone, nil)
		if err != nil {
			t.Errorf("%d: %v", n, err)
		}
		if d := differences(t, serverTree(t, direct, a), serverTree(t, direct, b)); d != nil {
			t.Errorf("%d: %d differences: %v", n, len(d), d[:min(5, len(d))])
		}
	}
}

// If the connection is cut at any request, Delete and SetACL nevertheless change every znode, and count
// each once.
func TestSubtreeInSpiteOfCuts(t *testing.T) {
	for at := range 12 {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			subtreeInSpiteOfCuts(t, at)
		})
	}
}

// subtreeInSpiteOfCuts is a part of TestSubtreeInSpiteOfCuts: the cuts at the request with the given index.
func subtreeInSpiteOfCuts(t *testing.T, at int) {
	proxy := zktest.NewProxy(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	_, port, _ := strings.Cut(proxy.Addr(), ":")
	servers := proxy.Addr() + ",localhost:" + port // the client tries the second name at once
	s := zksession.Open(t, zkconn.Config{Servers: servers, Timeout: zktest.Patience})
	for name, cut := range map[string]func(int32, int) <-chan struct{}{
		"before": proxy.CutBeforeSkipping, "after": proxy.CutAfterSkipping,
	} {
		create(t, s, "/t", "/t/a", "/t/a/b", "/t/c", "/t/d")
		cut(zktest.AnyRequest, at)
		n, err := SetACL(t.Context(), s.Client, "/t", zk.WorldACL(zk.PermAll&^zk.PermWrite), 0, nil, nil)
		if n != 5 || err != nil {
			t.Errorf("cut %s request %d: %d ACLs set: %v", name, at, n, err)
		}
		cut(zktest.AnyRequest, at)
		if n, err := Delete(t.Context(), s.Client, "/t", 2, nil, nil); n != 5 || err != nil {
			t.Errorf("cut %s request %d: %d deleted: %v", name, at, n, err)
		}
		cut(-77, 0) // no further cuts: no request has this type
		left, err := Stats(t.Context(), s.Client, "/t")
		if len(left) > 0 || err != nil {
			t.Fatalf("cut %s request %d: %d znodes are left: %v", name, at, len(left), err)
		}
	}
}
