package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/lockcmd/zklock"
)

const (
	uuid  = "_c_f0a1b2c3-0000-4000-8000-0123456789ab"
	guid  = "_c_0123456789abcdef0123456789abcdef"
	hex32 = "0123456789abcdef0123456789abcdef"
)

// named is a contender's node of that name.
func named(t *testing.T, name string) *node {
	t.Helper()
	parsed, ok := zklock.ParseName(name)
	if !ok {
		t.Fatalf("%s is no contender", name)
	}
	return &node{Name: parsed, path: "/l/" + name, Node: Node{Stat: &zk.Stat{Czxid: 1, EphemeralOwner: 1}}}
}

// fake is an ensemble of one server that keeps its znodes here.
type fake struct {
	mu        sync.Mutex // for a test that changes it meanwhile
	znodes    map[string]Node
	zxid      int64
	reads     []string // paths whose data was asked for since this was emptied
	cuts      int      // how often many were listed at once
	hosts     []string
	config    string
	configErr error
	chroot    string
	word      func(ctx context.Context, addr string) (string, error) // answers cons
	tells     bool                                                   // it answers dump and wchc
	told      map[string]int64                                       // what mntr counts; nil: it is not allowed
	watch     map[int64][]string                                     // data watches, by session
	err       error                                                  // of each request
}

func newFake() *fake {
	return &fake{znodes: map[string]Node{"/": {Stat: &zk.Stat{}}}, hosts: []string{"h:2181"},
		word: func(context.Context, string) (string, error) { return "", errors.New("no cons here") }}
}

// add makes znodes of session 1, each by a transaction of its own.
func (f *fake) add(paths ...string) {
	for _, p := range paths {
		f.make(1, "", p)
	}
}

// make makes znodes of a session in one transaction.
func (f *fake) make(session int64, data string, paths ...string) {
	f.zxid++
	for _, p := range paths {
		f.znodes[p] = Node{Data: []byte(data), Stat: &zk.Stat{Czxid: f.zxid, Ctime: f.zxid, EphemeralOwner: session}}
	}
}

// Children is part of Ensemble.
func (f *fake) Children(_ context.Context, dir string) (names []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.znodes[dir]; !ok {
		return nil, zk.ErrNoNode
	}
	for p := range f.znodes {
		if p != "/" && path.Dir(p) == dir {
			names = append(names, path.Base(p))
		}
	}
	return names, f.err
}

// Nodes is part of Ensemble.
func (f *fake) Nodes(_ context.Context, paths []string) (nodes []Node, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads = append(f.reads, paths...)
	for _, p := range paths {
		n := f.znodes[p]
		if n.Hidden {
			n.Data = nil
		}
		nodes = append(nodes, n)
	}
	return nodes, f.err
}

// Watch is part of Watched.
func (f *fake) Watch(ctx context.Context, paths []string) ([]Node, error) { return f.Nodes(ctx, paths) }

// Lists is part of Whole.
func (f *fake) Lists(ctx context.Context, dirs []string) (lists [][]string, err error) {
	for _, dir := range dirs {
		names, err := f.Children(ctx, dir)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return nil, err
		}
		lists = append(lists, names)
	}
	f.cuts++
	return lists, nil
}

// Tree is part of Whole.
func (f *fake) Tree(ctx context.Context, root string, found func(dir string, names []string)) error {
	for dir := range f.znodes {
		names, err := f.Children(ctx, dir)
		if err != nil {
			return err
		}
		if len(names) > 0 && (root == "/" || dir == root || strings.HasPrefix(dir, root+"/")) {
			found(dir, names)
		}
	}
	return nil
}

// ServerPath is part of Whole.
func (f *fake) ServerPath(path string) string { return f.chroot + strings.TrimSuffix(path, "/") }

// ClientPath is part of Whole.
func (f *fake) ClientPath(path string) string {
	return cmp.Or(strings.TrimPrefix(path, f.chroot), "/")
}

// Hosts is part of Ensemble.
func (f *fake) Hosts() []string { return f.hosts }

// Word is part of Ensemble.
func (f *fake) Word(ctx context.Context, addr, word string) (string, error) {
	f.mu.Lock()
	cons := f.word
	f.mu.Unlock()
	if word == "cons" {
		return cons(ctx, addr)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case word == "mntr" && f.told != nil:
		var b strings.Builder
		for name, n := range f.told {
			fmt.Fprintf(&b, "%s\t%d\n", name, n)
		}
		return b.String(), nil
	case !f.tells:
		return rejection(word), nil
	case word == "wchc":
		return f.sections("", f.watch), nil
	}
	owned := map[int64][]string{}
	for p, n := range f.znodes {
		if n.Stat != nil && isSession(n.Stat.EphemeralOwner) {
			owned[n.Stat.EphemeralOwner] = append(owned[n.Stat.EphemeralOwner], p)
		}
	}
	return fmt.Sprintf("SessionTracker dump:\n\t0x9\nephemeral nodes dump:\nSessions with Ephemerals (%d):\n%sConnections dump:\n", len(owned), f.sections(":", owned)), nil
}

// rejection is a server's reply to a four-letter command that is not in its whitelist.
func rejection(word string) string {
	return word + " is not executed because it is not in the whitelist.\n"
}

func (f *fake) sections(end string, of map[int64][]string) string {
	var b strings.Builder
	for session, paths := range of {
		fmt.Fprintf(&b, "0x%x%s\n", uint64(session), end)
		for _, p := range paths {
			fmt.Fprintf(&b, "\t%s\n", f.chroot+p)
		}
	}
	return b.String()
}

// Config is part of Ensemble.
func (f *fake) Config(context.Context) (string, error) { return f.config, f.configErr }

// Self is part of Ensemble.
func (f *fake) Self() (int64, time.Time) { return 1, time.Time{} }

// read reads the queue of /l.
func (f *fake) read(t *testing.T) *Queue {
	t.Helper()
	q, err := Read(t.Context(), f, "/l")
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// brief is a queue in few words: mode, state and the end of the node's name.
func brief(q *Queue) string {
	var rows []string
	for _, c := range q.Contenders {
		end := c.Nodes[0]
		end = strings.TrimLeft(end[strings.LastIndexAny(end, "-_#")+1:], "0")
		rows = append(rows, c.word()+" "+c.State+" "+end)
	}
	return strings.Join(rows, ", ")
}
