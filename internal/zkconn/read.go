package zkconn

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
)

// Node is a znode's data and Stat.
type Node struct {
	Data []byte // nil if the znode has null data
	Stat *zk.Stat
}

func (a *answer) node() Node {
	n := Node{Data: a.Buffer()}
	n.Stat = a.Stat()
	return n
}

// names reads the names of a znode's children. It sets an error if a name cannot be that of a
// child, because the path with this name would be malformed or refer to another znode.
func (a *answer) names() []string {
	names := a.Strings()
	for _, name := range names {
		if name == "" || name == "." || name == ".." || strings.IndexByte(name, '/') >= 0 {
			a.err = fmt.Errorf("the server sent a malformed reply: %.200q is not a valid name for a child", name)
			return nil
		}
	}
	return names
}

// A Listing contains the names of one znode's children, or the error of reading them.
type Listing struct {
	Names []string
	Err   error
}

// A Reading contains the data and Stat of one znode, or the error of reading them.
type Reading struct {
	Node
	Err error
}

// request returns an operation whose request consists of a path and the fields that the function
// rest writes. rest may be nil. The result of the operation is decoded by decode.
func request[T any](code int32, path string, decode func(*answer) T, rest func(*jute.Encoder)) Op[T] {
	o := operation{code: code, path: path, write: jute.Writes(code), err: ValidatePath(path, false), rest: rest}
	return Op[T]{o, decode}
}

// reading returns an operation whose request consists of a path and the watch flag false. The
// operation sets no watch.
func reading[T any](code int32, path string, decode func(*answer) T) Op[T] {
	return request(code, path, decode, unwatched)
}

func watched(e *jute.Encoder)   { e.Bool(true) }
func unwatched(e *jute.Encoder) { e.Bool(false) }

// Watch returns an operation like o that also sets a watch on the znode, or o itself if wanted is
// false. The next event of the watch is added to the Session's Events. Only GetData, Exists,
// GetChildren and List can set a watch. If the znode does not exist, Exists sets a watch for its
// creation.
func (o Op[T]) Watch(wanted bool) Op[T] { return o.watch(userWatcher(wanted)) }

// Wake returns an operation like o that also sets a watch on the znode, or o itself if wake is nil.
// The type of the next event is sent to wake, unless the channel is full. The event is not added to
// the Session's Events.
func (o Op[T]) Wake(wake chan<- zk.EventType) Op[T] { return o.watch(channelWatcher(wake)) }

func (o Op[T]) watch(w watcher) Op[T] {
	if w == nil {
		return o
	}
	code, path, kind := o.code, o.path, dataWatch
	switch code {
	case jute.OpGetData, jute.OpExists:
	case jute.OpGetChildren, jute.OpGetChildren2:
		kind = childWatch
	default:
		panic("zkconn: an operation that leaves no watch: " + strconv.Itoa(int(code)))
	}
	o.rest = watched
	o.effect = func(l *link, a *answer) {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case a.code == codeOK:
			w(l, watchKey{kind, a.root.server(path)})
		case a.code == NoNode && code == jute.OpExists:
			w(l, watchKey{existWatch, a.root.server(path)})
		}
	}
	return o
}

// GetData reads a znode's data and Stat.
func GetData(path string) Op[Node] { return reading(jute.OpGetData, path, (*answer).node) }

// Exists reads a znode's Stat. On most servers this needs no permission.
func Exists(path string) Op[*zk.Stat] { return reading(jute.OpExists, path, (*answer).Stat) }

// GetChildren reads the names of a znode's children, in the server's order.
func GetChildren(path string) Op[[]string] {
	return reading(jute.OpGetChildren, path, (*answer).names)
}

// Listed contains the names of a znode's children and the znode's Stat.
type Listed struct {
	Names []string
	Stat  *zk.Stat
}

// List reads the names of a znode's children, in the server's order, and the znode's Stat.
func List(path string) Op[Listed] {
	return reading(jute.OpGetChildren2, path, func(a *answer) Listed {
		names := a.names()
		return Listed{names, a.Stat()}
	})
}

// Access contains a znode's access control list and Stat. Callers must not change the list,
// because several answers may share it.
type Access struct {
	ACL  []zk.ACL
	Stat *zk.Stat
}

// accessList reads an ACL. If it equals the previous ACL, accessList returns the same slice, to
// save memory: most znodes of a tree have one of a few ACLs.
func (a *answer) accessList() []zk.ACL {
	b := a.Rest()
	if a.acl != nil && bytes.HasPrefix(b, a.aclBytes) {
		a.Next(b[len(a.aclBytes):])
		return a.acl
	}
	acl := a.ACL()
	if a.Err() == nil {
		a.acl, a.aclBytes = acl, b[:len(b)-len(a.Rest())]
	}
	return acl
}

// GetACL reads a znode's access control list and Stat.
func GetACL(path string) Op[Access] {
	return request(jute.OpGetACL, path, func(a *answer) Access {
		return Access{a.accessList(), a.Stat()}
	}, nil)
}

