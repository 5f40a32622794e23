package zktree

import (
	"fmt"

	"github.com/zksh/zksh/internal/jute"
)

// Limits of the folders on the way to a znode, in bytes, as a walk has them all in memory:
// of their paths, 1400 levels with names of 30 characters, and of the names of their
// children, a million and a half.
const (
	maxPaths = 32 << 20
	maxNames = 96 << 20
)

// tooDeep reports whether a walk is not to go further down.
func tooDeep(f *folder) bool {
	return len(f.path) > jute.MaxPath || f.depth > jute.MaxLevels || f.paths > maxPaths || f.namesCost > maxNames
}

// tooDeepError says that a walk came to a znode that is further down than any tree goes. A
// server that is at fault, or hostile, may go on for ever.
type tooDeepError struct {
	Root   string
	Levels int // of the znode below the root
	Bytes  int // of its path
}

func (e *tooDeepError) Error() string {
	return fmt.Sprintf("the tree below %s is too deep: zksh found a znode %d levels down, with a path of %d bytes; the limits are %d levels, %d bytes for a path, and %d MiB of paths and %d MiB of names on the way to a znode",
		e.Root, e.Levels, e.Bytes, jute.MaxLevels, jute.MaxPath, maxPaths>>20, maxNames>>20)
}
