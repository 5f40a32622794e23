package shell

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/history"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/shell/line"
)

// fakeNodes is a nodeSource with a fixed tree of znodes.
type fakeNodes struct {
	tree     atomic.Value // map from the path of a znode to the names of its children
	epoch    atomic.Value
	requests atomic.Int64  // number of requests
	allow    chan struct{} // if not nil, each request waits for a value before it answers
}

func (n *fakeNodes) Epoch() string { return n.epoch.Load().(string) }

func (n *fakeNodes) Names(ctx context.Context, path string) ([]string, error) {
	n.requests.Add(1)
	if n.allow != nil {
		select {
		case <-n.allow:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	names, ok := n.tree.Load().(map[string][]string)[path]
	if !ok {
		return nil, &zkconn.Error{Code: zkconn.NoNode, Path: path}
	}
	return slices.Sorted(slices.Values(names)), nil
}

func (n *fakeNodes) HasChildren(ctx context.Context, path string) (bool, error) {
	names, err := n.Names(ctx, path)
	return len(names) > 0, err
}

func newNodes(tree map[string][]string) *fakeNodes {
	n := &fakeNodes{}
	n.tree.Store(tree)
	n.epoch.Store("s 1")
	return n
}

// newCompletion returns the completer of a shell with the given znodes and history.
func newCompletion(t *testing.T, n *fakeNodes, lines ...string) *completer {
	t.Helper()
	s := New(Config{Commands: [][]*commands.Command{commands.All(), {{
		Name: "traffic", Params: []commands.Param{{Kind: commands.Choice, Words: []string{"stop", "go"}}},
		Flags: commands.NoFlags(nil),
	}}}})
	for _, l := range lines {
		s.lines.Add(history.Entry{Line: l})
	}
	s.completer.nodes = newNodeCache(n, func() {}, func() {})
	t.Cleanup(s.completer.nodes.close)
	return s.completer
}

// eventually repeats the completion of the text before until the proposals are want. The names of
// znodes arrive in the background.
func eventually(t *testing.T, c *completer, before, want string) {
	t.Helper()
	zktest.Eventually(t, before+" is completed to "+want, func() bool {
		p := c.complete(before)
		var all []string
		for _, x := range p.List {
			all = append(all, before[:p.From]+x.Text)
		}
		return strings.Join(all, "|") == want
	})
}

func TestComplete(t *testing.T) {
	c := newCompletion(t, newNodes(map[string][]string{
		"/":           {"app", "apple", "with blank", `it's "q"`, "中 文"},
		"/app":        {"config", "configuration"},
		"/with blank": {"child one", "child two"},
	}), "ls /", "addauth digest user:secret", "get /app")
	for before, want := range map[string]string{
		"":                               "ls|ls2|get|stat|exists|create|set|edit|delete|tree|find|du|deleteall|rmr|getAllChildrenNumber|getAcl|setAcl|addauth|digest|setquota|listquota|delquota|addWatch|removewatches|wait|watch|getEphemerals|connect|close|sync|whoami|version|config|reconfig|traffic|begin|check|commit|abort|help|echo|history|redo|printwatches|trace|quit|exit|cd|pwd|source|clear",
		"cre":                            "create",
		"  exi":                          "  exists|  exit",
		"create":                         "", // already complete
		"bogus /":                        "",
		"help ge":                        "help get|help getAllChildrenNumber|help getAcl|help getEphemerals",
		"help tre":                       "help tree|help trees", // a command and a topic
		"help -t tr":                     "help -t trace|help -t transactions|help -t trees|help -t troubleshooting",
		"help -t trees ":                 "",
		"get -":                          "get -s|get -w|get -b|get -x|get -j|get -f|get -d",
		"get -s -":                       "get -s -w|get -s -b|get -s -x|get -s -j|get -s -f|get -s -d",
		"get --st":                       "get --stat",
		"get -- -":                       "",
		"set /app -v ":                   "",
		"set -v 3 /app/conf":             "set -v 3 /app/config|set -v 3 /app/configuration",
		"set -f x -v 3 /app/conf":        "set -f x -v 3 /app/config|set -f x -v 3 /app/configuration",
		"get ":                           `get /app|get /apple|get $'/it\'s "q"'|get "/with blank"|get "/中 文"`,
		"get /ap":                        "get /app|get /apple",
		"get app":                        "",
		"get /app/":                      "get /app/config|get /app/configuration",
		"get /none/":                     "",
		"get /w":                         `get "/with blank"`,
		`get "/w`:                        `get "/with blank"`,
		`get '/with b`:                   `get '/with blank'`,
		`get $'/with\x20b`:               `get $'/with blank'`,
		`get "/with blank"`:              "",
		`get "/with blank"/`:             `get "/with blank/child one"|get "/with blank/child two"`,
		`get "/with blank"/child\ t`:     "",
		`get "/with blank/child t`:       `get "/with blank/child two"`,
		`get '/it`:                       `get $'/it\'s "q"'`,
		`get "/中`:                        `get "/中 文"`,
		`get $'\q`:                       "",
		"get /app ":                      "",
		"redo ":                          "redo 2|redo 1|redo 0",
		"redo 1":                         "",
		"printwatches o":                 "printwatches on|printwatches off",
		"traffic ":                       "traffic stop|traffic go",
		"traffic s":                      "traffic stop",
		"printwatches -":                 "",
		"addauth ":                       "addauth digest|addauth sasl|addauth x509",
		"addauth digest ":                "",
		"setAcl /app w":                  "setAcl /app world:anyone:",
		"setAcl /app world:anyone:":      "setAcl /app world:anyone:cdrwa|setAcl /app world:anyone:r|setAcl /app world:anyone:rw",
		"setAcl /app world:anyone:r,ip":  "setAcl /app world:anyone:r,ip:",
		"create /x data auth":            "create /x data auth::",
		"setAcl /app world:anyone:r,ip:": "",
	} {
		eventually(t, c, before, want)
	}
	for _, p := range c.complete("redo ").List {
		if strings.Contains(p.About, "secret") {
			t.Errorf("a credential is shown: %q", p.About)
		}
	}
}

// Completion inserts the common prefix of all proposals, in the quotes of the word being typed and
// without the closing quote.
func TestCompleteCommonBeginning(t *testing.T) {
	var many []string
	for i := range 300 {
		many = append(many, fmt.Sprintf("common-%d", 1000+i))
	}
	c := newCompletion(t, newNodes(map[string][]string{
		"/": {"app", "apple", "has one", "has one too", `it's "a"`, `it's "b"`, "中文", "丰", "\u200ba", "\u200bb"}, "/many": many,
	}))
	c.complete("ls /")
	c.complete("ls /many/")
	zktest.Eventually(t, "the znodes", func() bool { return !c.complete("ls /").Pending && !c.complete("ls /many/").Pending })
	for before, want := range map[string]string{
		"ls /a":         "/app",
		"ls /app":       "",
		`ls "/a`:        `"/app`,
		`ls '/a`:        `'/app`,
		"ls /h":         `"/has one`,
		`ls $'/h`:       `$'/has one`,
		"ls /i":         `$'/it\'s "`,
		"ls /":          "", // 中 and 丰 have two bytes in common
		"ls ":           "/",
		"ls \u200b":     "",
		"ls $'/\\u200b": "",
		"ls /many/c":    "/many/common-1", // the prefix of all names, even of those that are not listed
		"getA":          "",
		"get":           "",
		"rem":           "removewatches",
		"set":           "",
		"setA":          "setAcl",
		"getall":        "",
		"ex":            "exi",
		"get --s":       "--stat",
		"get -":         "",
		"printwatches ": "",
	} {
		if got := c.complete(before).CommonPrefix; got != want {
			t.Errorf("%q: %q, want %q", before, got, want)
		}
	}
}

// Proposals are pending until the first answer of the server. The cache reports each first answer,
// even an empty one.
func TestCompletionIsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(map[string][]string{"/": {"app"}})
		n.allow = make(chan struct{})
		c := newCompletion(t, n)
		told := make(chan struct{}, 10)
		c.nodes.changed = func() { told <- struct{}{} }
		for _, before := range []string{"ls /", "ls /none/"} {
			if p := c.complete(before); !p.Pending || p.List != nil {
				t.Errorf("%q before the answer: %+v", before, p)
			}
			n.allow <- struct{}{}
			select {
			case <-told:
			case <-zktest.Within(t).Done():
				t.Fatalf("%q: the answer is not told", before)
			}
			if p := c.complete(before); p.Pending {
				t.Errorf("%q after the answer: %+v", before, p)
			}
		}
		close(n.allow)
		for _, before := range []string{"", "l", "printwatches ", "ls x"} {
			if c.complete(before).Pending {
				t.Errorf("%q waits for a server", before)
			}
		}
	})
}

