package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/cluster"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// A TreeEnsemble is an ensemble that can also list the znodes below a path, to find queues.
type TreeEnsemble interface {
	Ensemble
	// Lists returns the names of the children of each znode in dirs. It reads all lists at the same
	// moment if the server supports that. The list of a znode that is missing or unreadable is nil.
	Lists(ctx context.Context, dirs []string) ([][]string, error)
	// Tree calls visit for each znode below root that has children, with the names of its
	// children, until visit returns false. It skips unreadable znodes.
	Tree(ctx context.Context, root string, visit func(dir string, names []string) bool) error
	// ServerPath converts a client path to a server path, which includes the chroot. ClientPath
	// does the reverse.
	ServerPath(path string) string
}

// A Survey contains all queues below a path.
type Survey struct {
	Path   string   `json:"path"`
	Queues []*Queue `json:"queues"` // those with the oldest waiters first
	// Deadlocks contains possible deadlocks. Semaphores are not examined.
	Deadlocks []Deadlock `json:"deadlocks,omitempty"`
	// Walked is the reason why zksh had to search the whole tree. It is empty if the four-letter
	// command dump listed the queues.
	Walked    string `json:"walked,omitempty"`
	NoOwners  string `json:"noOwners,omitempty"`  // why locks that belong to owners are missing
	NoClients string `json:"noClients,omitempty"` // why client addresses are missing
}

// maxOwnerWalk is the maximum number of znodes below a path in which LookAll searches for the
// locks of owners. The znodes of such locks are persistent. No server lists them, so LookAll must
// walk the tree. A walk over this many znodes takes about 0.1 s.
var maxOwnerWalk = 20_000 // tests change it

// noOwners is the text that precedes the reason Survey.NoOwners in a remark.
const noOwners = "locks that an owner holds may be missing if nobody waits for them: "

// nodeBatch is the maximum number of znodes that readNodes reads with one call of Nodes.
const nodeBatch = 2000

// LookAll finds and reads all queues below root, adds the addresses of the clients, and searches the
// queues for deadlocks. It considers a znode a queue if the name of a child fits a known lock recipe,
// and the child is ephemeral or belongs to an owner.
func LookAll(ctx context.Context, e TreeEnsemble, root string) (*Survey, error) {
	s := &Survey{Path: root}
	dirs, err := s.find(ctx, e)
	if err != nil {
		return nil, err
	}
	if err := s.read(ctx, e, dirs); err != nil {
		return nil, err
	}
	s.Deadlocks = deadlocks(s.Queues, e.ServerPath)
	return s, nil
}

// read reads the queues at the given paths into the survey, with the addresses of their clients.
func (s *Survey) read(ctx context.Context, e TreeEnsemble, dirs []string) (err error) {
	found := make(chan *cluster.Clients, 1)
	// This goroutine ends after the timeouts of FindClients. Its result is received below.
	go func() { found <- cluster.FindClients(ctx, e) }()
	s.Queues, err = readAll(ctx, e, dirs)
	c := <-found
	if err != nil {
		return err
	}
	s.addClients(c)
	// Query the servers again, because these clients may have connected in the meantime.
	if slices.ContainsFunc(s.Queues, (*Queue).hasDisconnected) {
		s.addClients(cluster.FindClients(ctx, e))
	}
	slices.SortStableFunc(s.Queues, func(a, b *Queue) int {
		return cmp.Or(cmp.Compare(a.earliest(waits), b.earliest(waits)), cmp.Compare(a.earliest(holds), b.earliest(holds)), strings.Compare(a.Path, b.Path))
	})
	return nil
}

func (s *Survey) addClients(c *cluster.Clients) {
	for _, q := range s.Queues {
		q.addClients(c)
		s.NoClients = cmp.Or(s.NoClients, q.NoClients)
	}
}

// earliest returns the creation time of the oldest znode among the contenders in the given state,
// in milliseconds since 1970. If there is none, it returns the largest int64.
func (q *Queue) earliest(state string) int64 {
	first := int64(math.MaxInt64)
	for _, c := range q.Contenders {
		if c.State == state && c.statKnown() {
			first = min(first, c.stat.Ctime)
		}
	}
	return first
}

