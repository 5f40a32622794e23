package zktree

import (
	"fmt"

	"github.com/zksh/zksh/internal/jute"
)

// Limits of the ancestors of a znode, in bytes. A walk holds all of them in memory.
const (
	maxPaths = 32 << 20 // of their paths: about 1400 levels with names of 30 characters
	maxNames = 96 << 20 // of the names of their children: about a million and a half
)

// tooDeep reports whether a folder exceeds a limit, so that a walk must not descend into it.
func tooDeep(f *folder) bool {
	return len(f.path) > jute.MaxPath || f.depth > jute.MaxLevels || f.paths > maxPaths || f.namesCost > maxNames
}

// A tooDeepError reports that a walk reached a znode deeper than in any real tree. A faulty or
// hostile server may invent znodes without end.
type tooDeepError struct {
	Root   string
	Levels int // depth of the znode below the root
	Bytes  int // length of its path
}

func (e *tooDeepError) Error() string {
	return fmt.Sprintf("the tree below %s is too deep: zksh found a znode %d levels down, with a path of %d bytes; the limits are %d levels, %d bytes for a path, and %d MiB of paths and %d MiB of names on the way to a znode",
		e.Root, e.Levels, e.Bytes, jute.MaxLevels, jute.MaxPath, maxPaths>>20, maxNames>>20)
}