func TestCompleteManyNodes(t *testing.T) {
	var many []string
	for i := range 100_000 {
		many = append(many, fmt.Sprintf("n%06d", i))
	}
	c := newCompletion(t, newNodes(map[string][]string{"/": many}))
	for before, want := range map[string]struct {
		n     int
		first string
		about string
	}{
		"ls /":       {100, "/n000000", "and 99900 more"},
		"ls /n0001":  {100, "/n000100", ""},
		"ls /n00012": {10, "/n000120", ""},
		"ls /n09":    {100, "/n090000", "and 9900 more"},
		"ls /x":      {0, "", ""},
	} {
		var list []line.Proposal
		zktest.Eventually(t, fmt.Sprint(want.n, " proposals for ", before), func() bool {
			list = c.complete(before).List
			return len(list) == want.n
		})
		if want.n > 0 && (list[0].Text != want.first || list[0].About != want.about) {
			t.Errorf("%q: %d proposals, want %+v", before, len(list), want)
		}
	}
}

// Completion never waits for a slow server, and asks it only for paths that are being typed.
func TestCompletionDoesNotWait(t *testing.T) {
	n := newNodes(map[string][]string{"/": {"a"}, "/a": {"b"}})
	n.allow = make(chan struct{})
	c := newCompletion(t, n)
	for _, before := range []string{"g", "get", "get -s", "help /", "version /", `get "/a" /`} {
		c.complete(before)
	}
	if got := n.requests.Load(); got != 0 {
		t.Errorf("%d requests without a path", got)
	}
	for range 100 {
		for _, before := range []string{"get /", "get /a", "get /a/", "get /b/", "get /c/", "get /d/", "get /e/", "get /f/"} {
			if p := c.complete(before); len(p.List) > 0 {
				t.Fatalf("%q has an answer before the server", before)
			}
		}
	}
	if got := n.requests.Load(); got > maxAsking {
		t.Errorf("%d requests under way", got)
	}
	close(n.allow)
	eventually(t, c, "get /", "get /a")
	eventually(t, c, "get /a/", "get /a/b")
}