// find returns the paths of the queues below s.Path. It gets them from the four-letter command
// dump if possible, and walks the tree only for the locks of owners. Otherwise, it walks the tree
// for all queues, and sets s.Walked to the reason.
func (s *Survey) find(ctx context.Context, e TreeEnsemble) ([]string, error) {
	paths := map[string]bool{}
	all, err := cluster.Ephemerals(ctx, e)
	switch {
	case err == nil:
		for _, list := range all {
			addQueueDirs(paths, e, s.Path, list)
		}
		err = s.addOwnerDirs(ctx, e, paths)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	default:
		s.Walked = err.Error()
		err = walkForQueues(ctx, e, s.Path, paths)
	}
	return queueDirs(paths), err
}

// addOwnerDirs walks the tree. It adds to set the paths of the queues in which an owner holds the
// lock. If the tree is too large, it sets s.NoOwners instead.
func (s *Survey) addOwnerDirs(ctx context.Context, e TreeEnsemble, set map[string]bool) error {
	n := 0 // number of znodes so far
	dirs := map[string]bool{}
	err := e.Tree(ctx, s.Path, func(dir string, names []string) bool {
		n += len(names)
		for _, name := range names {
			if n, ok := zklock.ParseName(name); ok && n.Permanent {
				dirs[dir] = true
			}
		}
		return n <= maxOwnerWalk
	})
	if n > maxOwnerWalk {
		s.NoOwners = fmt.Sprintf("there are more than %d znodes below %s; specify a path with fewer", maxOwnerWalk, s.Path)
		return nil
	}
	maps.Copy(set, dirs)
	return err
}

