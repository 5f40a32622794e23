package zktree

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
)

// Tree is a sequence of znodes below a root, in the order of Nodes and with its errors.
type Tree struct {
	Root  string
	Nodes iter.Seq2[*dump.Znode, error]
}

// ServerTree is the subtree at root, read from the server that c is connected to, with
// progress for what has been read.
func ServerTree(ctx context.Context, c zkconn.Client, root string, progress Progress) Tree {
	return Tree{root, func(yield func(*dump.Znode, error) bool) {
		src, err := OnServer(ctx, c, root, false)
		if err != nil {
			yield(nil, err)
			return
		}
		Nodes(ctx, src, root, progress)(yield)
	}}
}

// Below is the path of a znode without that of the tree's root, for which it is empty.
func (t Tree) Below(path string) string {
	if path == t.Root { // also "/", which is all of its own prefix but the end
		return ""
	}
	return strings.TrimPrefix(path, strings.TrimSuffix(t.Root, "/"))
}

// At is where something below the root is.
func (t Tree) At(below string) string {
	if below == "" {
		return t.Root
	}
	return strings.TrimSuffix(t.Root, "/") + below
}

// OrEmpty is the tree, or an empty one if its root does not exist.
func (t Tree) OrEmpty() Tree {
	return Tree{t.Root, func(yield func(*dump.Znode, error) bool) {
		for z, err := range t.Nodes {
			if z == nil && errors.Is(err, zkconn.NoNode) || !yield(z, err) {
				return
			}
		}
	}}
}

// Without is the tree without the znodes that drop reports. refusal is why a znode may not
// be read. An error of drop ends the tree.
func (t Tree) Without(drop func(z *dump.Znode, refusal error) (bool, error)) Tree {
	return Tree{t.Root, func(yield func(*dump.Znode, error) bool) {
		for z, refusal := range t.Nodes {
			if z == nil {
				yield(nil, refusal)
				return
			}
			dropped, err := drop(z, refusal)
			switch {
			case err != nil:
				yield(nil, err)
				return
			case !dropped && !yield(z, refusal):
				return
			}
		}
	}}
}

// ReadOne reads a single znode, with its ACL if access is true. As in Nodes, a znode that may
// not be read comes with an error of its own; any other failure comes without a znode.
func ReadOne(ctx context.Context, c zkconn.Client, path string, access bool) (*dump.Znode, error) {
	p, err := c.Pipe(ctx, path)
	if err != nil {
		return nil, err
	}
	z := &dump.Znode{Path: path}
	data := zkconn.Add(p, zkconn.GetData(path))
	if access {
		var a zkconn.Access
		if a, err = zkconn.Add(p, zkconn.GetACL(path)).Wait(ctx); err == nil { // and behind it comes the data
			z.ACL, z.Stat = a.ACL, a.Stat
		}
	}
	if err == nil {
		var n zkconn.Node
		if n, err = data.Wait(ctx); err == nil {
			z.Kind, z.Data, z.Stat = dump.KindOf(n.Stat), n.Data, n.Stat
		}
	}
	if err != nil && !errors.Is(err, zkconn.NoAuth) {
		return nil, err
	}
	return z, err
}

// Seq is the elements of a list, without an error: a stream of what is in memory.
func Seq[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, one := range list {
			if !yield(one, nil) {
				return
			}
		}
	}
}

// Znodes is so many of them in words.
func Znodes(n int) string { return count(n, "znode") }

// Ephemerals is so many ephemeral znodes in words.
func Ephemerals(n int) string { return count(n, "ephemeral znode") }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