// A new session begins with an empty cache. An answer to a request of the old session is dropped.
func TestCompletionAfterConnect(t *testing.T) {
	n := newNodes(map[string][]string{"/": {"old1", "old2"}})
	n.allow = make(chan struct{})
	c := newCompletion(t, n)
	c.complete("get /")
	n.epoch.Store("s 2")
	n.allow <- struct{}{} // answers the request of the old session
	n.tree.Store(map[string][]string{"/": {"new1", "new2"}})
	close(n.allow)
	eventually(t, c, "get /", "get /new1|get /new2")
	n.epoch.Store("")
	if p := c.complete("get /"); len(p.List) > 0 {
		t.Errorf("%v without a session", p.List)
	}
}

func TestNodeCacheIsBounded(t *testing.T) {
	n := newNodes(map[string][]string{})
	c := newCompletion(t, n)
	for i := range 10 * maxEntries {
		c.complete(fmt.Sprintf("get /%d/", i))
	}
	c.nodes.mu.Lock()
	defer c.nodes.mu.Unlock()
	if len(c.nodes.entries) > maxEntries {
		t.Errorf("%d entries", len(c.nodes.entries))
	}
}

func TestNodeCacheCloses(t *testing.T) {
	defer goleak.VerifyNone(t)
	n := newNodes(nil)
	n.allow = make(chan struct{})
	cache := newNodeCache(n, func() {}, func() {})
	cache.children("/", "")
	cache.close()
	if names, _ := cache.children("/", ""); names != nil || n.requests.Load() > 1 {
		t.Error("a closed cache asks")
	}
}

// The cache notices that another client created or deleted a child.
func TestNodeCacheFollows(t *testing.T) {
	n := newNodes(map[string][]string{"/": {"a1", "a2"}})
	var news atomic.Int64
	cache := newNodeCache(n, func() { news.Add(1) }, func() {})
	defer cache.close()
	names := func() string {
		list, _ := cache.children("/", "")
		return strings.Join(list, " ")
	}
	var before int64 // number of calls of changed before the last lookup
	zktest.Eventually(t, "the first names", func() bool {
		before = news.Load()
		return names() == "a1 a2"
	})
	n.tree.Store(map[string][]string{"/": {"a2", "a3"}})
	zktest.Eventually(t, "a hint to look again", func() bool { return news.Load() > before })
	zktest.Eventually(t, "the new names", func() bool { return names() == "a2 a3" })
	n.tree.Store(map[string][]string{})
	cache.expireAll()
	zktest.Eventually(t, "no names", func() bool { return names() == "" })
}

// If a command may have changed a znode while a request for it was in flight, the cache sends the
// request again.
func TestNodeCacheDoubtsWhatIsUnderWay(t *testing.T) {
	answers := make(chan string)
	cache := newNodeCache(listFunc(func(ctx context.Context, _ string) ([]string, error) {
		select {
		case name := <-answers:
			return []string{name}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}), func() {}, func() {})
	defer cache.close()
	cache.children("/", "")
	cache.expireAll()
	answers <- "old"
	zktest.Eventually(t, "the new name", func() bool {
		names, known := cache.children("/", "")
		if known && names[0] == "old" {
			t.Fatal("the old answer passes for the new one")
		}
		select {
		case answers <- "new":
		default:
		}
		return known && names[0] == "new"
	})
}

// The cache does not refresh expired entries when the user has not typed for a long time. Redrawing
// the same line does not count as typing.
func TestNodeCacheTires(t *testing.T) {
	cache := newNodeCache(newNodes(map[string][]string{"/": {"a"}}), func() {}, func() {})
	defer cache.close()
	cache.children("/", "")
	cache.mu.Lock()
	cache.lastKey = time.Now().Add(-typingTimeout)
	cache.mu.Unlock()
	cache.children("/", "")
	if cache.typedRecently() {
		t.Error("it goes on without a key")
	}
	cache.children("/", "a")
	if !cache.typedRecently() {
		t.Error("it does not go on after a key")
	}
}
