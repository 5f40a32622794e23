package replay

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zktest"
)

// batch is a run of cases on one server, which starts empty. The recorded ones
// saw each other's znodes, so these run in the recorded order too.
type batch struct {
	name    string
	cases   string // what the names match
	options []zktest.Option
	before  map[string]func(*testing.T, *zk.Conn) // what a case finds
}

var batches = []batch{
	{name: "first", cases: `^(c[0-5]\d|c6[0-2]|o\d\d)_`, before: map[string]func(*testing.T, *zk.Conn){
		// Recordings that were not kept had left these.
		"c04_create_basic": znodes("/c08", "/c10", "/c13", "/c19", "/c21"),
		"c25_getAllChildrenNumber": both(without("/c22"), znodes("/c24", "/c24/1", "/c24/2", "/c24/3", "/c24/4",
			"/c24/5", "/c24/6", "/c24/7", "/c24/8", "/c24/9")),
		"c30_addWatch":        znodes("/c31", "/c33", "/c35", "/c36"),
		"c42_ls2_rmr":         znodes("/c41", "/c44", "/c46", "/c48", "/c56", "/c58"),
		"c45_setquota_errors": znodes("/zookeeper/quota/c44"),
	}},
	{name: "second", cases: `^(c6[3-9]|c[78]\d|p\d\d)_`},
	{name: "old-syntax", cases: `^s\d\d_`},
	{name: "third", cases: `^(c9\d|d0\d|d10)_`},
	{name: "restarts", cases: `^x0[12]_`},
	{name: "stopped", cases: `^d11_`},
	{name: "quota", cases: `^x04_`, options: []zktest.Option{zktest.EnforceQuota()}},
	{name: "large", cases: `^x05_`, before: map[string]func(*testing.T, *zk.Conn){"x05_ls_large": makeLarge}},
	{name: "reconfig", cases: `^x07_`, options: []zktest.Option{zktest.Quorum(), zktest.SkipACL()}},
	{name: "reconfig-acl", cases: `^x08_`, options: []zktest.Option{zktest.Quorum()}},
	{name: "v34", cases: `^v34/`},
}

// zones are the time zones of the cases that had one. Only its name is seen: EST
// all the year round is Panama's.
var zones = map[string]string{"c94_timezone": "America/Panama", "c95_locale_de": "America/Panama"}

