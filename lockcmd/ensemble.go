package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
	"github.com/zksh/zksh/lockcmd/queue"
)

// ensemble is what package queue reads from.
type ensemble struct{ s *zkconn.Session }

var _ queue.Whole = ensemble{}

// Children is part of queue.Ensemble.
func (e ensemble) Children(ctx context.Context, path string) ([]string, error) {
	list, err := zkconn.Do(ctx, e.s, zkconn.List(path))
	return list.Names, err
}

// oneReading is how many znodes are read by one multiRead. The answer stays within
// the frame limit, 64 MiB of 256, whatever is in them.
const oneReading = 64

// Nodes is part of queue.Ensemble. The Stats of znodes that are not for us to read
// come in a second flight.
func (e ensemble) Nodes(ctx context.Context, paths []string) ([]queue.Node, error) {
	p, err := e.s.Pipe(ctx, paths[0])
	if err != nil {
		return nil, err
	}
	read := readSingly
	if len(paths) > oneReading && p.HasMultiRead(ctx) {
		read = readInCuts
	}
	nodes := make([]queue.Node, 0, len(paths))
	stats, size := map[int]*zkconn.Pending[*zk.Stat]{}, 0
	err = read(ctx, p, paths, func(got zkconn.Node, err error) error {
		n := queue.Node{Data: got.Data, Stat: got.Stat}
		if errors.Is(err, zkconn.NoAuth) {
			n.Hidden = true
			stats[len(nodes)] = zkconn.Add(p, zkconn.Exists(paths[len(nodes)]))
		} else if err != nil && !errors.Is(err, zkconn.NoNode) {
			return err
		}
		if size += len(n.Data); size > maxContenders {
			return fmt.Errorf("cannot read the queue: the data of the first %d contenders is larger than %d MiB in total", len(nodes), maxContenders>>20)
		}
		nodes = append(nodes, n)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, stat := range stats {
		nodes[i].Stat, err = stat.Wait(ctx)
		switch {
		case errors.Is(err, zkconn.NoAuth):
			nodes[i].Stat = &zk.Stat{} // it is there, which is all that a newer server tells
		case err != nil && !errors.Is(err, zkconn.NoNode):
			return nil, err
		}
	}
	return nodes, nil
}

func readInCuts(ctx context.Context, p *zkconn.Pipe, paths []string, add func(zkconn.Node, error) error) error {
	var asked []*zkconn.Pending[[]zkconn.Reading]
	for some := range slices.Chunk(paths, oneReading) {
		asked = append(asked, zkconn.Add(p, zkconn.MultiGetData(some)))
	}
	for _, a := range asked {
		got, err := a.Wait(ctx)
		if err != nil {
			return err
		}
		for _, r := range got {
			if err := add(r.Node, r.Err); err != nil {
				return err
			}
		}
	}
	return nil
}

func readSingly(ctx context.Context, p *zkconn.Pipe, paths []string, add func(zkconn.Node, error) error) error {
	return eachAnswer(ctx, p, paths, zkconn.GetData, add)
}

// Hosts is part of cluster.Ensemble.
func (e ensemble) Hosts() []string {
	hosts := slices.Clone(e.s.Servers().Hosts)
	if i := slices.Index(hosts, e.s.Info().Addr); i > 0 {
		hosts[0], hosts[i] = hosts[i], hosts[0]
	}
	return hosts
}

// ServerPath is part of queue.Whole.
func (e ensemble) ServerPath(path string) string { return e.s.ServerPath(path) }

// ClientPath is part of cluster.Ensemble.
func (e ensemble) ClientPath(path string) string { return e.s.ClientPath(path) }

// maxContenders bounds the data of all contenders in bytes. Each has less than a hundred.
const maxContenders = 32 << 20

// oneCut is how many bytes of paths go into one request, well below a server's
// frame limit of 1 MiB.
const oneCut = 512 << 10

// Lists is part of queue.Whole. A server without multiRead lists one after another.
func (e ensemble) Lists(ctx context.Context, dirs []string) ([][]string, error) {
	if len(dirs) == 0 {
		return nil, nil
	}
	p, err := e.s.Pipe(ctx, dirs[0])
	if err != nil {
		return nil, err
	}
	ask := listSingly
	if p.HasMultiRead(ctx) {
		ask = listInCuts
	}
	var lists [][]string
	err = ask(ctx, p, dirs, func(names []string, err error) error {
		if errors.Is(err, zkconn.NoNode) || errors.Is(err, zkconn.NoAuth) {
			names, err = nil, nil
		}
		lists = append(lists, names)
		return err
	})
	return lists, err
}

func listInCuts(ctx context.Context, p *zkconn.Pipe, dirs []string, add func([]string, error) error) error {
	for len(dirs) > 0 {
		n, size := 0, 0
		for ; n < len(dirs) && size < oneCut; n++ {
			size += len(dirs[n]) + 16
		}
		got, err := zkconn.Add(p, zkconn.MultiGetChildren(dirs[:n])).Wait(ctx)
		if err != nil {
			return err
		}
		for _, l := range got {
			if err := add(l.Names, l.Err); err != nil {
				return err
			}
		}
		dirs = dirs[n:]
	}
	return nil
}

func listSingly(ctx context.Context, p *zkconn.Pipe, dirs []string, add func([]string, error) error) error {
	return eachAnswer(ctx, p, dirs, zkconn.GetChildren, add)
}

// eachAnswer asks something of each path, all at once, and takes the answers in order.
func eachAnswer[T any](ctx context.Context, p *zkconn.Pipe, paths []string, ask func(string) zkconn.Op[T], add func(T, error) error) error {
	asked := make([]*zkconn.Pending[T], len(paths))
	for i, path := range paths {
		asked[i] = zkconn.Add(p, ask(path))
	}
	for _, a := range asked {
		if err := add(a.Wait(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// Tree is part of queue.Whole.
func (e ensemble) Tree(ctx context.Context, root string, found func(dir string, names []string)) error {
	src, err := zktree.OnServer(ctx, e.s.Client, root, false)
	if err != nil {
		return err
	}
	walk, err := zktree.Begin(ctx, src, root, zktree.Options{Shut: true})
	if err != nil {
		return err
	}
	for s, err := range walk.Steps() {
		if err != nil {
			return err
		}
		if s.Kind == zktree.Enter {
			found(s.Path(), s.Names)
		}
	}
	return nil
}

// Word is part of cluster.Ensemble.
func (e ensemble) Word(ctx context.Context, addr, word string) (string, error) {
	return e.s.FourLetter(ctx, addr, word)
}

// Config is part of cluster.Ensemble.
func (e ensemble) Config(ctx context.Context) (string, error) {
	node, err := zkconn.Do(ctx, e.s.Absolute(), zkconn.GetData(zkconn.ConfigPath))
	if e.s.Secure().TLS == nil {
		return string(node.Data), err
	}
	return plainPort.ReplaceAllString(string(node.Data), ""), err
}

// plainPort is what a member's line says of the port without TLS, the only one that it
// can tell. With TLS the port is that of the connect string for all members.
var plainPort = regexp.MustCompile(`(?m);(.*:)?\d+$`)

// Self is part of cluster.Ensemble.
func (e ensemble) Self() (session int64, since time.Time) {
	info := e.s.Info()
	return info.ID, info.Since
}
