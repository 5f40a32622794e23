package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// fenceName is the variable that tells every zksh below a command what its writes are
// fenced by: the znodes of the locks that are held while the command runs, one a line,
// each behind its servers, as in a connect string.
const fenceName = "ZK_LOCK_FENCE"

// fence makes what a shell writes depend on the locks it holds, and on those it runs
// under. A lock that was given back is no part of it; one that is lost, or went without
// the script's doing, stays until somebody has been told.
type fence struct {
	table   *Table
	session *zkconn.Session
	goOn    bool   // a loss that was told ends nothing, and what follows is written without that lock
	above   []post // what this program runs under

	mu  sync.Mutex
	at  zkconn.Stay // where ours is known
	own []string    // the znodes above that are there
	off []string    // a znode of each lock that does not count any more
}

// post is a line of ZK_LOCK_FENCE.
type post struct {
	hosts []string // host:port each
	node  string
}

// Fence has a session write nothing without the locks that are held, here and above. With
// goOn a loss that was told does not keep it from going on without that lock.
func (t *Table) Fence(s *zkconn.Session, goOn bool) {
	t.fence = &fence{table: t, session: s, goOn: goOn, above: fencedAbove()}
	s.SetFence(t.fence)
}

// For is part of zkconn.Fence: to another session the locks that are held here are ones
// that it runs under, as they are to a program.
func (f *fence) For(s *zkconn.Session) zkconn.Fence {
	above := postsOf(f.lines())
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	for _, d := range f.table.gone {
		for _, node := range d.nodes {
			above = append(above, post{d.at.Servers().Hosts, node})
		}
	}
	return &fence{table: f.table, session: s, goOn: f.goOn, above: above}
}

// fencedAbove reads what a command above this program has put into its environment.
func fencedAbove() []post { return postsOf(os.Getenv(fenceName)) }

func postsOf(lines string) (posts []post) {
	for line := range strings.Lines(lines) {
		servers, err := zkconn.ParseServers(strings.TrimSuffix(line, "\n"))
		if err == nil && servers.Chroot != "" {
			posts = append(posts, post{servers.Hosts, servers.Chroot})
		}
	}
	return posts
}

func (p post) String() string { return strings.Join(p.hosts, ",") + p.node }

// lines are what a command's environment says of the fence.
func (f *fence) lines() string {
	if f == nil {
		return ""
	}
	posts := slices.Clone(f.above)
	f.table.mu.Lock()
	for k, o := range f.table.locks {
		for _, node := range o.nodes() {
			posts = append(posts, post{k.at.Servers().Hosts, node})
		}
	}
	f.table.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	var lines []string
	for _, p := range posts {
		if !f.without(p.node) {
			lines = append(lines, p.String())
		}
	}
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(lines))), "\n")
}

// Nodes is part of zkconn.Fence.
func (f *fence) Nodes(ctx context.Context, at zkconn.Stay) ([]string, error) {
	nodes, err := f.aboveAt(ctx, at)
	if err != nil {
		return nil, err
	}
	t := f.table
	t.mu.Lock()
	for k, o := range t.locks {
		if k.at == at {
			nodes = append(nodes, o.nodes()...)
		}
	}
	for _, d := range t.gone {
		if d.at == at {
			nodes = append(nodes, d.nodes...)
		}
	}
	t.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(slices.DeleteFunc(nodes, f.without)))), nil
}

// nodes are the znodes of all leases, by the server's paths. Called with the table's
// lock held.
func (o *owned) nodes() (nodes []string) {
	for _, l := range o.leases {
		for _, node := range l.Nodes() {
			nodes = append(nodes, path.Join(o.key.path, path.Base(node)))
		}
	}
	return nodes
}

// without tells whether a znode's lock does not count any more. Called with the fence's
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
func (f *fence) Refused(at zkconn.Stay, node string, code zkconn.Code) error {
	which, out := "the lock that this runs under", ""
	t := f.table
	t.mu.Lock()
	for k, o := range t.locks {
		if k.at == at && slices.Contains(o.nodes(), node) {
			which = "the lock on " + o.path
			o.reported = o.reported || code == zkconn.NoNode
			if o.env.Mode == commands.ByHand {
				out = "; unlock " + o.path + " to go on without it"
			}
		}
	}
	t.mu.Unlock()
	switch code {
	case zkconn.NoNode:
		return lockLost(fmt.Errorf("nothing was written, as %s is gone (%s)%s%s", which, node, out, f.goesOn(node)))
	case zkconn.NoAuth:
		return fmt.Errorf("nothing was written, as %s cannot be checked without permission to read %s; "+
			"--auth-file gives credentials that may, --no-fence writes without the check", which, node)
	}
	return fmt.Errorf("nothing was written, as %s cannot be checked (%s): %v", which, node, code)
}

// goesOn is what a loss that is told now leads to.
func (f *fence) goesOn(nodes ...string) string {
	if f == nil || !f.goOn {
		return ""
	}
	for _, node := range nodes {
		f.drop(node)
	}
	return "; -k goes on, and what follows is written without it"
}

// aboveAt are the znodes above that are in an ensemble, told by its servers. One that is
// known by other servers only is asked for the znode: it has no other's of that name.
func (f *fence) aboveAt(ctx context.Context, at zkconn.Stay) ([]string, error) {
	f.mu.Lock()
	known, own := f.at == at, slices.Clone(f.own)
	f.mu.Unlock()
	if known || len(f.above) == 0 {
		return own, nil
	}
	own = nil
	groups := map[string][]string{} // by their servers
	for _, p := range f.above {
		servers := strings.Join(p.hosts, ",")
		groups[servers] = append(groups[servers], p.node)
	}
	for servers, nodes := range groups {
		here, err := f.here(ctx, at, strings.Split(servers, ","), nodes)
		if err != nil {
			return nil, err
		}
		if here {
			own = append(own, nodes...)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.own = at, own
	return slices.Clone(own), nil
}

// here tells whether znodes are in an ensemble, from what they are known by.
func (f *fence) here(ctx context.Context, at zkconn.Stay, hosts, nodes []string) (bool, error) {
	ours := at.Servers().Hosts
	if overlap(ours, hosts) || overlap(addresses(ctx, ours), addresses(ctx, hosts)) {
		return true, nil
	}
	server := f.session.Absolute()
	if err := server.Sync(ctx, "/"); err != nil { // this server may lag behind the one that made them
		return false, err
	}
	for _, node := range nodes {
		if _, err := server.Exists(ctx, node, false); err == nil || !errors.Is(err, zkconn.NoNode) {
			return err == nil, err
		}
	}
	return false, nil
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// lookupTimeout bounds how long names are looked up. What a server is not known by then,
// its znodes tell.
const lookupTimeout = 2 * time.Second

// addresses are the numbers behind the names of servers, of those that can be looked up.
func addresses(ctx context.Context, hosts []string) (all []string) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	for _, h := range hosts {
		host, port, err := net.SplitHostPort(h)
		if err != nil {
			continue
		}
		numbers, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			continue
		}
		for _, n := range numbers {
			all = append(all, net.JoinHostPort(n, port))
		}
	}
	return all
}
