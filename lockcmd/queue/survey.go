package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/cluster"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// Whole is an ensemble whose queues can be looked for.
type Whole interface {
	Ensemble
	// Lists gives the names of the children of many znodes, as they were at one
	// moment if the server can do that. Names of a znode that is gone, or not for us
	// to read, are nil.
	Lists(ctx context.Context, dirs []string) ([][]string, error)
	// Tree lists all znodes below a path that have children, with their names.
	// What may not be read is left out.
	Tree(ctx context.Context, root string, found func(dir string, names []string)) error
	// ServerPath returns a path as the servers know it; ClientPath returns it back.
	ServerPath(path string) string
}

// Survey is all the queues below a path.
type Survey struct {
	Path      string   `json:"path"`
	Queues    []*Queue `json:"queues"`              // the longest wait first
	Walked    string   `json:"walked,omitempty"`    // why no dump told where the queues are
	NoClients string   `json:"noClients,omitempty"` // why addresses of clients are missing
}

// nodesAtOne is how many znodes are read in one flight.
const nodesAtOne = 2000

// LookAll finds and reads all queues below a path, with what the servers tell of
// the clients. A queue is a znode with an ephemeral child that some recipe makes.
func LookAll(ctx context.Context, e Whole, root string) (*Survey, error) {
	dirs, walked, err := findQueues(ctx, e, root)
	if err != nil {
		return nil, err
	}
	s := &Survey{Path: root, Walked: walked}
	return s, s.read(ctx, e, dirs)
}

// read reads the queues of these paths.
func (s *Survey) read(ctx context.Context, e Whole, dirs []string) (err error) {
	found := make(chan *cluster.Clients, 1)
	go func() { found <- cluster.FindClients(ctx, e) }() // bounded, and received below
	s.Queues, err = readAll(ctx, e, dirs)
	c := <-found
	if err != nil {
		return err
	}
	s.addClients(c)
	if slices.ContainsFunc(s.Queues, (*Queue).orphans) { // they may have come in between
		s.addClients(cluster.FindClients(ctx, e))
	}
	slices.SortStableFunc(s.Queues, func(a, b *Queue) int {
		return cmp.Or(cmp.Compare(a.oldest(waits), b.oldest(waits)), cmp.Compare(a.oldest(holds), b.oldest(holds)), strings.Compare(a.Path, b.Path))
	})
	return nil
}

func (s *Survey) addClients(c *cluster.Clients) {
	for _, q := range s.Queues {
		q.addClients(c)
		s.NoClients = cmp.Or(s.NoClients, q.NoClients)
	}
}

// oldest is when the first one in a state came, in milliseconds since 1970.
func (q *Queue) oldest(state string) int64 {
	first := int64(math.MaxInt64)
	for _, c := range q.Contenders {
		if c.State == state && c.known() {
			first = min(first, c.stat.Ctime)
		}
	}
	return first
}

// findQueues finds the paths of the queues below root: by one dump, or else, and
// walked says why, by walking.
func findQueues(ctx context.Context, e Whole, root string) (dirs []string, walked string, err error) {
	paths := map[string]bool{}
	all, err := cluster.Ephemerals(ctx, e)
	if err == nil {
		for _, list := range all {
			addFolders(paths, e, root, list)
		}
		return queueDirs(paths), "", nil
	}
	if ctx.Err() != nil {
		return nil, "", context.Cause(ctx)
	}
	walked = err.Error()
	var may []string // children that may contend
	err = e.Tree(ctx, root, func(dir string, names []string) {
		for _, name := range names {
			if _, ok := zklock.ParseName(name); ok {
				may = append(may, path.Join(dir, name))
			}
		}
	})
	if err != nil {
		return nil, "", err
	}
	nodes, err := readNodes(ctx, e, may)
	if err != nil {
		return nil, "", err
	}
	for p, n := range nodes {
		if n.Stat != nil && (n.Stat.Czxid == 0 || isSession(n.Stat.EphemeralOwner)) {
			paths[path.Dir(p)] = true
		}
	}
	return queueDirs(paths), walked, nil
}

// addFolders adds where the ephemerals of a list that are contenders are, as paths
// of this client, if that is below root. The list has the servers' paths.
func addFolders(to map[string]bool, e Whole, root string, list []string) {
	top := strings.TrimSuffix(e.ServerPath(root), "/")
	for _, p := range list {
		dir, name := path.Split(p)
		dir = strings.TrimSuffix(dir, "/")
		if dir != top && !strings.HasPrefix(dir, top+"/") {
			continue
		}
		if _, ok := zklock.ParseName(name); ok {
			to[e.ClientPath(cmp.Or(dir, "/"))] = true
		}
	}
}

// queueDirs makes folders the paths of locks: those of a semaphore are one.
func queueDirs(folders map[string]bool) (dirs []string) {
	for dir := range folders {
		above := path.Dir(dir)
		switch base := path.Base(dir); {
		case base == "leases", base == "locks" && folders[path.Join(above, "leases")]:
			dir = above
		case strings.HasSuffix(base, kazooGuard):
			dir = strings.TrimSuffix(dir, kazooGuard)
		}
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// snapshot is an ensemble of which much has been read already, at once.
type snapshot struct {
	source
	lists map[string][]string
	nodes map[string]Node
}

// Children is part of source.
func (s *snapshot) Children(ctx context.Context, dir string) ([]string, error) {
	if names, ok := s.lists[dir]; ok {
		return slices.Clone(names), nil
	}
	return s.source.Children(ctx, dir)
}

// Nodes is part of source.
func (s *snapshot) Nodes(ctx context.Context, paths []string) ([]Node, error) {
	nodes := make([]Node, len(paths))
	for i, p := range paths {
		n, ok := s.nodes[p]
		if !ok {
			return s.source.Nodes(ctx, paths)
		}
		nodes[i] = n
	}
	return nodes, nil
}

// readAll reads queues: their folders in one cut, then all contenders.
func readAll(ctx context.Context, e Whole, dirs []string) ([]*Queue, error) {
	lists, err := e.Lists(ctx, dirs)
	if err != nil {
		return nil, err
	}
	s := &snapshot{source: e, lists: map[string][]string{}}
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

// readNodes reads many znodes, so many in one flight.
func readNodes(ctx context.Context, e source, paths []string) (map[string]Node, error) {
	all := make(map[string]Node, len(paths))
	for some := range slices.Chunk(paths, nodesAtOne) {
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

// Text is the queues one after another, each as locks PATH has it.
func (s *Survey) Text(w io.Writer) error { return s.FitText(w, 0) }

// FitText is part of render.Fitter.
func (s *Survey) FitText(w io.Writer, columns int) error {
	if len(s.Queues) == 0 {
		_, err := fmt.Fprintf(w, "no queues below %s\n", render.Safe(s.Path))
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
		if c.State == waits && c.known() && (first == nil || c.stat.Ctime < first.stat.Ctime) {
			first = c
		}
	}
	return first
}

// Table has a row for each contender, with the path of its lock before what locks
// PATH shows.
func (s *Survey) Table() render.Grid {
	g := render.Grid{Header: append([]string{"PATH"}, (&Queue{}).Table().Header...)}
	for _, q := range s.Queues {
		for _, row := range q.Table().Rows {
			g.Rows = append(g.Rows, append([]string{q.Path}, row...))
		}
	}
	return g
}

// Remarks is what a person should know besides, a line each.
func (s *Survey) Remarks() []string {
	var lines []string
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

// unreadable tells a folder that is not for us to list.
func unreadable(err error) bool { return errors.Is(err, zk.ErrNoAuth) }
