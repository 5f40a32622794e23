package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
	"github.com/zksh/zksh/lockcmd/queue"
)

// An ensemble lets the packages queue and cluster send requests to the ensemble of the session s.
type ensemble struct{ s *zkconn.Session }

var _ queue.TreeEnsemble = ensemble{}

// Children implements queue.Ensemble.
func (e ensemble) Children(ctx context.Context, path string) ([]string, error) {
	list, err := zkconn.Do(ctx, e.s, zkconn.List(path))
	return list.Names, err
}

// Sync implements queue.Ensemble.
func (e ensemble) Sync(ctx context.Context, path string) error {
	return zkconn.Exec(ctx, e.s, zkconn.Sync(path))
}

// readBatch is the maximum number of znodes to read with one multiRead request. Whatever these
// znodes contain, the reply is at most 64 MiB, well below the frame limit of 256 MiB.
const readBatch = 64

// Nodes implements queue.Ensemble. If zksh has no permission to read the data of some znodes, it
// sends a second round of requests for these znodes, which return only their Stats.
func (e ensemble) Nodes(ctx context.Context, paths []string) ([]queue.Node, error) {
	p, err := e.s.Pipe(ctx, paths[0])
	if err != nil {
		return nil, err
	}
	read := readSingly
	if len(paths) > readBatch && p.HasMultiRead(ctx) {
		read = readInBatches
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
		if size += len(n.Data); size > maxQueueData {
			return fmt.Errorf("cannot read the queue: the data of the first %d contenders is larger than %d MiB in total", len(nodes), maxQueueData>>20)
		}
		nodes = append(nodes, n)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, stat := range stats {
		if nodes[i].Stat, err = statOrNil(stat.Wait(ctx)); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// statOrNil converts the result of zkconn.Exists to that of queue.Ensemble: it is nil if the znode
// does not exist. Newer servers do not return the Stat of a znode that the session may not read.
func statOrNil(stat *zk.Stat, err error) (*zk.Stat, error) {
	switch {
	case errors.Is(err, zkconn.NoNode):
		return nil, nil
	case errors.Is(err, zkconn.NoAuth):
		return &zk.Stat{}, nil
	}
	return stat, err
}

// Stats implements queue.Ensemble.
func (e ensemble) Stats(ctx context.Context, paths []string) ([]*zk.Stat, error) {
	p, err := e.s.Pipe(ctx, paths[0])
	if err != nil {
		return nil, err
	}
	stats := make([]*zk.Stat, 0, len(paths))
	err = pipeline(ctx, p, paths, zkconn.Exists, func(stat *zk.Stat, err error) error {
		stat, err = statOrNil(stat, err)
		stats = append(stats, stat)
		return err
	})
	return stats, err
}

func readInBatches(ctx context.Context, p *zkconn.Pipe, paths []string, add func(zkconn.Node, error) error) error {
	var asked []*zkconn.Pending[[]zkconn.Reading]
	for some := range slices.Chunk(paths, readBatch) {
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
	return pipeline(ctx, p, paths, zkconn.GetData, add)
}

// Hosts implements cluster.Ensemble. The list begins with the server to which the session is
// connected.
func (e ensemble) Hosts() []string {
	hosts := slices.Clone(e.s.Servers().Hosts)
	if i := slices.Index(hosts, e.s.Info().Addr); i > 0 {
		hosts[0], hosts[i] = hosts[i], hosts[0]
	}
	return hosts
}

// Dial implements cluster.Ensemble.
func (e ensemble) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return e.s.Ensemble().Dial(ctx, network, addr)
}

// LookupHost implements cluster.Ensemble.
func (e ensemble) LookupHost(ctx context.Context, host string) ([]string, error) {
	return e.s.Ensemble().LookupHost(ctx, host)
}

// ServerPath implements queue.TreeEnsemble.
func (e ensemble) ServerPath(path string) string { return e.s.ServerPath(path) }

// ClientPath implements cluster.Ensemble.
func (e ensemble) ClientPath(path string) string { return e.s.ClientPath(path) }

// maxQueueData is the maximum total size of the contenders' data in one queue, in bytes. A
// typical contender stores less than 100 bytes.
const maxQueueData = 32 << 20

// listBatchBytes is the maximum total length of the paths in one request, in bytes. It is well
// below the server's frame limit of 1 MiB.
const listBatchBytes = 512 << 10

// Lists implements queue.TreeEnsemble. If the server does not support multiRead, Lists sends one
// request for each list, so the lists may be from different moments.
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
		ask = listInBatches
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

func listInBatches(ctx context.Context, p *zkconn.Pipe, dirs []string, add func([]string, error) error) error {
	for len(dirs) > 0 {
		n, size := 0, 0
		for ; n < len(dirs) && size < listBatchBytes; n++ {
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
	return pipeline(ctx, p, dirs, zkconn.GetChildren, add)
}

// pipeline sends a request for each path without waiting for replies. ask returns the request for a
// path. Afterwards, pipeline passes the replies to add, in the order of the paths.
func pipeline[T any](ctx context.Context, p *zkconn.Pipe, paths []string, ask func(string) zkconn.Op[T], add func(T, error) error) error {
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

// Tree implements queue.TreeEnsemble.
func (e ensemble) Tree(ctx context.Context, root string, visit func(dir string, names []string) bool) error {
	all, err := zktree.Walk(ctx, e.s.Client, root, zktree.Options{Shut: true})
	if err != nil {
		return err
	}
	for z, err := range all {
		if z == nil {
			return err
		}
		if !visit(z.Path, z.Children) {
			return nil
		}
	}
	return nil
}

// Word implements cluster.Ensemble.
func (e ensemble) Word(ctx context.Context, addr, word string) (string, error) {
	return e.s.FourLetter(ctx, addr, word)
}

// Config implements cluster.Ensemble. On a TLS connection, it removes the client ports from the
// configuration, because they are ports without TLS; see plainPort.
func (e ensemble) Config(ctx context.Context) (string, error) {
	node, err := zkconn.Do(ctx, e.s.Absolute(), zkconn.GetData(zkconn.ConfigPath))
	if e.s.Secure().TLS == nil {
		return string(node.Data), err
	}
	return plainPort.ReplaceAllString(string(node.Data), ""), err
}

// plainPort matches the client port in a member's configuration line. This is the port for
// connections without TLS; the line never contains the TLS port. On a TLS connection, zksh uses
// the port of the connect string for all members.
var plainPort = regexp.MustCompile(`(?m);(.*:)?\d+$`)

// Self implements cluster.Ensemble.
func (e ensemble) Self() (session int64, since time.Time) {
	info := e.s.Info()
	return info.ID, info.Since
}
