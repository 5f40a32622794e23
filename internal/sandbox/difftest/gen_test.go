package difftest

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox/rawzk"
)

// A step is a request, several requests at once, or a new connection of a session.
type step struct {
	session      int
	op           int32
	body         []byte
	sinceZxid    int64 // if isSetWatches: zxid for the first 8 bytes of body, relative to the first
	isSetWatches bool
	closes       bool       // the server will close the connection
	raw          bool       // body is sent without a length and header
	connect      int        // if not 0: open a new connection in this way; see the constants
	timeout      int32      // session timeout for connect, in ms; 0 means 60000
	burst        []rawzk.Op // several requests at once instead of one
}

const (
	resume      = iota + 1 // with the session's id and password
	resumeWrong            // with the session's id and a wrong password
	resumeAhead            // with a last zxid that is in the future
	resumeNone             // with an unknown session id
	fresh                  // with a new session
)

// A gen makes random steps. The same seed results in the same steps, as long as both
// servers give the same replies.
type gen struct {
	*rand.Rand
	created  []string // paths the servers have reported as created
	zxid     int64    // last zxid, relative to the first
	noBursts bool     // never several requests at once
}

func pick[T any](g *gen, list ...T) T { return list[g.IntN(len(list))] }

// chance returns true in n of 100 cases.
func (g *gen) chance(n int) bool { return g.IntN(100) < n }

var badPaths = []string{
	"", "/", "a", "//", "/a/", "/a//b", "/a/./b", "/a/..", "/..", "/.", "/a\x00b", "/a\x01", "/a\x1f",
	"/a\x7f", "/a\u009f", "/a\u00a0", "/\ue000", "/\uf8ff", "/\uf900", "/\uffef", "/\ufff0", "/\uffff", "/😀",
	"/é", "/日本", "/ a b ", "/a.b", "/zookeeper", "/zookeeper/", "/zookeeper/quota", "/zookeeper/config",
	"/zookeeper/config/x", "/zookeeper/x", "/zookeeper/quota/x", "/no/such/node", "/.../x", "a/b",
}

// path returns mostly one of a few dozen paths, so that operations affect the same nodes.
func (g *gen) path() string {
	switch n := g.IntN(100); {
	case n < 3:
		return pick(g, badPaths...)
	case n < 18 && len(g.created) > 0:
		return g.created[len(g.created)-1-g.IntN(min(len(g.created), 40))]
	}
	var b strings.Builder
	for range 1 + g.IntN(3) {
		b.WriteString("/" + pick(g, "a", "b", "c"))
	}
	return b.String()
}

// safePath returns a path of a node that may have any data. Malformed text in the node of
// a quota crashes ZooKeeper.
func (g *gen) safePath() string {
	if path := g.path(); !strings.Contains(path, "zookeeper_") {
		return path
	}
	return "/a"
}

func (g *gen) data() []byte {
	switch g.IntN(6) {
	case 0:
		return nil
	case 1:
		return []byte{}
	}
	b := make([]byte, g.IntN(60))
	for i := range b {
		b[i] = byte(g.Uint32())
	}
	return b
}

func (g *gen) version() int32 { return pick(g, int32(-1), -1, -1, 0, 0, 1, 2, 3, 7, -2) }

