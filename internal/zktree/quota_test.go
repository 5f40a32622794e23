package zktree

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

// quotaSession returns a session with a new server. enforce says whether the server enforces hard
// quotas.
func quotaSession(t *testing.T, enforce bool) *zkconn.Session {
	t.Helper()
	box := zktest.Sandbox(t, sandbox.Options{EnforceQuota: enforce})
	return zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: zktest.Patience})
}

// setQuota sets the hard quota of a znode, which need not exist. A limit of -1 means no limit.
func setQuota(t *testing.T, s *zkconn.Session, path string, znodes, bytes int64) {
	t.Helper()
	dir := zkconn.QuotaPath
	for name := range strings.SplitSeq(path[1:]+"/"+zkconn.QuotaStats, "/") {
		dir += "/" + name
		data := []byte("count=0,bytes=0")
		if err := createNode(t, s, dir, data); !errors.Is(err, zkconn.NodeExists) {
			zktest.Must(t, err)
		}
	}
	limits := fmt.Sprintf("count=-1,bytes=-1=;byteHardLimit=%d;countHardLimit=%d", bytes, znodes)
	zktest.Must(t, createNode(t, s, zkconn.QuotaPath+path+"/"+zkconn.QuotaLimits, []byte(limits)))
}

func createNode(t *testing.T, s *zkconn.Session, path string, data []byte) error {
	return zkconn.Exec(t.Context(), s, zkconn.Create(path, data, anyone, zkconn.CreateMode{}))
}

// sizes returns the size of the data of each znode below root.
func sizes(t *testing.T, s *zkconn.Session, root string) map[string]int {
	t.Helper()
	all := map[string]int{}
	for z, err := range ServerTree(t.Context(), s.Client, root, nil).OrEmpty().Nodes {
		zktest.Must(t, err)
		all[z.Path] = len(z.Data)
	}
	return all
}

// Apply has the same result as single requests of which each waits for the reply to the one
// before, whether or not the server enforces the quotas.
func TestApplyRespectsQuotas(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		enforce := seed%3 > 0
		together, singly := quotaSession(t, enforce), quotaSession(t, enforce)
		var edits []*Edit
		paths := []string{"/q"}
		edit := func(does Deed, path string) {
			data := make([]byte, r.IntN(100))
			edits = append(edits, &Edit{Does: does, Path: path, Old: &dump.Znode{}, New: &dump.Znode{Data: data}})
		}
		edit(Creates, "/q")
		for i := range 80 {
			if i%3 == 2 {
				edit(Sets, paths[r.IntN(len(paths))])
				continue
			}
			paths = append(paths, fmt.Sprintf("%s/%d", paths[r.IntN(len(paths))], i))
			edit(Creates, paths[len(paths)-1])
		}
		quota, znodes, bytes := paths[r.IntN(3)], int64(-1), int64(-1)
		if seed%2 == 0 {
			znodes = r.Int64N(60) + 1
		}
		if seed%4 > 0 {
			bytes = r.Int64N(3000)
		}
		for _, s := range []*zkconn.Session{together, singly} {
			setQuota(t, s, quota, znodes, bytes)
		}
		done, err := Apply(t.Context(), together.Client, Seq(edits), Target{Path: "/q", Name: "/q"}, Refuse, nil)
		var want Counts
		for _, e := range edits {
			var err error
			if e.Does == Creates {
				err = createNode(t, singly, e.Path, e.New.Data)
			} else {
				err = zkconn.Exec(t.Context(), singly, zkconn.SetData(e.Path, e.New.Data, -1))
			}
			switch {
			case err != nil && !errors.Is(err, zkconn.QuotaExceeded) && !errors.Is(err, zkconn.NoNode):
				t.Fatal(err)
			case err == nil && e.Does == Creates:
				want.Created++
			case err == nil:
				want.Changed++
			}
		}
		if diff := cmp.Diff(sizes(t, singly, "/q"), sizes(t, together, "/q")); diff != "" || done != want {
			t.Errorf("seed %d, %d znodes and %d bytes below %s: %+v, want %+v: %v\n%s",
				seed, znodes, bytes, quota, done, want, err, diff)
		}
	}
}

