package dump

import "fmt"

// Limits on the size of a Tree in memory and, separately, in the temporary file. The limit grows
// with the compressed size of the file, so that a small file cannot expand without bounds.
const (
	minSize     = 32 << 20 // size that every tree may have, in bytes
	sizePerByte = 50       // additional bytes for each byte of the file
	maxMemory   = 96 << 20 // upper bound of the limit in memory, in bytes
	maxSpool    = 16 << 30 // upper bound of the limit in the temporary file, in bytes
)

// checkSize returns an error if the size of a tree exceeds the limit. By default, the limit depends
// on the size of the file, and is at most maximum. The user can set another limit. where is a part
// of the error message, such as "in memory".
func (c *sourceFile) checkSize(size, maximum int64, where string) error {
	limit := min(maximum, minSize+sizePerByte*c.bytes)
	if c.maxSize > 0 {
		limit = c.maxSize
	}
	if size <= limit {
		return nil
	}
	return fmt.Errorf("the file expands to more than %d MiB %s, too much for the %d bytes of it that zksh has read; if you trust the file, raise the limit with --max-size",
		limit>>20, where, c.bytes)
}
