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

// A Tree is a root path and a sequence of the znodes of its subtree. The function Nodes defines
// their order and the errors.
type Tree struct {
	Root  string
	Nodes iter.Seq2[*dump.Znode, error]
}

// ServerTree returns the subtree at root on the server of c. The znodes are read during the
// iteration over the tree; progress reports how many were read.
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

// Below returns the part of a path below the tree's root: an empty string for the root itself,
// or else a path with a leading slash.
func (t Tree) Below(path string) string {
	if path == t.Root { // also "/", for which the line below would return "/"
		return ""
	}
	return strings.TrimPrefix(path, strings.TrimSuffix(t.Root, "/"))
}

// At returns the path of a znode from its path relative to the tree's root. It is the inverse of
// Below.
func (t Tree) At(below string) string {
	if below == "" {
		return t.Root
	}
	return strings.TrimSuffix(t.Root, "/") + below
}

// OrEmpty returns the tree, except that it is empty instead of an error if its root does not
// exist.
func (t Tree) OrEmpty() Tree {
	return Tree{t.Root, func(yield func(*dump.Znode, error) bool) {
		for z, err := range t.Nodes {
			if z == nil && errors.Is(err, zkconn.NoNode) || !yield(z, err) {
				return
			}
		}
	}}
}

// Without returns the tree without the znodes for which drop returns true. refusal is the reason
// why the znode is unreadable, or nil if it is readable. An error of drop ends the tree.
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

// ReadOne reads a single znode, and its ACL if access is true. As in Nodes, an unreadable znode
// is returned with an error. After any other failure, the znode is nil.
func ReadOne(ctx context.Context, c zkconn.Client, path string, access bool) (*dump.Znode, error) {
	p, err := c.Pipe(ctx, path)
	if err != nil {
		return nil, err
	}
	z := &dump.Znode{Path: path}
	data := zkconn.Add(p, zkconn.GetData(path))
	if access {
		var a zkconn.Access
		if a, err = zkconn.Add(p, zkconn.GetACL(path)).Wait(ctx); err == nil {
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

// Seq returns a sequence that yields the elements of a list, each with a nil error.
func Seq[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, one := range list {
			if !yield(one, nil) {
				return
			}
		}
	}
}

// Znodes returns a number with its noun, such as "1 znode" or "2 znodes".
func Znodes(n int) string { return count(n, "znode") }

// Ephemerals returns a number with its noun, such as "1 ephemeral znode" or "2 ephemeral
// znodes".
func Ephemerals(n int) string { return count(n, "ephemeral znode") }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