// A server that does not enforce quotas receives only a few more requests, and so does a server
// whose quotas are all soft.
func TestApplyIgnoresUnenforcedQuotas(t *testing.T) {
	for name, limit := range map[string]int64{"soft": -1, "hard": 500} {
		box := zktest.Sandbox(t, sandbox.Options{})
		p := zktest.NewProxy(t, box.Addr())
		s := zksession.Open(t, zkconn.Config{Servers: p.Addr(), Timeout: zktest.Patience})
		setQuota(t, s, "/q", limit, -1)
		before := len(p.Requests())
		all := []*dump.Znode{{Path: "/q"}}
		for i := range 19_999 {
			all = append(all, &dump.Znode{Path: fmt.Sprintf("/q/%d", i)})
		}
		done, err := Apply(t.Context(), s.Client, Seq(creations(all)), Target{Path: "/q", Name: "/q"}, Refuse, nil)
		if requests := len(p.Requests()) - before; err != nil || done.Created != 20_000 || requests > 50 {
			t.Errorf("%s: %+v with %d requests: %v", name, done, requests, err)
		}
	}
}

// CheckQuotas rejects a multi if a server would not notice that it exceeds a quota.
func TestCheckQuotas(t *testing.T) {
	data := func(n int) []byte { return make([]byte, n) }
	create := func(path string, size int) zkconn.Change {
		return zkconn.Creation(path, data(size), anyone, zkconn.CreateMode{})
	}
	set := func(path string, size int) zkconn.Change { return zkconn.NewData(path, data(size), -1) }
	remove := func(path string) zkconn.Change { return zkconn.Removal(path, -1) }
	s := quotaSession(t, true)
	setQuota(t, s, "/q", 4, 100)
	setQuota(t, s, "/full", 1, -1)
	for path, size := range map[string]int{"/q": 10, "/free": 0, "/full": 0} {
		zktest.Must(t, createNode(t, s, path, data(size)))
	}
	zktest.Must(t, createNode(t, s, "/q/a", data(40)))
	const znodes = "the hard quota of /q allows 4 znodes; 2 are used, and the transaction would add "
	const bytes = "the hard quota of /q allows 100 bytes of data; 50 are used, and the transaction would add "
	type changes = []zkconn.Change
	for name, c := range map[string]struct {
		changes
		want string
	}{
		"fits":           {changes{create("/q/b", 20), create("/q/c", 30)}, ""},
		"no quota there": {changes{create("/free/a", 500), create("/free/b", 500), create("/q/c", 50)}, ""},
		"too many": {
			changes{create("/q/b", 0), create("/free/x", 0), create("/q/c", 0), create("/q/d", 0)}, znodes + "3",
		},
		"too large":    {changes{create("/q/b", 30), create("/q/c", 30)}, bytes + "60"},
		"delete first": {changes{remove("/q/a"), create("/q/b", 30), create("/q/c", 30), create("/q/d", 30)}, ""},
		"delete later": {changes{create("/q/b", 45), create("/q/c", 45), remove("/q/a")}, ""},
		"replaced":     {changes{set("/q", 15), set("/q/a", 50), set("/q/a", 85)}, ""},
		"grows":        {changes{set("/q", 40), set("/q/a", 65)}, bytes + "55"},
		"one alone":    {changes{create("/q/b", 51), create("/q/c", 0)}, ""}, // the server rejects it
		"already full": {changes{create("/full/b", 0), create("/full/c", 0)}, ""},
		"created first": {
			changes{create("/q/b", 30), set("/q/b", 20), set("/q/b", 31), create("/q/c", 20)}, bytes + "51",
		},
		"nothing": {nil, ""},
	} {
		got := ""
		if err := CheckQuotas(t.Context(), s.Client, c.changes); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	oldest := zktest.Sandbox(t, sandbox.Options{As: sandbox.Versions()[0]})
	old := zksession.Open(t, zkconn.Config{Servers: oldest.Addr(), Timeout: zktest.Patience})
	setQuota(t, old, "/q", 1, -1)
	if err := CheckQuotas(t.Context(), old.Client, []zkconn.Change{create("/q", 0), create("/q/a", 0)}); err != nil {
		t.Errorf("a server without hard quotas: %v", err)
	}
}
