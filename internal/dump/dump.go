// Package dump reads and writes trees of znodes in files, for export, import and commands that
// read files. It supports zksh's own format, and ZooKeeper's own snapshots and transaction logs.
//
// Open detects the format and returns a Tree, but only after it has checked that the complete
// file is intact. Create returns a Writer for zksh's own format. OpenLog reads the transactions of
// a log. Start reading at Open and Tree; lines.go describes zksh's own format.
package dump

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
)

// Znodes is a sequence of the znodes of a tree, in a file or on a server. A znode comes before its
// descendants, and siblings are sorted by name; see InOrder.
//
// An unreadable znode comes together with the reason as an error, and without its descendants. Only its
// path is certain to be set. Any other error comes last, with a nil znode.
type Znodes = iter.Seq2[*Znode, error]

// A Znode contains everything that a file or a server reveals about a znode.
type Znode struct {
	Path string // absolute path on the server
	Kind Kind
	TTL  time.Duration // time to live, for the kind TTL
	Data []byte        // nil for null data, which differs from empty data
	ACL  []zk.ACL      // nil if unknown
	Stat *zk.Stat      // nil if unknown

	Children []string // sorted names of the children, for a znode on a server whose children were read
}

// A Kind is the kind of a znode, which determines when the server deletes it. Servers show to
// clients only whether a znode is ephemeral. Containers and znodes with a TTL look like persistent
// ones.
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

// MarshalText implements encoding.TextMarshaler, for JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler, for JSON.
func (k *Kind) UnmarshalText(text []byte) error {
	i := slices.Index(kindNames, string(text))
	if i < 0 {
		return fmt.Errorf("unknown kind of znode: %q", text)
	}
	*k = Kind(i)
	return nil
}

// KindOf returns Ephemeral or Persistent, the only kinds that a Stat from a server distinguishes.
func KindOf(st *zk.Stat) Kind {
	if st != nil && st.EphemeralOwner != 0 {
		return Ephemeral
	}
	return Persistent
}

// A Header describes where a dump comes from.
type Header struct {
	Root   string // path of the znode at the top of the tree
	Server string // server or connect string, or empty if unknown
	Zxid   int64  // server's last zxid when the export started, or 0 if unknown
	Time   time.Time
	// LeftOut describes the znodes that were skipped on purpose, such as "ephemeral znodes".
	LeftOut []string
}

// A Trailer describes the state at the end of an export.
type Trailer struct {
	Zxid   int64    // server's last zxid when the export ended, or 0 if unknown
	Unread []string // roots of the first subtrees that could not be read
	Missed int      // total number of subtrees that could not be read
}

// Lacks returns an error if some znodes could not be read when the file was written. A znode that
// is missing in such a file may nevertheless have existed on the server.
func (t Trailer) Lacks() error {
	switch n := t.Missed; n {
	case 0:
		return nil
	case 1:
		return errors.New("the file is incomplete: 1 znode and its descendants could not be read when it was written")
	default:
		return fmt.Errorf("the file is incomplete: %d znodes and their descendants could not be read when it was written", n)
	}
}

// maxTTL is the longest time to live that a znode can have, in milliseconds.
const maxTTL = 1<<40 - 1

// maxData is the maximum size of a single znode's data, in bytes. By default, servers accept only
// about a megabyte.
const maxData = 16 << 20

// maxLine is the maximum length of a line in zksh's own format, in bytes. It allows for data in
// base64.
const maxLine = maxData/3*4 + 1<<20

// checkZnode returns an error if a znode in a file has an invalid path or too much data.
func checkZnode(z *Znode) error {
	if err := checkPath(z.Path); err != nil {
		return err
	}
	if len(z.Data) > maxData {
		return fmt.Errorf("the data of %s (%d bytes) exceeds the limit of %d bytes", z.Path, len(z.Data), maxData)
	}
	return nil
}

// checkPath returns an error if a znode's path is invalid.
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

// shorten truncates a long string for an error message.
func shorten(s string) string {
	if most := 200; len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// Depth returns the number of levels between / and the znode at path.
func Depth(path string) int {
	if path == "/" {
		return 0
	}
	return strings.Count(path, "/")
}

// Parent returns the path of a znode's parent, or an empty string for the root.
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
