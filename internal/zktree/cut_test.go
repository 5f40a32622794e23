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

// TestWriterCut cuts the connection before and after each multi of a Writer. At least the znodes
// that the Writer counts as created exist, and at most those and the ones of unknown outcome.
func TestWriterCut(t *testing.T) {
	box := zktest.Sandbox(t, sandbox.Options{})
	watching := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: 10 * time.Second})
	n := 0
	trial := func(prepare func(*zktest.Proxy)) (cut bool) {
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
		w, err := NewWriter(t.Context(), s.Client, Target{Path: root, Name: root}, Refuse, nil)
		zktest.Must(t, err)
		for _, z := range all {
			if err = w.Do(Edit{Does: Creates, Path: z.Path, Znode: z}); err != nil {
				break
			}
		}
		done, err := w.Close(err)
		there, statErr := Stats(t.Context(), watching.Client, root)
		if statErr != nil {
			t.Fatal(statErr)
		}
		so, _ := errors.AsType[*WriteError](err)
		switch {
		case err == nil && (len(there) != len(all) || done.Created != len(all)):
			t.Errorf("%d: %d of %d are there, and %d said to be", n, len(there), len(all), done.Created)
		case err == nil:
			return false
		case so == nil && len(there) > 0:
			t.Errorf("%d: %d are there: %v", n, len(there), err)
		case so != nil && (done.Created > len(there) || len(there) > done.Created+so.Outcome.Unknown):
			t.Errorf("%d: %d are there, %d said to be and %d that may be", n, len(there), done.Created, so.Outcome.Unknown)
		}
		return true
	}
	for skip := 0; trial(func(p *zktest.Proxy) { p.CutBeforeSkipping(jute.OpMulti, skip) }); skip++ {
		trial(func(p *zktest.Proxy) { p.CutAfterSkipping(jute.OpMulti, skip) })
	}
	if n < 10 {
		t.Errorf("only %d multis were cut", n/2)
	}
}

// If the server rejects one ACL, the Writer reports it and writes the other znodes.
func TestWriterRefusals(t *testing.T) {
	box := zktest.Sandbox(t, sandbox.Options{})
	s := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: 10 * time.Second})
	create(t, s, "/r", "/r/there")
	w, err := NewWriter(t.Context(), s.Client, Target{Path: "/r", Name: "/r"}, Skip, nil)
	zktest.Must(t, err)
	bad := []zk.ACL{{Perms: 31, Scheme: "none", ID: "x"}}
	for _, path := range []string{"/r/a", "/r/bad", "/r/bad/below", "/r/there", "/r/z"} {
		acl := anyone
		if path == "/r/bad" {
			acl = bad
		}
		zktest.Must(t, w.Do(Edit{Does: Creates, Path: path, Znode: &dump.Znode{ACL: acl}}))
	}
	done, err := w.Close(nil)
	so, _ := errors.AsType[*WriteError](err)
	if so == nil || so.N != 1 || so.Below != 1 || done.Created != 2 || done.Skipped != 1 || !errors.Is(err, zkconn.InvalidACL) {
		t.Errorf("%+v, %v", done, err)
	}
}

// A WriteError says who rejected znodes: the server, or zksh because they are too large to be sent.
func TestWriterSaysWhoRejected(t *testing.T) {
	s := zksession.Open(t, zkconn.Config{Servers: zktest.Sandbox(t, sandbox.Options{}).Addr(), Timeout: zktest.Patience})
	large := Edit{Does: Creates, Path: "/large", Znode: &dump.Znode{Data: make([]byte, zkconn.UsualMaxRequest)}}
	invalid := Edit{Does: Creates, Path: "/invalid", Znode: &dump.Znode{ACL: []zk.ACL{{Perms: 31, Scheme: "none", ID: "x"}}}}
	small := Edit{Does: Creates, Znode: &dump.Znode{}}
	for want, edits := range map[string][]Edit{
		"; zksh rejected 1: the request for /large was not sent":                         {large},
		"; the server rejected 1: ":                                                      {invalid},
		"; the server rejected 1 and zksh 1: the request for /large was not sent, becau": {large, invalid},
	} {
		small.Path = fmt.Sprintf("/small%d", len(want)) // another one each time
		all := append(edits, small)
		_, err := Write(t.Context(), s.Client, rootTarget, Refuse, nil, func(w *Writer) error { return w.Do(all...) })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A znode whose ACL and data change counts once, whichever of the two the server rejects.
func TestWriterCountsAZnodeOnce(t *testing.T) {
	s := zksession.Open(t, zkconn.Config{Servers: zktest.Sandbox(t, sandbox.Options{}).Addr(), Timeout: zktest.Patience})
	create(t, s, "/open")
	acl := Edit{Does: Opens, Also: true, Path: "/open", Znode: &dump.Znode{ACL: anyone}, Version: -1}
	data := Edit{Does: Sets, Path: "/open", Znode: &dump.Znode{Data: []byte("x")}, Version: -1}
	stale := data
	stale.Version = 77
	for name, c := range map[string]struct {
		edits    []Edit
		rejected int
	}{
		"the ACL first":                   {[]Edit{acl, data}, 0},
		"the data first":                  {[]Edit{data, acl}, 0},
		"the data is rejected":            {[]Edit{acl, stale}, 1},
		"the data is rejected, the first": {[]Edit{stale, acl}, 1},
	} {
		do := func(w *Writer) error { return w.Do(c.edits...) }
		done, err := Write(t.Context(), s.Client, rootTarget, Refuse, nil, do)
		rejected := 0
		if e := (*WriteError)(nil); errors.As(err, &e) {
			rejected = e.N
		}
		if done != (Counts{Changed: 1}) || rejected != c.rejected {
			t.Errorf("%s: %+v, %v", name, done, err)
		}
	}
}