// GetAllChildrenNumber reads the number of a znode's descendants. Servers before 3.6 answer
// Unimplemented and close the connection.
func GetAllChildrenNumber(path string) Op[int] {
	return request(jute.OpGetAllChildrenNumber, path, func(a *answer) int { return int(a.Int()) }, nil)
}

// GetEphemerals reads the paths of the session's ephemeral znodes that begin with prefix, and
// returns them sorted. With a chroot such as /app, the server also returns paths outside the chroot
// that begin with the same characters, such as /app2/a. GetEphemerals drops these paths.
func GetEphemerals(prefix string) Op[[]string] {
	return request(jute.OpGetEphemerals, prefix, func(a *answer) []string {
		paths := slices.DeleteFunc(a.Strings(), func(p string) bool { return !a.root.holds(p) })
		slices.Sort(a.root.clients(paths))
		return paths
	}, nil)
}

// An Identity is one of a session's identities, which come from credentials and from the client's
// address.
type Identity struct {
	Scheme string `json:"scheme"`
	User   string `json:"user"`
}

// WhoAmI reads the identities of the session, and returns them sorted. Servers before 3.7 answer
// Unimplemented and close the connection.
func WhoAmI() Op[[]Identity] {
	o := operation{code: jute.OpWhoAmI, encode: func(*jute.Encoder, chroot) {}}
	return Op[[]Identity]{o, func(a *answer) (ids []Identity) {
		for range a.Count(8, 2*jute.StringCost) {
			ids = append(ids, Identity{Scheme: a.String(), User: a.String()})
		}
		slices.SortFunc(ids, func(x, y Identity) int {
			return cmp.Or(strings.Compare(x.Scheme, y.Scheme), strings.Compare(x.User, y.User))
		})
		return ids
	}}
}

// Zxid reads the zxid of the latest transaction that the server has applied. The result may be
// slightly out of date. The request is an exists for the root of the ensemble, even if there is a
// chroot.
func Zxid() Op[int64] {
	o := reading(jute.OpExists, "/", func(a *answer) int64 { return a.zxid })
	o.encode = func(e *jute.Encoder, _ chroot) { e.String("/"); e.Bool(false) }
	return o
}

// Sync waits until the server has caught up with the leader.
func Sync(path string) Op[struct{}] { return request(jute.OpSync, path, (*answer).nothing, nil) }

// AddWatch sets a persistent watch on a znode, or on the whole subtree if recursive is true.
// Servers before 3.6 answer Unimplemented and close the connection.
func AddWatch(path string, recursive bool) Op[struct{}] {
	kind, mode := persistentWatch, int32(0)
	if recursive {
		kind, mode = recursiveWatch, 1
	}
	o := request(jute.OpAddWatch, path, (*answer).nothing, func(e *jute.Encoder) { e.Int(mode) })
	o.effect = func(l *link, a *answer) {
		if a.code == codeOK {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.watches.addMode(kind, a.root.server(path))
		}
	}
	return o
}

// MultiGetChildren reads the children of many znodes with one multiRead, which needs ZooKeeper
// 3.6 or later. The result has one Listing for each path.
func MultiGetChildren(paths []string) Op[[]Listing] {
	return multiRead(jute.OpGetChildren, paths, func(a *answer, err error) Listing {
		if err != nil {
			return Listing{Err: err}
		}
		return Listing{Names: a.names()}
	})
}

// MultiGetData reads the data of many znodes with one multiRead, which needs ZooKeeper 3.6 or
// later. The result has one Reading for each path. The server sends the data of all znodes in one
// reply.
func MultiGetData(paths []string) Op[[]Reading] {
	return multiRead(jute.OpGetData, paths, func(a *answer, err error) Reading {
		if err != nil {
			return Reading{Err: err}
		}
		return Reading{Node: a.node()}
	})
}

// multiRead returns an operation that sends a multiRead with one read of the given opcode for each
// path. The function decodeOne decodes each result. Its error parameter is the server's refusal of
// that read, or nil.
func multiRead[T any](code int32, paths []string, decodeOne func(*answer, error) T) Op[[]T] {
	o := operation{code: jute.OpMultiRead, path: paths[0],
		encode: func(e *jute.Encoder, root chroot) {
			size := 0
			for _, path := range paths {
				size += len(path) + len(root) + 14
			}
			e.B = slices.Grow(e.B, size+9)
			for _, path := range paths {
				e.MultiHeader(code, false, -1)
				e.String(root.server(path))
				e.Bool(false)
			}
			e.MultiHeader(-1, true, -1)
		},
	}
	return Op[[]T]{o, func(a *answer) []T {
		out := make([]T, len(paths))
		a.more = len(paths)
		for i, path := range paths {
			var err error
			switch op, _, failed := a.MultiPart(); {
			case op == opError:
				err = a.root.refusal(Code(a.Int()), kind{code: code, path: path})
			case failed != 0: // servers of other products report the error in the header, without a body
				err = a.root.refusal(Code(failed), kind{code: code, path: path})
			}
			out[i] = decodeOne(a, err)
		}
		return out
	}}
}