// walkForQueues walks the tree below root, and adds the paths of all queues to set.
func walkForQueues(ctx context.Context, e TreeEnsemble, root string, set map[string]bool) error {
	var candidates []string // paths of possible contenders
	err := e.Tree(ctx, root, func(dir string, names []string) bool {
		for _, name := range names {
			switch n, ok := zklock.ParseName(name); {
			case ok && n.Permanent:
				set[dir] = true
			case ok:
				candidates = append(candidates, path.Join(dir, name))
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	nodes, err := readNodes(ctx, e, candidates)
	for p, n := range nodes {
		if n.Stat != nil && (n.Stat.Czxid == 0 || isSession(n.Stat.EphemeralOwner)) {
			set[path.Dir(p)] = true
		}
	}
	return err
}

// addQueueDirs adds the paths of queues below root to set. nodes contains the server paths of
// ephemeral znodes. If the name of such a znode fits a lock recipe, the parent of the znode is a
// queue.
func addQueueDirs(set map[string]bool, e TreeEnsemble, root string, nodes []string) {
	top := strings.TrimSuffix(e.ServerPath(root), "/")
	for _, p := range nodes {
		dir, name := path.Split(p)
		dir = strings.TrimSuffix(dir, "/")
		if dir != top && !strings.HasPrefix(dir, top+"/") {
			continue
		}
		if _, ok := zklock.ParseName(name); ok {
			set[e.ClientPath(cmp.Or(dir, "/"))] = true
		}
	}
}

// queueDirs returns the paths of locks, given the parents of their contenders' znodes. If several
// parents belong to one semaphore, it returns their common lock path.
func queueDirs(parents map[string]bool) (dirs []string) {
	for dir := range parents {
		above := path.Dir(dir)
		switch base := path.Base(dir); {
		case base == "leases", base == "locks" && parents[path.Join(above, "leases")]:
			dir = above
		case strings.HasSuffix(base, kazooGuard):
			dir = strings.TrimSuffix(dir, kazooGuard)
		}
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// A snapshot is a znodeReader that returns children and znodes that were read in advance.
type snapshot struct {
	znodeReader
	lists map[string][]string
	nodes map[string]Node
}

// Children implements znodeReader.
func (s *snapshot) Children(ctx context.Context, dir string) ([]string, error) {
	if names, ok := s.lists[dir]; ok {
		return slices.Clone(names), nil
	}
	return s.znodeReader.Children(ctx, dir)
}

// Nodes implements znodeReader. If any of the paths was not read in advance, it reads all of them
// from the ensemble.
func (s *snapshot) Nodes(ctx context.Context, paths []string) ([]Node, error) {
	nodes := make([]Node, len(paths))
	for i, p := range paths {
		n, ok := s.nodes[p]
		if !ok {
			return s.znodeReader.Nodes(ctx, paths)
		}
		nodes[i] = n
	}
	return nodes, nil
}

// readAll reads the queues at the given paths. To keep the number of round trips low, it first reads all lists
// of children, and then all contenders' znodes.
func readAll(ctx context.Context, e TreeEnsemble, dirs []string) ([]*Queue, error) {
	lists, err := e.Lists(ctx, dirs)
	if err != nil {
		return nil, err
	}
	s := &snapshot{znodeReader: e, lists: map[string][]string{}}
	var paths []string
	for i, dir := range dirs {
		if lists[i] == nil {
			continue
		}
		s.lists[dir] = lists[i]
		for _, name := range lists[i] {
			if _, ok := zklock.ParseName(name); ok {
				paths = append(paths, path.Join(dir, name))
			}
		}
	}
	if s.nodes, err = readNodes(ctx, e, paths); err != nil {
		return nil, err
	}
	queues := []*Queue{}
	for _, dir := range dirs {
		c, err := (&reader{e: s}).read(ctx, dir)
		if unreadable(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if q := newQueue(dir, c); !q.Free() {
			queues = append(queues, q)
		}
	}
	return queues, nil
}

// readNodes returns the znodes at paths, by path. It reads at most nodeBatch of them at a time.
func readNodes(ctx context.Context, e znodeReader, paths []string) (map[string]Node, error) {
	all := make(map[string]Node, len(paths))
	for some := range slices.Chunk(paths, nodeBatch) {
		nodes, err := e.Nodes(ctx, some)
		if err != nil {
			return nil, err
		}
		for i, n := range nodes {
			all[some[i]] = n
		}
	}
	return all, nil
}

// Text implements render.Value. It writes the queues one after another, each in the format of the
// command "locks PATH".
func (s *Survey) Text(w io.Writer) error { return s.FitText(w, 0) }

// FitText implements render.Fitter. It writes the same text as Text, shortened to fit columns.
func (s *Survey) FitText(w io.Writer, columns int) error {
	if len(s.Queues) == 0 {
		found := "no queues"
		if s.NoOwners != "" {
			found = "found no queues"
		}
		_, err := fmt.Fprintf(w, "%s below %s\n", found, render.Safe(s.Path))
		return err
	}
	for i, q := range s.Queues {
		title := render.Safe(q.title())
		if first := q.firstWaiter(); first != nil {
			title += ", the longest for " + first.Age
		}
		if i > 0 {
			title = "\n" + title
		}
		if _, err := io.WriteString(w, title+"\n"); err != nil {
			return err
		}
		if err := q.FitText(w, columns); err != nil {
			return err
		}
	}
	return nil
}

func (q *Queue) firstWaiter() (first *Contender) {
	for _, c := range q.Contenders {
		if c.State == waits && c.statKnown() && (first == nil || c.stat.Ctime < first.stat.Ctime) {
			first = c
		}
	}
	return first
}

// Table returns one row for each contender. The path of the lock precedes the columns that the
// command "locks PATH" prints.
func (s *Survey) Table() render.Grid {
	g := render.Grid{Header: append([]string{"PATH"}, (&Queue{}).Table().Header...)}
	for _, q := range s.Queues {
		for _, row := range q.Table().Rows {
			g.Rows = append(g.Rows, append([]string{q.Path}, row...))
		}
	}
	return g
}

// Remarks returns the lines to print in addition to the table, such as warnings.
func (s *Survey) Remarks() []string {
	var lines []string
	if s.NoOwners != "" {
		lines = append(lines, noOwners+s.NoOwners)
	}
	if s.Walked != "" {
		lines = append(lines, "no server listed the queues, so zksh searched the tree: "+s.Walked)
	}
	for _, q := range s.Queues {
		for _, w := range q.Warnings {
			lines = append(lines, render.Safe("warning: "+q.Path+": "+w))
		}
	}
	if s.NoClients != "" {
		lines = append(lines, "client addresses: "+s.NoClients)
	}
	return lines
}

// unreadable reports whether err means that zksh has no permission to list a znode's children.
func unreadable(err error) bool { return errors.Is(err, zk.ErrNoAuth) }
