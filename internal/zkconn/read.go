package zkconn

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
)

// Node is a znode's data and Stat.
type Node struct {
	Data []byte // nil when it has none (null)
	Stat *zk.Stat
}

func (a *answer) node() Node {
	n := Node{Data: a.Buffer()}
	n.Stat = a.stat()
	return n
}

// Listing is the children of one znode, or why they could not be read.
type Listing struct {
	Names []string
	Err   error
}

// Reading is one znode, or why it could not be read.
type Reading struct {
	Node
	Err error
}

// asking is an operation whose request is a path and what stands behind it.
func asking[T any](code int32, path string, decode func(*answer) T, rest ...func(*jute.Encoder)) op[T] {
	return op[T]{
		code: code, path: path, err: ValidatePath(path, false), decode: decode,
		encode: func(e *jute.Encoder, root chroot) {
			e.String(root.server(path))
			for _, write := range rest {
				write(e)
			}
		},
	}
}

// watching is an operation whose request is a path and whether to leave a watch.
// The watch is on the creation when exists finds no znode.
func watching[T any](code int32, path string, w watcher, kind watchKind, decode func(*answer) T) op[T] {
	o := asking(code, path, decode, func(e *jute.Encoder) { e.Bool(w != nil) })
	if w == nil {
		return o
	}
	o.effect = func(l *link, a *answer) {
		switch {
		case a.code == codeOK:
			w(l, watchKey{kind, a.root.server(path)})
		case a.code == NoNode && code == jute.OpExists:
			w(l, watchKey{existWatch, a.root.server(path)})
		}
	}
	return o
}

func getData(path string, w watcher) op[Node] {
	return watching(jute.OpGetData, path, w, dataWatch, (*answer).node)
}

func exists(path string, w watcher) op[*zk.Stat] {
	return watching(jute.OpExists, path, w, dataWatch, (*answer).stat)
}

func getChildren(path string, w watcher) op[[]string] {
	return watching(jute.OpGetChildren, path, w, childWatch, (*answer).Strings)
}

// Listed is a znode's children and its Stat.
type Listed struct {
	Names []string
	Stat  *zk.Stat
}

func list(path string, w watcher) op[Listed] {
	return watching(jute.OpGetChildren2, path, w, childWatch, func(a *answer) Listed {
		names := a.Strings()
		return Listed{names, a.stat()}
	})
}

// access is a znode's access control list and its Stat.
type access struct {
	acl  []zk.ACL
	stat *zk.Stat
}

func getACL(path string) op[access] {
	return asking(jute.OpGetACL, path, func(a *answer) access {
		acl := []zk.ACL{}
		for range a.Count(12) {
			acl = append(acl, zk.ACL{Perms: a.Int(), Scheme: a.String(), ID: a.String()})
		}
		return access{acl, a.stat()}
	})
}

func syncPath(ctx context.Context, s sender, path string) error {
	_, err := do(ctx, s, asking(jute.OpSync, path, (*answer).nothing))
	return err
}

// multiChildren lists many znodes by one multiRead.
func multiChildren(paths []string) op[[]Listing] {
	return multiRead(jute.OpGetChildren, paths, func(a *answer, err error) Listing {
		if err != nil {
			return Listing{Err: err}
		}
		return Listing{Names: a.Strings()}
	})
}

// multiGet reads many znodes by one multiRead.
func multiGet(paths []string) op[[]Reading] {
	return multiRead(jute.OpGetData, paths, func(a *answer, err error) Reading {
		if err != nil {
			return Reading{Err: err}
		}
		return Reading{Node: a.node()}
	})
}

// multiRead asks the same of many znodes in one request. one reads what became of
// the next of them, a refusal included.
func multiRead[T any](code int32, paths []string, one func(*answer, error) T) op[[]T] {
	return op[[]T]{
		code: jute.OpMultiRead, path: paths[0],
		encode: func(e *jute.Encoder, root chroot) {
			for _, path := range paths {
				e.MultiHeader(code, false, -1)
				e.String(root.server(path))
				e.Bool(false)
			}
			e.MultiHeader(-1, true, -1)
		},
		decode: func(a *answer) []T {
			out := make([]T, len(paths))
			for i, path := range paths {
				var err error
				if a.part() == opError {
					err = a.root.refusal(Code(a.Int()), code, path)
				}
				out[i] = one(a, err)
			}
			return out
		},
	}
}
