package sandbox

import (
	"slices"
	"testing"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox/rawzk"
)

// null is an encoded null string.
var null = []byte{0xff, 0xff, 0xff, 0xff}

func body(parts ...[]byte) []byte { return slices.Concat(parts...) }

func num(n int32) []byte {
	var e jute.Encoder
	e.Int(n)
	return e.B
}

// The expected errors were recorded from ZooKeeper 3.8.0. Package difftest compares many
// more replies if a real server is installed.
func TestErrorCodes(t *testing.T) {
	path, create := rawzk.Path, func(p string, flags int32) []byte { return rawzk.Create(p, nil, rawzk.Open, flags) }
	for _, tt := range []struct {
		name string
		op   int32
		body []byte
		want code
	}{
		{"create: cut short", jute.OpCreate, path("/a"), codeMarshalling},
		{"create: null path", jute.OpCreate, body(null, create("", 0)[4:]), codeMarshalling},
		{"create: null ACL", jute.OpCreate, body(path("/x"), num(0), null, num(0)), codeInvalidACL},
		{"create: empty ACL", jute.OpCreate, rawzk.Create("/x", nil, nil, 0), codeInvalidACL},
		{"create: no parent", jute.OpCreate, create("/none/x", 0), codeNoNode},
		{"create: exists", jute.OpCreate, create("/a", 0), codeNodeExists},
		{"create: below an ephemeral node", jute.OpCreate, create("/e/x", 0), codeNoChildrenForEphs},
		{"create: below the configuration", jute.OpCreate, create("/zookeeper/config/x", 0), codeNoAuth},
		{"create: mode 7", jute.OpCreate, create("/x", 7), codeBadArguments},
		{"create: TTL mode without a TTL", jute.OpCreate, create("/x", modeTTL), codeBadArguments},
		{"create: TTL 0", jute.OpCreateTTL, rawzk.CreateTTL("/x", nil, rawzk.Open, modeTTL, 0), codeBadArguments},
		{"create: TTL too long", jute.OpCreateTTL, rawzk.CreateTTL("/x", nil, rawzk.Open, modeTTL, maxTTL+1), codeBadArguments},
		{"create: container with a TTL mode", jute.OpCreateContainer, create("/x", modeTTL), codeBadArguments},
		{"delete: null path", jute.OpDelete, body(null, num(-1)), codeMarshalling},
		{"delete: root", jute.OpDelete, rawzk.PathInt("/", -1), codeBadArguments},
		{"delete: quota", jute.OpDelete, rawzk.PathInt(quotaPath, -1), codeBadArguments},
		{"delete: no slash", jute.OpDelete, rawzk.PathInt("a", -1), codeBadArguments},
		{"delete: slash at the end", jute.OpDelete, rawzk.PathInt("/a/", -1), codeNoNode},
		{"delete: not empty", jute.OpDelete, rawzk.PathInt("/a", -1), codeNotEmpty},
		{"delete: version", jute.OpDelete, rawzk.PathInt("/a/b", 3), codeBadVersion},
		{"setData: null path", jute.OpSetData, body(null, num(0), num(-1)), codeBadArguments},
		{"setData: configuration", jute.OpSetData, rawzk.Set(configPath, nil, -1), codeNoAuth},
		{"setData: empty path", jute.OpSetData, rawzk.Set("", nil, -1), codeBadArguments},
		{"setACL: configuration", jute.OpSetACL, rawzk.SetACL(configPath, rawzk.Open, -1), codeNoAuth},
		{"exists: null path", jute.OpExists, body(null, []byte{0}), codeMarshalling},
		{"exists: NUL", jute.OpExists, rawzk.PathWatch("/a\x00b", false), codeBadArguments},
		{"exists: the root's other name", jute.OpExists, rawzk.PathWatch("", false), codeOK},
		{"getData: NUL", jute.OpGetData, rawzk.PathWatch("/a\x00b", false), codeNoNode},
		{"getData: cut short", jute.OpGetData, []byte{0, 0}, codeMarshalling},
		{"check: alone, fails", jute.OpCheck, rawzk.PathInt("/none", -1), codeNoNode},
		{"multi: cut short", jute.OpMulti, []byte{0}, codeMarshalling},
		{"multi: unknown operation", jute.OpMulti, rawzk.Multi(rawzk.Op{Op: 99}), codeMarshalling},
		{"multi: setACL", jute.OpMulti, rawzk.Multi(rawzk.Op{Op: jute.OpSetACL, Body: rawzk.SetACL("/a", rawzk.Open, -1)}), codeMarshalling},
		{"multi: TTL mode in a plain create", jute.OpMulti, rawzk.Multi(rawzk.Op{Op: jute.OpCreate, Body: create("/x", modeTTL)}), codeMarshalling},
		{"multi: failing operation", jute.OpMulti, rawzk.Multi(rawzk.Op{Op: jute.OpDelete, Body: rawzk.PathInt("/none", -1)}), codeOK},
		{"multiRead: writes", jute.OpMultiRead, rawzk.Multi(rawzk.Op{Op: jute.OpCreate, Body: create("/x", 0)}), codeMarshalling},
		{"reconfig", jute.OpReconfig, body(path(""), path(""), path(""), make([]byte, 8)), codeReconfigDisabled},
		{"deleteContainer", jute.OpDeleteContainer, []byte("/a"), codeBadArguments},
		{"addWatch: mode 2", jute.OpAddWatch, rawzk.PathInt("/a", 2), codeMarshalling},
		{"addWatch: no such node", jute.OpAddWatch, rawzk.PathInt("/none", 0), codeOK},
		{"checkWatches: none", jute.OpCheckWatches, rawzk.PathInt("/a", 3), codeNoWatcher},
		{"checkWatches: no slash", jute.OpCheckWatches, rawzk.PathInt("a", 3), codeMarshalling},
		{"removeWatches: type 0", jute.OpRemoveWatches, rawzk.PathInt("/a", 0), codeMarshalling},
		{"setWatches: null vectors", jute.OpSetWatches, body(make([]byte, 8), null, null, null), codeMarshalling},
		{"sync: no such node", jute.OpSync, path("/none"), codeOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, Options{}, func(t *testing.T, s *Server) {
				c := open(t, s)
				c.create("/a", 0)
				c.create("/a/b", 0)
				c.create("/e", modeEphemeral)
				if got := code(c.call(tt.op, tt.body).Err); got != tt.want {
					t.Errorf("error %d instead of %d", got, tt.want)
				}
				c.create("/after", 0) // the session still works
			})
		})
	}
}

