package replay

import (
	"bytes"
	"fmt"
	"io"
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

// A batch is a group of recordings that are replayed on one server, which starts empty. They
// run in the recorded order, because the recorded runs saw each other's znodes.
type batch struct {
	name    string
	cases   string // regular expression for the names of the recordings
	options []zktest.Option
	before  map[string]func(*testing.T, *zk.Conn) // functions to call before a recording, by name
}

var batches = []batch{
	{name: "first", cases: `^(c[0-5]\d|c6[0-2]|o\d\d)_`, before: map[string]func(*testing.T, *zk.Conn){
		// These znodes were left by runs whose recordings no longer exist.
		"c04_create_basic": znodes("/c08", "/c10", "/c13", "/c19", "/c21"),
		"c25_getAllChildrenNumber": both(deleteZnode("/c22"), znodes("/c24", "/c24/1", "/c24/2", "/c24/3", "/c24/4",
			"/c24/5", "/c24/6", "/c24/7", "/c24/8", "/c24/9")),
		"c30_addWatch":        znodes("/c31", "/c33", "/c35", "/c36"),
		"c42_ls2_rmr":         znodes("/c41", "/c44", "/c46", "/c48", "/c56", "/c58"),
		"c45_setquota_errors": znodes("/zookeeper/quota/c44"),
	}},
	{name: "second", cases: `^(c6[3-9]|c[78]\d|p\d\d)_`},
	{name: "old-syntax", cases: `^s\d\d_`},
	{name: "third", cases: `^(c9\d|d0\d|d10)_`},
	{name: "quota", cases: `^x04_`, options: []zktest.Option{zktest.EnforceQuota()}},
	{name: "large", cases: `^x05_`, before: map[string]func(*testing.T, *zk.Conn){"x05_ls_large": createLarge}},
	{name: "reconfig", cases: `^x07_`, options: []zktest.Option{zktest.Quorum(), zktest.SkipACL()}},
	{name: "reconfig-acl", cases: `^x08_`, options: []zktest.Option{zktest.Quorum()}},
	{name: "v34", cases: `^v34/`},
}

// timeZones maps recordings to the time zone of the recorded run. The recordings show only
// the abbreviation EST. Panama is in EST all year round.
var timeZones = map[string]string{"c94_timezone": "America/Panama", "c95_locale_de": "America/Panama"}

func (b batch) names(t *testing.T) []string {
	var names []string
	for _, dir := range []string{"", "v34/"} {
		files, err := filepath.Glob(filepath.Join(recordings, dir, "*.log"))
		zktest.Must(t, err)
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

// A batchServer is the server of a batch. It translates between the server's addresses and
// those in the recordings.
type batchServer struct {
	batch      batch
	server     *zktest.Server
	conn       *zk.Conn
	toLive     *strings.Replacer
	toRecorded *strings.Replacer
}

func newBatchServer(t *testing.T, b batch) *batchServer {
	w := &batchServer{batch: b, server: zktest.Start(t, b.options...)}
	conn, _, err := zk.Connect([]string{w.server.Addr()}, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(noLogger{}))
	zktest.Must(t, err)
	t.Cleanup(conn.Close)
	w.conn = conn
	pairs := []string{
		recordedAddr, w.server.Addr(),
		"127.0.0.1:21899", zktest.Refused(t),
		// An invalid name, which fails without a request to a name server.
		"nohost.invalid", "nohost..invalid",
	}
	var config []byte
	zktest.Eventually(t, "a session", func() bool { // the first connection to a new server may be closed
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
	w.toRecorded = strings.NewReplacer(pairs...)
	return w
}

// noLogger discards the client library's messages.
type noLogger struct{}

func (noLogger) Printf(string, ...any) {}

// toCurrent replaces recorded addresses in a text with those of this server.
func (w *batchServer) toCurrent(text string) string { return w.toLive.Replace(text) }

// prepare calls the function of the batch for a recording, if there is one.
func (w *batchServer) prepare(t *testing.T, name string) {
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

// deleteZnode deletes a znode that did not exist in the recorded run.
func deleteZnode(path string) func(*testing.T, *zk.Conn) {
	return func(t *testing.T, c *zk.Conn) {
		zktest.Must(t, c.Delete(path, -1))
	}
}

func both(f, g func(*testing.T, *zk.Conn)) func(*testing.T, *zk.Conn) {
	return func(t *testing.T, c *zk.Conn) {
		f(t, c)
		g(t, c)
	}
}

// createLarge creates a znode whose list of children is longer than zkCli can read.
func createLarge(t *testing.T, c *zk.Conn) {
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

// A stream collects standard output or standard error of zksh.
type stream struct {
	w   *batchServer
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

var _ io.Writer = (*stream)(nil)

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

// normal returns the normalized output so far, with the addresses of the recordings.
func (s *stream) normal() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return normal(s.w.toRecorded.Replace(s.buf.String()))
}
