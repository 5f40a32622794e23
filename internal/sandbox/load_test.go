package sandbox

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox/rawzk"
)

// load adds znodes to a server, as a file with the given root contains them.
func load(t *testing.T, s *Server, top string, znodes ...*Znode) {
	t.Helper()
	for _, z := range znodes {
		if err := s.Load(z, top); err != nil {
			t.Fatalf("%s: %v", z.Path, err)
		}
	}
}

// Clients see loaded znodes as the server had them.
func TestLoad(t *testing.T) {
	const lost = 0x100000000000001 // session that owns an ephemeral znode
	stat := zk.Stat{Czxid: 1, Mzxid: 2, Ctime: 3, Mtime: 4, Version: 5, Aversion: 6, Pzxid: 7}
	owned := stat
	owned.EphemeralOwner = lost
	bubble(t, Options{ReapEvery: math.MaxInt64}, func(t *testing.T, s *Server) {
		load(t, s, "/",
			&Znode{Path: "/", Data: []byte("root"), Stat: stat, Creates: 9},
			&Znode{Path: "/zookeeper", Stat: zk.Stat{Version: 1}},
			&Znode{Path: "/zookeeper/quota"},
			&Znode{Path: "/zookeeper/quota/a"},
			&Znode{Path: "/zookeeper/quota/a/zookeeper_limits", Data: []byte("count=9,bytes=-1")},
			&Znode{Path: "/zookeeper/quota/a/zookeeper_stats", Data: []byte("count=2,bytes=1")},
			&Znode{Path: "/a", Data: []byte("x"), ACL: zk.DigestACL(zk.PermAll, "u", "p"), Stat: stat, Creates: 41},
			&Znode{Path: "/a/e", Stat: owned, ACL: zk.WorldACL(zk.PermAll)},
			&Znode{Path: "/a/c", Container: true, Creates: 1, ACL: zk.WorldACL(zk.PermAll)},
			&Znode{Path: "/a/t", TTL: time.Hour, ACL: zk.WorldACL(zk.PermAll)},
		)
		c := open(t, s)
		if got := code(c.call(jute.OpGetData, rawzk.PathWatch("/a", false)).Err); got != codeNoAuth {
			t.Errorf("a stranger got %d", got)
		}
		c.must(jute.OpAuth, rawzk.Auth("digest", "u:p"))
		d := c.must(jute.OpGetData, rawzk.PathWatch("/a", false))
		want := stat
		want.Cversion, want.NumChildren, want.DataLength = 2*41-3, 3, 1
		if data, got := d.Buffer(), d.Stat(); string(data) != "x" || *got != want {
			t.Errorf("%q, %+v", data, got)
		}
		d = c.must(jute.OpGetData, rawzk.PathWatch("/", false))
		if data, got := d.Buffer(), d.Stat(); string(data) != "root" || got.Czxid != 1 || got.NumChildren != 2 {
			t.Errorf("%q, %+v", data, got)
		}
		if got := c.must(jute.OpExists, rawzk.PathWatch("/a/e", false)).Stat(); *got != owned {
			t.Errorf("%+v", got)
		}
		if got := c.create("/a/n-", modeSequential); got != "/a/n-0000000041" {
			t.Error(got)
		}
		stats := c.must(jute.OpGetData, rawzk.PathWatch("/zookeeper/quota/a/zookeeper_stats", false)).Buffer()
		if string(stats) != "count=3,bytes=2" {
			t.Errorf("%q", stats)
		}
		time.Sleep(48 * time.Hour) // in the bubble's time: nothing expires but the session
		for _, path := range []string{"/a/e", "/a/c", "/a/t"} {
			if !open(t, s).exists(path) {
				t.Errorf("%s is gone", path)
			}
		}
	})
}

