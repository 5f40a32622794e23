// Package dump has the forms in which trees of znodes are kept outside of a server: our
// own, those of other programs, and ZooKeeper's own snapshots. Each is read as a Tree,
// which is nothing before all of the file has been looked at.
package dump

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
)

// Znode is a znode with all that a form keeps of it.
type Znode struct {
	Path string // absolute, where it was
	Kind Kind
	TTL  time.Duration // of Kind TTL
	Data []byte        // nil: null
	ACL  []zk.ACL      // nil: unknown
	Stat *zk.Stat      // nil: unknown
}

// Kind is what becomes of a znode by itself. A server tells only the ephemeral ones apart:
// from outside containers and those with a TTL look persistent.
type Kind int

// The kinds of znodes.
const (
	Persistent Kind = iota
	Ephemeral
	Container
	TTL
)

var kindNames = []string{"persistent", "ephemeral", "container", "ttl"}

func (k Kind) String() string { return kindNames[k] }

// MarshalText is for JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is for JSON.
func (k *Kind) UnmarshalText(text []byte) error {
	i := slices.Index(kindNames, string(text))
	if i < 0 {
		return fmt.Errorf("unknown kind of znode: %q", text)
	}
	*k = Kind(i)
	return nil
}

// KindOf is the kind of a znode as its Stat from a server tells it.
func KindOf(st *zk.Stat) Kind {
	if st != nil && st.EphemeralOwner != 0 {
		return Ephemeral
	}
	return Persistent
}

// Header says where a dump comes from.
type Header struct {
	Root   string // the path of its topmost znode
	Server string // or the connect string; may be empty
	Zxid   int64  // of the server's last change at the start; 0: unknown
	Time   time.Time
	// LeftOut says what was left out on purpose, such as "ephemeral znodes".
	LeftOut []string
}

// Trailer says how a dump ended.
type Trailer struct {
	Zxid   int64    // of the server's last change at the end; 0: unknown
	Unread []string // paths that could not be read, and what is below them; the first of them
	Missed int      // how many these are
}

// Form is a form in which trees are kept.
type Form string

// The forms. ZkShell, Navigator and Snapshot, which is ZooKeeper's own, are only read.
const (
	Lines     Form = "zksh" // our own, JSON lines
	Zoocreep  Form = "zoocreeper"
	ZkShell   Form = "zkshell"
	Navigator Form = "zoonavigator"
	Dir       Form = "dir"
	Snapshot  Form = "snapshot"
)

// Written are the names of the forms that can be written.
func Written() []string {
	return []string{string(Lines), string(Zoocreep), string(Dir)}
}

// ParseForm reads the name of a form that can be written.
func ParseForm(name string) (Form, error) {
	if slices.Contains(Written(), name) {
		return Form(name), nil
	}
	if f := Form(name); f == ZkShell || f == Navigator || f == Snapshot {
		return "", fmt.Errorf("zksh can read the format %s but cannot write it; the formats are %s", name, strings.Join(Written(), ", "))
	}
	return "", fmt.Errorf("unknown format %q; the formats are %s", name, strings.Join(Written(), ", "))
}

// maxTTL is the longest time to live, in ms.
const maxTTL = 1<<40 - 1

// maxData bounds the data of a single znode, of which servers take about a megabyte
// unless they are told otherwise.
const maxData = 16 << 20

// maxEntry bounds how much of a file stands for a single znode.
const maxEntry = maxData/3*4 + 1<<20

// checkPath tells what is wrong with a znode's path.
func checkPath(path string) error {
	if path == "/" {
		return nil
	}
	why := "a path must begin with /"
	switch {
	case !strings.HasPrefix(path, "/"):
	case len(path) > jute.MaxPath:
		why = fmt.Sprintf("it is %d bytes long, and the limit is %d", len(path), jute.MaxPath)
	case strings.Count(path, "/") > jute.MaxLevels:
		why = fmt.Sprintf("it is %d levels deep, and the limit is %d", strings.Count(path, "/"), jute.MaxLevels)
	default:
		if _, why = jute.PathFault(path); why == "" {
			return nil
		}
	}
	return fmt.Errorf("invalid znode path %q: %s", shorten(path), why)
}

// shorten cuts what an error names.
func shorten(s string) string {
	if most := 200; len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// Parent is the path above another; "" above the root.
func Parent(path string) string {
	switch at := strings.LastIndexByte(path, '/'); {
	case path == "/":
		return ""
	case at == 0:
		return "/"
	default:
		return path[:at]
	}
}