func digest(cred string) string {
	user, _, _ := strings.Cut(cred, ":")
	sum := sha1.Sum([]byte(cred))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

func (g *gen) aclEntry() rawzk.ACL {
	perms := pick(g, int32(31), 31, 31, 1, 15, 16, 17, 2, 4, 8, 0, -1, 99)
	who := pick(g,
		[2]string{"world", "anyone"}, [2]string{"world", "anyone"}, [2]string{"auth", ""}, [2]string{"auth", "x"},
		[2]string{"digest", digest("u1:p1")}, [2]string{"digest", digest("u2:p2")}, [2]string{"ip", "127.0.0.1"},
		[2]string{"ip", "127.0.0.0/8"}, [2]string{"ip", "10.0.0.0/8"}, [2]string{"ip", "127.0.0.1/32"},
		[2]string{"digest", "a:b:"})
	if g.chance(4) {
		who = pick(g, [2]string{"world", "x"}, [2]string{"digest", "a"}, [2]string{"digest", "a:b:c"},
			[2]string{"digest", ":"}, [2]string{"digest", ":b"}, [2]string{"digest", "a:"}, [2]string{"ip", "1.2.3"},
			[2]string{"ip", "1.2.3.400"}, [2]string{"ip", "1.2.3.4/33"}, [2]string{"ip", "1.2.3.4/"},
			[2]string{"ip", "1.2.3.4/-1"}, [2]string{"ip", "::1"}, [2]string{"ip", ""},
			[2]string{"sasl", "a"}, [2]string{"super", ""}, [2]string{"x509", "CN=a"}, [2]string{"", ""}, [2]string{"bogus", "x"})
	}
	return rawzk.ACL{Perms: perms, Scheme: who[0], ID: who[1]}
}

func (g *gen) acl() []rawzk.ACL {
	if g.chance(75) {
		return rawzk.Open
	}
	var list []rawzk.ACL
	for range g.IntN(4) {
		list = append(list, g.aclEntry())
	}
	if len(list) > 1 && g.chance(20) {
		list = append(list, list[0])
	}
	return list
}

// create returns a create request of any kind.
func (g *gen) create() rawzk.Op {
	op := pick[int32](g, jute.OpCreate, jute.OpCreate, jute.OpCreate2, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL)
	path := g.safePath()
	if g.chance(15) {
		path += pick(g, "-", "/")
	}
	flags := pick[int32](g, 0, 0, 0, 0, 1, 2, 3)
	switch op {
	case jute.OpCreateContainer:
		flags = pick[int32](g, 4, 4, 4, 0, 1, 2)
	case jute.OpCreateTTL:
		flags = pick[int32](g, 5, 6)
	}
	if g.chance(2) && op != jute.OpCreateTTL {
		flags = pick[int32](g, 4, 5, 6, 7, 99, -1)
	}
	if op == jute.OpCreateTTL {
		ttl := pick[int64](g, 3600000, 1<<40-1, 1<<40, 0, -1)
		return rawzk.Op{Op: op, Body: rawzk.CreateTTL(path, g.data(), g.acl(), flags, ttl)}
	}
	return rawzk.Op{Op: op, Body: rawzk.Create(path, g.data(), g.acl(), flags)}
}

var quotaPaths = []string{"/a", "/b", "/a/b", "/c"}

// quotaOp returns a write to a node of a quota, with well-formed text only.
func (g *gen) quotaOp() rawzk.Op {
	base := "/zookeeper/quota" + pick(g, quotaPaths...)
	name := pick(g, "", "/zookeeper_limits", "/zookeeper_limits", "/zookeeper_stats", "/zookeeper_stats")
	var text string
	switch name {
	case "/zookeeper_limits":
		text = fmt.Sprintf("count=%d,bytes=%d", g.IntN(8)-1, g.IntN(200)-1)
		if g.chance(60) {
			text += fmt.Sprintf("=;byteHardLimit=%d;countHardLimit=%d", g.IntN(200)-1, g.IntN(12)-1)
		}
	case "/zookeeper_stats":
		text = fmt.Sprintf("count=%d,bytes=%d", g.IntN(8), g.IntN(200))
	}
	switch g.IntN(10) {
	case 0, 1:
		return rawzk.Op{Op: jute.OpDelete, Body: rawzk.PathInt(base+name, -1)}
	case 2, 3:
		return rawzk.Op{Op: jute.OpSetData, Body: rawzk.Set(base+name, []byte(text), g.version())}
	}
	return rawzk.Op{Op: jute.OpCreate, Body: rawzk.Create(base+name, []byte(text), rawzk.Open, 0)}
}

// write returns a write request that a multi may also contain.
func (g *gen) write() rawzk.Op {
	switch n := g.IntN(100); {
	case n < 12:
		return g.quotaOp()
	case n < 55:
		return g.create()
	case n < 80:
		return rawzk.Op{Op: jute.OpDelete, Body: rawzk.PathInt(g.path(), g.version())}
	}
	return rawzk.Op{Op: jute.OpSetData, Body: rawzk.Set(g.safePath(), g.data(), g.version())}
}

func (g *gen) multi() []byte {
	var ops []rawzk.Op
	for range g.IntN(6) {
		if g.chance(20) {
			ops = append(ops, rawzk.Op{Op: jute.OpCheck, Body: rawzk.PathInt(g.path(), g.version())})
		} else {
			ops = append(ops, g.write())
		}
	}
	if g.chance(2) {
		ops = append(ops, rawzk.Op{Op: pick[int32](g, jute.OpSetACL, jute.OpGetData, 99), Body: rawzk.PathWatch("/a", false)})
	}
	return rawzk.Multi(ops...)
}

func (g *gen) multiRead() []byte {
	var ops []rawzk.Op
	for range g.IntN(6) {
		ops = append(ops, rawzk.Op{Op: pick[int32](g, jute.OpGetData, jute.OpGetChildren), Body: rawzk.PathWatch(g.path(), g.chance(20))})
	}
	if g.chance(3) {
		ops = append(ops, g.write())
	}
	return rawzk.Multi(ops...)
}

func (g *gen) paths() []string {
	list := []string{}
	for range g.IntN(4) {
		list = append(list, g.path())
	}
	return list
}

// next returns the next step for a session.
func (g *gen) next(session int) step {
	if g.noBursts || g.chance(96) {
		return g.single(session)
	}
	s := step{session: session}
	for range 2 + g.IntN(8) {
		// In ZooKeeper, credentials can overtake other requests, and a write may be checked
		// against the ACL before the preceding setACL.
		if one := g.single(session); !one.closes && !one.isSetWatches && one.connect == 0 && one.op != jute.OpAuth && one.op != jute.OpSetACL && one.op != jute.OpSASL && one.op != jute.OpPing {
			s.burst = append(s.burst, rawzk.Op{Op: one.op, Body: one.body})
		}
	}
	if len(s.burst) == 0 {
		return g.single(session)
	}
	return s
}

func (g *gen) single(session int) step {
	s := step{session: session}
	set := func(op int32, body []byte) { s.op, s.body = op, body }
	switch n := g.IntN(1000); {
	case n < 400:
		o := g.write()
		set(o.Op, o.Body)
	case n < 480:
		set(jute.OpMulti, g.multi())
	case n < 510:
		set(jute.OpMultiRead, g.multiRead())
	case n < 570:
		set(jute.OpExists, rawzk.PathWatch(g.path(), g.chance(60)))
	case n < 640:
		set(jute.OpGetData, rawzk.PathWatch(g.path(), g.chance(50)))
	case n < 710:
		set(pick[int32](g, jute.OpGetChildren, jute.OpGetChildren2), rawzk.PathWatch(g.path(), g.chance(60)))
	case n < 740:
		set(jute.OpGetACL, rawzk.Path(g.path()))
	case n < 775:
		path := g.path()
		list := g.acl()
		if path == "/" {
			list = rawzk.Open
		}
		set(jute.OpSetACL, rawzk.SetACL(path, list, g.version()))
	case n < 785:
		set(jute.OpSync, rawzk.Path(g.path()))
	case n < 795:
		set(jute.OpCheck, rawzk.PathInt(g.path(), g.version()))
	case n < 830:
		set(jute.OpAddWatch, rawzk.PathInt(g.path(), pick[int32](g, 0, 1, 0, 1, 0, 1, 2)))
	case n < 865:
		set(pick[int32](g, jute.OpCheckWatches, jute.OpRemoveWatches), rawzk.PathInt(g.path(), pick[int32](g, 1, 2, 3, 3, 1, 2, 0)))
	case n < 880:
		s.isSetWatches, s.sinceZxid = true, g.Int64N(g.zxid+5)
		if g.chance(50) {
			set(jute.OpSetWatches, rawzk.SetWatches(0, g.paths(), g.paths(), g.paths()))
		} else {
			set(jute.OpSetWatches2, rawzk.SetWatches(0, g.paths(), g.paths(), g.paths(), g.paths(), g.paths()))
		}
	case n < 895:
		set(jute.OpGetEphemerals, rawzk.Path(pick(g, "", "/", "/a", " ", g.path())))
	case n < 915:
		set(jute.OpGetAllChildrenNumber, rawzk.Path(g.path()))
	case n < 925:
		set(jute.OpWhoAmI, nil)
	case n < 945:
		set(jute.OpAuth, rawzk.Auth(pick(g, "digest", "digest", "digest", "ip"), pick(g, "u1:p1", "u2:p2", "u1:p1", "nocolon", "x:y:z")))
	case n < 950:
		set(pick[int32](g, jute.OpReconfig, jute.OpSASL, jute.OpDeleteContainer), append(rawzk.SetWatches(0), make([]byte, 16)...)) // decodes as null strings and zeros
	case n < 953:
		set(jute.OpAuth, rawzk.Auth(pick(g, "bogus", "world", "x509", "sasl", ""), "a:b"))
		s.closes = true
	case n < 956:
		set(pick[int32](g, 0, -1, 10, 23, 99, 108, 1000, jute.OpSASL), nil)
		s.closes = true
	case n < 959:
		s.raw, s.closes = true, true
		s.body = pick(g, []byte{0, 0, 0, 0}, []byte{0, 0, 0, 3, 1, 2, 3}, []byte{0, 0x10, 0, 0}, []byte{0xff, 0xff, 0xff, 0xff},
			[]byte("GET / HTTP/1.0\r\n\r\n"))
	case n < 968:
		set(jute.OpCloseSession, nil)
		s.closes = true
	case n < 980:
		s.connect = pick(g, resume, resume, resume, resumeWrong, resumeAhead, resumeNone)
		s.timeout = pick[int32](g, 30000, 45678, 60000, 60001, 1<<31-1)
	default:
		set(jute.OpPing, nil)
	}
	if !s.closes && len(s.body) > 0 && g.chance(1) {
		s.body = s.body[:g.IntN(len(s.body))]
		s.isSetWatches = s.isSetWatches && len(s.body) >= 8
	}
	return s
}

// setWatchesBody returns the body of a setWatches request for a server whose first zxid is
// base.
func (s step) setWatchesBody(base int64) []byte {
	var e jute.Encoder
	e.Long(base + s.sinceZxid)
	return append(e.B, s.body[8:]...)
}