// The first change after Load has a larger zxid than every loaded znode.
func TestZxidAfterLoad(t *testing.T) {
	const late = 1 << 62
	for _, stat := range []zk.Stat{{Czxid: late}, {Mzxid: late}, {Pzxid: late}} {
		bubble(t, Options{}, func(t *testing.T, s *Server) {
			load(t, s, "/", &Znode{Path: "/a", Stat: stat})
			c := open(t, s)
			c.create("/b", 0)
			if st := c.must(jute.OpExists, rawzk.PathWatch("/b", false)).Stat(); st.Czxid <= late {
				t.Errorf("%#x", st.Czxid)
			}
		})
	}
}

// The first dump may begin below the root, and the ancestors of its top may follow in another one.
func TestLoadBelowTheRoot(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Server) {
		load(t, s, "/a/b/c", &Znode{Path: "/a/b/c", Data: []byte("c")}, &Znode{Path: "/a/b/c/d"})
		load(t, s, "/a", &Znode{Path: "/a", Data: []byte("a"), Stat: zk.Stat{Version: 3}})
		c := open(t, s)
		d := c.must(jute.OpGetData, rawzk.PathWatch("/a", false))
		if data, st := d.Buffer(), d.Stat(); string(data) != "a" || st.Version != 3 || st.NumChildren != 1 {
			t.Errorf("%q %+v", data, st)
		}
		if !c.exists("/a/b") || !c.exists("/a/b/c/d") {
			t.Error("a znode is missing")
		}
		for path, want := range map[string]error{
			"/a": ErrLoaded, "/a/b/c": ErrLoaded, "/x/y": errNoParent, "/a/b/x/y": errNoParent,
		} {
			if err := s.Load(&Znode{Path: path}, "/a"); !errors.Is(err, want) {
				t.Errorf("%s: %v", path, err)
			}
		}
		for _, path := range []string{"", "a", "/a/", "/a//b", "/a/../b"} {
			if err := s.Load(&Znode{Path: path}, path); err == nil {
				t.Errorf("%q was loaded", path)
			}
		}
	})
}

// Load returns an error before the tree exceeds its limit by more than one znode.
func TestLoadIsLimited(t *testing.T) {
	s := New(Options{MaxTreeBytes: 1 << 20})
	defer s.Close()
	for i := range 10_000 {
		if err := s.Load(&Znode{Path: fmt.Sprint("/n", i)}, "/"); errors.Is(err, ErrTooLarge) {
			check(t, s)
			return
		}
	}
	t.Errorf("%d bytes", s.tree.bytes)
}

// With OnlySuperuser, nobody else can send requests, or learn a path from a four-letter command.
func TestOnlySuperuser(t *testing.T) {
	const credential = "super:secret"
	bubble(t, Options{SuperDigest: digestOf(credential), OnlySuperuser: true}, func(t *testing.T, s *Server) {
		load(t, s, "/",
			&Znode{Path: "/watched", ACL: zk.DigestACL(zk.PermAll, "u", "p")},
			&Znode{Path: "/owned", Stat: zk.Stat{EphemeralOwner: 1}})
		for _, other := range []string{"", "u:p", "super:other"} {
			c := open(t, s)
			if other != "" {
				c.must(jute.OpAuth, rawzk.Auth("digest", other))
			}
			if got := code(c.call(jute.OpExists, rawzk.PathWatch("/watched", false)).Err); got != codeSessionNoAuth {
				t.Errorf("%q: error %d", other, got)
			}
		}
		c := open(t, s)
		c.must(jute.OpAuth, rawzk.Auth("digest", credential))
		c.must(jute.OpGetData, rawzk.PathWatch("/watched", true))
		for word := range fourLetterCommands {
			if text := ask(t, s, word); strings.Contains(text, "/watched") || strings.Contains(text, "/owned") || text == "" {
				t.Errorf("%s: %q", word, text)
			}
		}
	})
}

// A new session never owns a loaded ephemeral znode.
func TestLoadedOwnerIsNoSession(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Server) {
		next := s.lastSession + 1
		load(t, s, "/", &Znode{Path: "/e", Stat: zk.Stat{EphemeralOwner: next}})
		c := open(t, s)
		c.call(jute.OpCloseSession, nil)
		c.waitClosed()
		if !open(t, s).exists("/e") {
			t.Error("the znode was deleted with the session of another client")
		}
	})
}
