package zkconn

import (
	"cmp"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
)

// Node is a znode's data and Stat.
type Node struct {
	Data []byte // nil when it has none (null)
	Stat *zk.Stat
}

// Identity is one authentication of the session.
type Identity struct {
	Scheme string `json:"scheme"`
	User   string `json:"user"`
}

// Listing is the children of one znode, or why they could not be read.
type Listing struct {
	Names []string
	Err   error
}

type family struct {
	names []string
	stat  *zk.Stat
}

type access struct {
	list []zk.ACL
	stat *zk.Stat
}

// asking is an operation whose request is a path.
func asking[T any](code int32, path string, decode func(*answer) (T, error)) op[T] {
	return op[T]{
		code: code, path: path, err: ValidatePath(path, false), decode: decode,
		encode: func(e *jute.Encoder, root chroot) { e.String(root.server(path)) },
	}
}

// watching is an operation whose request is a path and whether to leave a watch.
// The watch is on the creation when exists finds no znode.
func watching[T any](code int32, path string, w watcher, kind watchKind, decode func(*answer) (T, error)) op[T] {
	o := asking(code, path, decode)
	o.encode = func(e *jute.Encoder, root chroot) {
		e.String(root.server(path))
		e.Bool(w != nil)
	}
	if w == nil {
		return o
	}
	o.effect = func(l *link, a *answer) {
		switch {
		case a.code == OK:
			w(l, watchKey{kind, a.root.server(path)})
		case a.code == NoNode && code == jute.OpExists:
			w(l, watchKey{existWatch, a.root.server(path)})
		}
	}
	return o
}

func getData(path string, w watcher) op[Node] {
	return watching(jute.OpGetData, path, w, dataWatch, readNode)
}

func exists(path string, w watcher) op[*zk.Stat] {
	return watching(jute.OpExists, path, w, dataWatch, readStat)
}

func getChildren(path string, w watcher) op[[]string] {
	return watching(jute.OpGetChildren, path, w, childWatch, readNames)
}

func getChildren2(path string, w watcher) op[family] {
	return watching(jute.OpGetChildren2, path, w, childWatch, func(a *answer) (family, error) {
		f := family{names: a.Strings()}
		f.stat = stat(a)
		return f, nil
	})
}

func getACL(path string) op[access] {
	return asking(jute.OpGetACL, path, func(a *answer) (access, error) {
		n := a.Count(12)
		acl := make([]zk.ACL, 0, n)
		for range n {
			acl = append(acl, zk.ACL{Perms: a.Int(), Scheme: a.String(), ID: a.String()})
		}
		return access{acl, stat(a)}, nil
	})
}

func countChildren(path string) op[int] {
	return asking(jute.OpGetAllChildrenNumber, path, func(a *answer) (int, error) { return int(a.Int()), nil })
}

// getEphemerals drops what is outside the chroot: to the server a bare chroot is
// a prefix of its siblings' names too.
func getEphemerals(prefix string) op[[]string] {
	return asking(jute.OpGetEphemerals, prefix, func(a *answer) ([]string, error) {
		paths := slices.DeleteFunc(a.Strings(), func(p string) bool { return !a.root.holds(p) })
		paths = a.root.clients(paths)
		slices.Sort(paths)
		return paths, nil
	})
}

func syncPath(path string) op[struct{}] { return asking(jute.OpSync, path, readNothing) }

func whoAmI() op[[]Identity] {
	return op[[]Identity]{
		code: jute.OpWhoAmI, encode: func(*jute.Encoder, chroot) {},
		decode: func(a *answer) ([]Identity, error) {
			var ids []Identity
			for range a.Count(8) {
				ids = append(ids, Identity{Scheme: a.String(), User: a.String()})
			}
			slices.SortFunc(ids, func(x, y Identity) int {
				return cmp.Or(strings.Compare(x.Scheme, y.Scheme), strings.Compare(x.User, y.User))
			})
			return ids, nil
		},
	}
}

// multiChildren lists many znodes by one multiRead.
func multiChildren(paths []string) op[[]Listing] {
	return op[[]Listing]{
		code: jute.OpMultiRead, path: paths[0],
		encode: func(e *jute.Encoder, root chroot) {
			for _, path := range paths {
				multiHeader(e, jute.OpGetChildren, false)
				e.String(root.server(path))
				e.Bool(false)
			}
			multiHeader(e, -1, true)
		},
		decode: func(a *answer) ([]Listing, error) {
			out := make([]Listing, len(paths))
			for i := range out {
				if kind := resultKind(a); kind == -1 {
					out[i].Err = a.root.refusal(Code(a.Int()), jute.OpGetChildren, paths[i])
					continue
				}
				out[i].Names = a.Strings()
			}
			return out, nil
		},
	}
}

func readNode(a *answer) (Node, error) {
	n := Node{Data: a.Buffer()}
	n.Stat = stat(a)
	return n, nil
}

func readStat(a *answer) (*zk.Stat, error) { return stat(a), nil }

func readNames(a *answer) ([]string, error) { return a.Strings(), nil }

func readNothing(*answer) (struct{}, error) { return struct{}{}, nil }

func stat(a *answer) *zk.Stat {
	return &zk.Stat{
		Czxid: a.Long(), Mzxid: a.Long(), Ctime: a.Long(), Mtime: a.Long(),
		Version: a.Int(), Cversion: a.Int(), Aversion: a.Int(),
		EphemeralOwner: a.Long(), DataLength: a.Int(), NumChildren: a.Int(), Pzxid: a.Long(),
	}
}
