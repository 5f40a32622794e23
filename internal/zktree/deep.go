package zktree

import (
	"fmt"

	"github.com/zksh/zksh/internal/jute"
)

// maxWay bounds the paths of the folders on the way to a znode, and the names of their
// children, in bytes: a walk has them all in memory. Two million names take as much, or
// 2500 levels with names of 30 characters.
const maxWay = 96 << 20

// tooDeep reports whether a walk is not to go further down.
func tooDeep(f *folder) bool {
	return len(f.path) > jute.MaxPath || f.depth > jute.MaxLevels || f.way > maxWay
}

// TooDeepError says that a walk came to a znode that is further down than any tree goes. A
// server that is at fault, or hostile, may go on for ever.
type TooDeepError struct {
	Root   string
	Levels int // of the znode below the root
	Bytes  int // of its path
}

func (e *TooDeepError) Error() string {
	return fmt.Sprintf("the tree below %s is too deep: it has a znode %d levels down, with a path of %d bytes; the limits are %d levels, %d bytes, and %d MiB of paths and names on the way to it",
		e.Root, e.Levels, e.Bytes, jute.MaxLevels, jute.MaxPath, maxWay>>20)
}
