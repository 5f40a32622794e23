package zktree

import (
	"fmt"

	"github.com/zksh/zksh/internal/jute"
)

// Limits for the ancestors of a znode, in bytes. A walk holds all ancestors in memory.
const (
	maxPaths = 32 << 20 // for their paths: about 1400 levels with names of 30 characters
	maxNames = 96 << 20 // for the names of their children: about 1.5 million names
)

// tooDeep reports whether a folder exceeds a limit. A walk must not descend into such a folder.
func tooDeep(f *folder) bool {
	return len(f.path) > jute.MaxPath || f.depth > jute.MaxLevels || f.paths > maxPaths || f.namesCost > maxNames
}

// A tooDeepError reports that a walk reached a znode at a greater depth than any real tree has.
// A faulty or hostile server could invent ever deeper znodes.
type tooDeepError struct {
	Root   string
	Levels int // depth of the znode below the root
	Bytes  int // length of its path
}

func (e *tooDeepError) Error() string {
	return fmt.Sprintf("the tree below %s is too deep: zksh found a znode %d levels down, with a path of %d bytes; the limits are %d levels, %d bytes for a path, and %d MiB of paths and %d MiB of names on the way to a znode",
		e.Root, e.Levels, e.Bytes, jute.MaxLevels, jute.MaxPath, maxPaths>>20, maxNames>>20)
}
