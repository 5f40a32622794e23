package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// reader reads znodes from a session or from a file. For a file whose format has no stats, its
// methods return nil instead of a stat.
type reader interface {
	Get(ctx context.Context, path string, watch bool) (zkconn.Node, error)
	Exists(ctx context.Context, path string, watch bool) (*zk.Stat, error)
	Children(ctx context.Context, path string, watch bool) (zkconn.Listed, error)
	ACL(ctx context.Context, path string) (zkconn.Access, error)
}

// server is a reader that reads from a ZooKeeper server through a session.
type server struct{ *zkconn.Session }

// Get implements reader.
func (s server) Get(ctx context.Context, path string, watch bool) (zkconn.Node, error) {
	return zkconn.Do(ctx, s, zkconn.GetData(path).Watch(watch))
}

// Exists implements reader.
func (s server) Exists(ctx context.Context, path string, watch bool) (*zk.Stat, error) {
	return zkconn.Do(ctx, s, zkconn.Exists(path).Watch(watch))
}

// Children implements reader.
func (s server) Children(ctx context.Context, path string, watch bool) (zkconn.Listed, error) {
	return zkconn.Do(ctx, s, zkconn.List(path).Watch(watch))
}

// ACL implements reader.
func (s server) ACL(ctx context.Context, path string) (zkconn.Access, error) {
	return zkconn.Do(ctx, s, zkconn.GetACL(path))
}

// inFlag is the name of the flag that makes a command read znodes from a file instead of the
// server.
const inFlag = "in"

// withReader declares the flags --in and --max-size. It returns a function that executes a command
// by calling run. The reader passed to run reads from the file named by --in, or from the session
// if --in is not set.
func withReader(fs *pflag.FlagSet, run func(ctx context.Context, env *Env, r reader, args []string) error) Run {
	name := fs.String(inFlag, "", "read this `file` instead of asking the server: an export or a ZooKeeper snapshot")
	FlagFile(fs, inFlag)
	most := FlagMaxSize(fs)
	return func(ctx context.Context, env *Env, args []string) error {
		if !fs.Changed(inFlag) {
			return run(ctx, env, server{env.Session}, args)
		}
		if fs.Changed("watch") {
			return Misuse("-w cannot be combined with --in, because a file never changes")
		}
		t, err := dump.Open(ctx, *name, most())
		if err != nil {
			return err
		}
		return cmp.Or(run(ctx, env, &fileReader{zktree.OnFile(t), t, *name}, args), t.Close())
	}
}

// FlagMaxSize declares the flag --max-size, which limits the expanded size of a compressed file. It
// returns a function that returns the flag's value as an option for opening the file.
func FlagMaxSize(fs *pflag.FlagSet) func() dump.Option {
	mib := fs.Uint32("max-size", 0, "let the expanded file take at most this many `MiB` in memory and the same amount on disk; by default, the limit depends on the file's size")
	return func() dump.Option { return dump.MaxSize(int64(*mib) << 20) }
}

var _ reader = (*fileReader)(nil)

// fileReader is a reader that reads znodes from a file, such as an export or a ZooKeeper snapshot.
type fileReader struct {
	*zktree.Kept
	tree *dump.Tree
	name string // name of the file
}

func (f *fileReader) Get(_ context.Context, path string, _ bool) (zkconn.Node, error) {
	z, err := f.znode(path)
	if err != nil {
		return zkconn.Node{}, err
	}
	return zkconn.Node{Data: z.Data, Stat: z.Stat}, nil
}

// Exists returns a nil stat if the file's format does not contain stats.
func (f *fileReader) Exists(_ context.Context, path string, _ bool) (*zk.Stat, error) {
	z, err := f.znode(path)
	if err != nil {
		return nil, err
	}
	return z.Stat, nil
}

func (f *fileReader) Children(_ context.Context, path string, _ bool) (zkconn.Listed, error) {
	z, err := f.znode(path)
	if err != nil {
		return zkconn.Listed{}, err
	}
	names, _ := f.tree.Names(path)
	return zkconn.Listed{Names: names, Stat: z.Stat}, nil
}

func (f *fileReader) ACL(_ context.Context, path string) (zkconn.Access, error) {
	z, err := f.znode(path)
	switch {
	case err != nil:
		return zkconn.Access{}, err
	case z.ACL == nil:
		return zkconn.Access{}, fmt.Errorf("the file %s does not contain the ACL of %s", f.name, path)
	}
	return zkconn.Access{ACL: z.ACL, Stat: z.Stat}, nil
}

// printStat prints a znode's kind, its time to live if it has one, and its stat. A server returns
// only the stat.
func (f *fileReader) printStat(env *Env, path string, human bool) error {
	z, err := f.znode(path)
	if err != nil {
		return err
	}
	facts := render.Facts{"kind", z.Kind.String()}
	if z.Kind == dump.TTL {
		facts = append(facts, "ttl", z.TTL.Milliseconds())
	}
	a := render.Answer{Words: facts.Text(), Stat: (*render.Stat)(z.Stat), JSON: append(facts, "stat", (*render.Stat)(z.Stat))}
	if human && z.Stat != nil {
		a.Words, a.Stat = a.Words+(*render.Stat)(z.Stat).Human(time.Now()).Words, nil
	}
	if z.Stat == nil {
		env.Screen.Note(f.name + " contains no stats")
	}
	return env.Screen.Print(a)
}

func (f *fileReader) znode(path string) (*dump.Znode, error) {
	if err := zkconn.ValidatePath(path, false); err != nil {
		return nil, err
	}
	z, err := f.Kept.Get(path)
	return z, f.explain(err)
}

// explain adds the name of the file, and the root of the subtree that the file contains, to a
// NoNode error. It returns other errors unchanged.
func (f *fileReader) explain(err error) error {
	if errors.Is(err, zkconn.NoNode) {
		return fmt.Errorf("%w (%s contains only %s and its descendants)", err, f.name, f.tree.Root())
	}
	return err
}