func (b batch) names(t *testing.T) []string {
	var names []string
	for _, dir := range []string{"", "v34/"} {
		files, err := filepath.Glob(filepath.Join(recordings, dir, "*.log"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			name := dir + strings.TrimSuffix(filepath.Base(f), ".log")
			if regexp.MustCompile(b.cases).MatchString(name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// world is the server of a batch, and how its addresses are written in the
// recordings.
type world struct {
	batch  batch
	server *zktest.Server
	conn   *zk.Conn
	toLive *strings.Replacer
	toTape *strings.Replacer
}

func newWorld(t *testing.T, b batch) *world {
	w := &world{batch: b, server: zktest.Start(t, b.options...)}
	conn, _, err := zk.Connect([]string{w.server.Addr()}, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	w.conn = conn
	pairs := []string{
		recorded, w.server.Addr(),
		"127.0.0.1:21899", zktest.Refused(t),
		// A name that fails without anybody being asked.
		"nohost.invalid", "nohost..invalid",
	}
	var config []byte
	zktest.Eventually(t, "a session", func() bool { // a new server's first connection may not last
		config, _, err = conn.Get("/zookeeper/config")
		return err == nil
	})
	if m := regexp.MustCompile(`server\.1=(127\.0\.0\.1:\d+:\d+):`).FindSubmatch(config); m != nil {
		pairs = append(pairs, "127.0.0.1:21888:21889", string(m[1]))
	}
	w.toLive = strings.NewReplacer(pairs...)
	for i := 0; i < len(pairs); i += 2 {
		pairs[i], pairs[i+1] = pairs[i+1], pairs[i]
	}
	w.toTape = strings.NewReplacer(pairs...)
	return w
}

// quiet drops what the library has to say about a server that is stopped.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// live is recorded text with the addresses of today's server.
func (w *world) live(text string) string { return w.toLive.Replace(text) }

// prepare makes what a case finds.
func (w *world) prepare(t *testing.T, name string) {
	if make := w.batch.before[name]; make != nil {
		make(t, w.conn)
	}
}

func znodes(paths ...string) func(*testing.T, *zk.Conn) {
	return func(t *testing.T, c *zk.Conn) {
		for _, p := range paths {
			if _, err := c.Create(p, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// without removes what zkCli had not made.
func without(path string) func(*testing.T, *zk.Conn) {
	return func(t *testing.T, c *zk.Conn) {
		if err := c.Delete(path, -1); err != nil {
			t.Fatal(err)
		}
	}
}

func both(f, g func(*testing.T, *zk.Conn)) func(*testing.T, *zk.Conn) {
	return func(t *testing.T, c *zk.Conn) {
		f(t, c)
		g(t, c)
	}
}

// makeLarge makes a znode whose list of children is longer than zkCli can read.
func makeLarge(t *testing.T, c *zk.Conn) {
	znodes("/x05v38")(t, c)
	for n := 0; n < 70000; n += 1000 {
		ops := make([]any, 1000)
		for i := range ops {
			ops[i] = &zk.CreateRequest{Path: fmt.Sprintf("/x05v38/child-name-%05d", n+i), Acl: zk.WorldACL(zk.PermAll)}
		}
		if _, err := c.Multi(ops...); err != nil {
			t.Fatal(err)
		}
	}
}

// eventful recordings have something happen between their lines.
func (r *recording) eventful() bool {
	return slices.ContainsFunc(r.steps, func(s step) bool { return len(s.before) > 0 })
}

// act does what a remark says was done while zksh ran.
func (w *world) act(t *testing.T, zksh *process, remark string) {
	for _, part := range strings.Split(strings.TrimPrefix(remark, "sh: "), "; ") {
		switch part {
		case "(path) stop":
			old := zksh.sockets(t)
			w.server.Stop()
			// A request sent before zksh has read that has another error.
			zktest.Eventually(t, "zksh drops its connection", func() bool {
				now := zksh.sockets(t)
				return !slices.ContainsFunc(old, func(s string) bool { return slices.Contains(now, s) })
			})
		case "(path) start":
			w.server.Restart()
			w.awaitClient(t)
		default:
			// The pauses were for zkCli: it fails while it has no connection,
			// zksh waits for the attempt under way.
			if !strings.HasPrefix(part, "sleep ") {
				t.Fatalf("what is %q?", remark)
			}
		}
	}
}

// awaitClient waits until zksh has its session back. A server that is just
// starting leaves some connect requests unanswered, so that can take a while.
func (w *world) awaitClient(t *testing.T) {
	own := fmt.Sprintf("%#x", w.conn.SessionID())
	zktest.Eventually(t, "zksh comes back", func() bool {
		answer, _ := zktest.FourLetter(w.server.Addr(), "cons", time.Second) // part of an answer is asked for again
		return slices.ContainsFunc(session.FindAllStringSubmatch(answer, -1), func(m []string) bool { return m[1] != own })
	})
}

// session matches one of a server's sessions.
var session = regexp.MustCompile(`sid=(0x[0-9a-f]+)`)

// stream collects what zksh prints on one of its two outputs.
type stream struct {
	w   *world
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write is part of io.Writer.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *stream) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Len()
}

// normal is the text so far, comparable to a recording.
func (s *stream) normal() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return normal(dying.ReplaceAllString(s.w.toTape.Replace(s.buf.String()), "$1: connection refused"))
}

// dying is what an attempt to connect meets in the moment a server is killed;
// a moment later it is refused.
var dying = regexp.MustCompile(`(cannot connect: ` + regexp.QuoteMeta(recorded) + `): (connection reset by peer|the server closed the connection without answering, perhaps because this port expects TLS \(use --tls\), or because the server has no quorum \(use -r\))`)
