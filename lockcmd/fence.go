package lockcmd

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// fenceName is the environment variable that names to every zksh below a command the locks
// that are held while the command runs: one post in each line.
const fenceName = "ZK_LOCK_FENCE"

// fence makes what a shell writes depend on the locks it holds, and on those it runs
// under. A lock that was given back is no part of it; one that is lost, or went without
// the script's doing, stays until somebody has been told.
type fence struct {
	table    *Table
	session  *zkconn.Session
	goOn     bool          // a loss that was told ends nothing, and what follows is written without that lock
	above    []post        // what this program runs under
	deciding chan struct{} // capacity 1, full while a goroutine identifies an ensemble

	mu    sync.Mutex
	known bool         // at and own are set
	at    zkconn.Epoch // the session whose ensemble was identified last
	own   []string     // the znodes of above that are in that ensemble
	off   []string     // a znode of each lock that does not count any more
}

func newFence(t *Table, s *zkconn.Session, goOn bool, above []post) *fence {
	return &fence{table: t, session: s, goOn: goOn, above: above, deciding: make(chan struct{}, 1)}
}

// Fence has a session write nothing without the locks that are held, here and above. With
// goOn a loss that was told does not keep it from going on without that lock.
func (t *Table) Fence(s *zkconn.Session, goOn bool) {
	t.fence = newFence(t, s, goOn, postsOf(os.Getenv(fenceName)))
	s.SetFence(t.fence)
}

// For is part of zkconn.Fence: to another session the locks that are held here are ones
// that it runs under, as they are to a program.
func (f *fence) For(s *zkconn.Session) zkconn.Fence {
	above := f.posts()
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	for _, d := range f.table.gone {
		for _, node := range d.nodes {
			above = append(above, post{hosts: d.at.Servers().Hosts, node: node, home: d.at})
		}
	}
	return newFence(f.table, s, f.goOn, above)
}

// posts returns all locks that count: those held here and those above.
func (f *fence) posts() []post {
	posts := slices.Clone(f.above)
	for i := range posts {
		if posts[i].home == (zkconn.Ensemble{}) {
			posts[i].home = f.session.Ensemble()
		}
	}
	f.table.mu.Lock()
	for k, o := range f.table.locks {
		servers, cluster := k.at.Servers(), k.at.Cluster()
		for _, l := range o.leases {
			for _, node := range nodesOf(k.path, l) {
				posts = append(posts, post{hosts: servers.Hosts, node: node, cluster: cluster, home: k.at, session: l.SessionID()})
			}
		}
	}
	f.table.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(posts, func(p post) bool { return f.without(p.node) })
}

// lines returns the value of ZK_LOCK_FENCE for a command. With an error, some lines have no marks.
func (f *fence) lines(ctx context.Context) (string, error) {
	if f == nil {
		return "", nil
	}
	posts, err := withMarks(ctx, f.posts())
	var lines []string
	for _, p := range posts {
		lines = append(lines, p.String())
	}
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(lines))), "\n"), err
}

// Nodes is part of zkconn.Fence.
func (f *fence) Nodes(ctx context.Context, at zkconn.Epoch) ([]string, error) {
	nodes, err := f.aboveAt(ctx, at)
	if err != nil {
		return nil, err
	}
	t := f.table
	t.mu.Lock()
	for k, o := range t.locks {
		if k.at == at.Ensemble {
			nodes = append(nodes, nodesOf(k.path, o.leases...)...)
		}
	}
	for _, d := range t.gone {
		if d.at == at.Ensemble {
			nodes = append(nodes, d.nodes...)
		}
	}
	t.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(slices.DeleteFunc(nodes, f.without)))), nil
}

// nodesOf returns the znodes of leases on the lock at dir, a path on the server.
func nodesOf(dir string, leases ...*taken) (nodes []string) {
	for _, l := range leases {
		for _, node := range l.Nodes() {
			nodes = append(nodes, path.Join(dir, path.Base(node)))
		}
	}
	return nodes
}

// without reports whether a znode's lock does not count any more. Called with the fence's
// lock held.
func (f *fence) without(node string) bool {
	return slices.ContainsFunc(f.off, func(off string) bool {
		return path.Dir(off) == path.Dir(node) && zklock.SameOwner(off, node)
	})
}

// drop has the lock of a znode not count any more.
func (f *fence) drop(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.without(node) {
		f.off = append(f.off, node)
	}
}

// Refused is part of zkconn.Fence.
func (f *fence) Refused(at zkconn.Ensemble, node string, code zkconn.Code) error {
	which, out := "the enclosing lock", ""
	t := f.table
	t.mu.Lock()
	for k, o := range t.locks {
		if k.at == at && slices.Contains(nodesOf(k.path, o.leases...), node) {
			which = "the lock on " + o.path
			o.reported = o.reported || code == zkconn.NoNode
			if o.env.Mode == commands.ByHand {
				out = "; to write without the lock, run: unlock " + o.path
			}
		}
	}
	t.mu.Unlock()
	switch code {
	case zkconn.NoNode:
		return lockLost(fmt.Errorf("nothing was written: %s is lost, because the znode %s no longer exists%s%s", which, node, out, f.goesOn(node)))
	case zkconn.NoAuth:
		return fmt.Errorf("nothing was written: zksh cannot check %s, because it has no permission to read %s; "+
			"add credentials with --auth-file, or write without the check with --no-fence", which, node)
	}
	return fmt.Errorf("nothing was written: zksh cannot check %s, because the server returned an error for the znode %s: %v", which, node, code)
}

// goesOn is what a loss that is told now leads to.
func (f *fence) goesOn(nodes ...string) string {
	if f == nil || !f.goOn {
		return ""
	}
	for _, node := range nodes {
		f.drop(node)
	}
	return "; because of -k, zksh continues, and later lines write without this lock"
}
