package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
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

// newTestNode returns a contender's znode with this name.
func newTestNode(t *testing.T, name string) *node {
	t.Helper()
	parsed, ok := zklock.ParseName(name)
	if !ok {
		t.Fatalf("%s is no contender", name)
	}
	return &node{Name: parsed, path: "/l/" + name, Node: Node{Stat: &zk.Stat{Czxid: 1, EphemeralOwner: 1}}}
}

// fakeEnsemble is an ensemble of one server, with its znodes in memory.
type fakeEnsemble struct {
	mu          sync.Mutex // for tests that change znodes during a search
	znodes      map[string]Node
	zxid        int64
	reads       []string // paths of data reads; tests reset it
	listCalls   int      // number of calls of Lists
	hosts       []string
	config      string
	configErr   error
	chroot      string
	cons        func(ctx context.Context, addr string) (string, error) // answers cons
	answersDump bool                                                   // the server allows dump
	gone        map[int64]bool                                         // sessions that are missing in the leader's table
	unlisted    map[string]bool                                        // ephemeral znodes that the leader does not list
	onDump      func()                                                 // called when dump is answered, with mu held; nil for nothing
	role        string                                                 // reply to srvr
	calls       []string                                               // calls of Sync, Lists and Children, and the four-letter command dump
	err         error                                                  // error of each request
}

func newFakeEnsemble() *fakeEnsemble {
	return &fakeEnsemble{znodes: map[string]Node{"/": {Stat: &zk.Stat{}}}, hosts: []string{"h:2181"}, role: "standalone", gone: map[int64]bool{}, unlisted: map[string]bool{},
		cons: func(context.Context, string) (string, error) { return "", errors.New("no cons here") }}
}

// add creates znodes of session 1, each in its own transaction.
func (f *fakeEnsemble) add(paths ...string) {
	for _, p := range paths {
		f.make(1, "", p)
	}
}

// make creates znodes of a session in one transaction.
func (f *fakeEnsemble) make(session int64, data string, paths ...string) {
	f.zxid++
	for _, p := range paths {
		f.znodes[p] = Node{Data: []byte(data), Stat: &zk.Stat{Czxid: f.zxid, Ctime: f.zxid, EphemeralOwner: session}}
	}
}

// Children implements Ensemble.
func (f *fakeEnsemble) Children(_ context.Context, dir string) (names []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.znodes[dir]; !ok {
		return nil, zk.ErrNoNode
	}
	f.calls = append(f.calls, "read")
	for p := range f.znodes {
		if p != "/" && path.Dir(p) == dir {
			names = append(names, path.Base(p))
		}
	}
	return names, f.err
}

// Nodes implements Ensemble.
func (f *fakeEnsemble) Nodes(_ context.Context, paths []string) (nodes []Node, err error) {
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

// Stats implements Ensemble.
func (f *fakeEnsemble) Stats(_ context.Context, paths []string) (stats []*zk.Stat, err error) {
	for _, p := range paths {
		stats = append(stats, f.znodes[p].Stat)
	}
	return stats, f.err
}

// Sync implements Ensemble.
func (f *fakeEnsemble) Sync(context.Context, string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, "sync")
	return f.err
}

// Watch implements WatchableEnsemble.
func (f *fakeEnsemble) Watch(ctx context.Context, paths []string) ([]Node, error) {
	return f.Nodes(ctx, paths)
}

// Lists implements TreeEnsemble.
func (f *fakeEnsemble) Lists(ctx context.Context, dirs []string) (lists [][]string, err error) {
	for _, dir := range dirs {
		names, err := f.Children(ctx, dir)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return nil, err
		}
		lists = append(lists, names)
	}
	f.listCalls++
	return lists, nil
}

// Tree implements TreeEnsemble.
func (f *fakeEnsemble) Tree(ctx context.Context, root string, visit func(dir string, names []string) bool) error {
	for dir := range f.znodes {
		names, err := f.Children(ctx, dir)
		if err != nil {
			return err
		}
		if len(names) > 0 && (root == "/" || dir == root || strings.HasPrefix(dir, root+"/")) {
			if !visit(dir, names) {
				return nil
			}
		}
	}
	return nil
}

// ServerPath implements TreeEnsemble.
func (f *fakeEnsemble) ServerPath(path string) string {
	return f.chroot + strings.TrimSuffix(path, "/")
}

// ClientPath implements TreeEnsemble.
func (f *fakeEnsemble) ClientPath(path string) string {
	return cmp.Or(strings.TrimPrefix(path, f.chroot), "/")
}

// Dial implements Ensemble.
func (f *fakeEnsemble) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// LookupHost implements Ensemble.
func (f *fakeEnsemble) LookupHost(ctx context.Context, host string) ([]string, error) {
	return net.DefaultResolver.LookupHost(ctx, host)
}

// Hosts implements Ensemble.
func (f *fakeEnsemble) Hosts() []string { return f.hosts }

// Word implements Ensemble.
func (f *fakeEnsemble) Word(ctx context.Context, addr, word string) (string, error) {
	f.mu.Lock()
	cons := f.cons
	f.mu.Unlock()
	if word == "cons" {
		return cons(ctx, addr)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case word == "srvr":
		return "Zookeeper version: 3.8.0\nMode: " + f.role + "\n", nil
	case !f.answersDump:
		return rejection(word), nil
	}
	f.calls = append(f.calls, "dump")
	owned := map[int64][]string{}
	for p, n := range f.znodes {
		if n.Stat != nil && isSession(n.Stat.EphemeralOwner) && !f.unlisted[p] {
			owned[n.Stat.EphemeralOwner] = append(owned[n.Stat.EphemeralOwner], p)
		}
	}
	if f.onDump != nil {
		defer f.onDump()
	}
	sessions := ""
	for id := int64(1); id <= 9; id++ {
		if !f.gone[id] {
			sessions += fmt.Sprintf("\t0x%x\n", id)
		}
	}
	return fmt.Sprintf("SessionTracker dump:\nSession Sets (1)/(9):\n9 expire at Thu Nov 26 04:34:42 UTC 2026:\n%sephemeral nodes dump:\nSessions with Ephemerals (%d):\n%sConnections dump:\n",
		sessions, len(owned), f.sections(owned)), nil
}

// rejection is a server's reply to a four-letter command that is not in its whitelist.
func rejection(word string) string {
	return word + " is not executed because it is not in the whitelist.\n"
}

func (f *fakeEnsemble) sections(of map[int64][]string) string {
	var b strings.Builder
	for session, paths := range of {
		fmt.Fprintf(&b, "0x%x:\n", uint64(session))
		for _, p := range paths {
			fmt.Fprintf(&b, "\t%s\n", f.chroot+p)
		}
	}
	return b.String()
}

// Config implements Ensemble.
func (f *fakeEnsemble) Config(context.Context) (string, error) { return f.config, f.configErr }

// Self implements Ensemble.
func (f *fakeEnsemble) Self() (int64, time.Time) { return 1, time.Time{} }

// read reads the queue of /l.
func (f *fakeEnsemble) read(t *testing.T) *Queue {
	t.Helper()
	q, err := Read(t.Context(), f, "/l")
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// brief returns the mode, the state and the last part of the znode's name of each contender.
func brief(q *Queue) string {
	var rows []string
	for _, c := range q.Contenders {
		end := c.Node
		end = strings.TrimLeft(end[strings.LastIndexAny(end, "-_#")+1:], "0")
		rows = append(rows, c.modeName()+" "+c.State+" "+end)
	}
	return strings.Join(rows, ", ")
}