// An event that is withheld because the client lacks READ still removes the watch.
func TestEventsNeedRead(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Server) {
		owner, other := open(t, s), open(t, s)
		owner.must(jute.OpAuth, rawzk.Auth("digest", "u:p"))
		other.call(jute.OpExists, rawzk.PathWatch("/n", true))
		owner.must(jute.OpCreate, rawzk.Create("/n", nil, []rawzk.ACL{{Perms: permAll, Scheme: "auth"}}, 0))
		owner.must(jute.OpDelete, rawzk.PathInt("/n", -1))
		owner.create("/n", 0)
		if frames, err := other.Flush(); err != nil || len(frames) > 0 {
			t.Errorf("got %v, %v", frames, err)
		}
	})
}

func TestPaths(t *testing.T) {
	for path, want := range map[string]bool{
		"/": true, "/a": true, "/a/b": true, "/é": true, "/日本": true, "/ ": true, "/a.b": true, "/...": true, "/\u00a0": true,
		"": false, "a": false, "//": false, "/a/": false, "/a//b": false, "/.": false, "/a/..": false, "/a\x00": false,
		"/\x1f": false, "/\x7f": false, "/\u009f": false, "/\ue000": false, "/\uf8ff": false, "/\uf900": true, "/\uffef": true,
		"/\ufff0": false, "/😀": false, "/\xff": false,
	} {
		if validPath(path) != want {
			t.Errorf("validPath(%q) is %v", path, !want)
		}
	}
}

func TestQuotaText(t *testing.T) {
	for text, want := range map[string]string{
		"":                  "count=-1,bytes=-1",
		"count=1,bytes=2":   "count=1,bytes=2",
		"bytes=2=;count=+1": "count=1,bytes=2",
		"count=1,bytes=5=;byteHardLimit=-1;countHardLimit=10": "count=1,bytes=5;byteHardLimit=-1;countHardLimit=10",
	} {
		q, ok := jute.ParseQuota([]byte(text))
		if got := statsText(q); got != want || !ok {
			t.Errorf("%q reads as %q, %v", text, got, ok)
		}
	}
	for _, text := range []string{"x", "count", "count=", "count=x", "=1=x,y"} {
		if _, ok := jute.ParseQuota([]byte(text)); ok {
			t.Errorf("%q is taken for a quota", text)
		}
	}
}
