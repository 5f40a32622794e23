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

// A Tree is a root path and the znodes at and below it.
type Tree struct {
	Root  string
	Nodes dump.Znodes
}

// ServerTree returns the subtree at root on the server of c. The znodes are read during the
// iteration over the tree. progress is called with the number of znodes read so far.
func ServerTree(ctx context.Context, c zkconn.Client, root string, progress Progress) Tree {
	return Tree{root, func(yield func(*dump.Znode, error) bool) {
		all, err := Walk(ctx, c, root, Options{Data: true, ACL: true, Shut: true, Progress: progress})
		if err != nil {
			yield(nil, err)
			return
		}
		all(yield)
	}}
}

// Rebase returns the path that a znode at or below the path from has after from was replaced by to.
func Rebase(path, from, to string) string {
	if path == from {
		return to
	}
	return strings.TrimSuffix(to, "/") + strings.TrimPrefix(path, strings.TrimSuffix(from, "/"))
}

// OrEmpty returns a tree like t that is empty, instead of ending with an error, if the root does
// not exist.
func (t Tree) OrEmpty() Tree {
	return Tree{t.Root, func(yield func(*dump.Znode, error) bool) {
		for z, err := range t.Nodes {
			if z == nil && errors.Is(err, zkconn.NoNode) || !yield(z, err) {
				return
			}
		}
	}}
}

// ChildrenFirst yields the same znodes, but each of them after its descendants.
func ChildrenFirst(all dump.Znodes) dump.Znodes {
	return func(yield func(*dump.Znode, error) bool) {
		type visit struct {
			z       *dump.Znode
			refusal error
		}
		var way []visit // the latest znode, preceded by its ancestors
		leave := func() bool {
			last := way[len(way)-1]
			way = way[:len(way)-1]
			return yield(last.z, last.refusal)
		}
		for z, err := range all {
			if z == nil {
				yield(nil, err)
				return
			}
			for len(way) > 0 && !dump.Within(z.Path, way[len(way)-1].z.Path) {
				if !leave() {
					return
				}
			}
			way = append(way, visit{z, err})
		}
		for len(way) > 0 && leave() {
		}
	}
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

// Znodes returns a number of znodes as text, such as "1 znode" or "2 znodes".
func Znodes(n int) string { return count(n, "znode") }

// Ephemerals returns a number of ephemeral znodes as text, such as "1 ephemeral znode" or "2
// ephemeral znodes".
func Ephemerals(n int) string { return count(n, "ephemeral znode") }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
