package zktree

import (
	"fmt"

	"github.com/zksh/zksh/internal/jute"
)

// Limits on the memory for the ancestors of a znode, in bytes. A walk holds all of them in memory.
const (
	maxPaths = 32 << 20 // for the ancestors' paths: about 1400 levels with names of 30 characters
	maxNames = 96 << 20 // for the names of the ancestors' children: about 1.5 million names
)

// tooDeep reports whether a folder exceeds a limit on its depth or memory. A walk does not visit
// the children of such a folder.
func (f *folder) tooDeep(path string) bool {
	return len(path) > jute.MaxPath || f.depth-1 > jute.MaxLevels || f.paths > maxPaths || f.names > maxNames
}

// A tooDeepError reports that a znode is deeper in the tree than in any realistic tree. A faulty or
// hostile server could invent ever deeper znodes.
type tooDeepError struct {
	Root   string
	Levels int // depth of the znode below the root of the walk
	Bytes  int // length of the znode's path
}

func (e *tooDeepError) Error() string {
	return fmt.Sprintf("the tree below %s is too deep: zksh found a znode %d levels down, with a path of %d bytes; the limits are %d levels, %d bytes for a path, and %d MiB of paths and %d MiB of names on the way to a znode",
		e.Root, e.Levels, e.Bytes, jute.MaxLevels, jute.MaxPath, maxPaths>>20, maxNames>>20)
}
