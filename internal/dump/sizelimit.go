package dump

import "fmt"

// Limits for the size of a Tree in memory and, separately, in the temporary file. The limit
// grows with the compressed size of the file, so that a small file cannot expand without bounds.
const (
	minSize     = 32 << 20 // bytes allowed for any file
	sizePerByte = 50       // additional bytes allowed for each byte of the file
	maxMemory   = 96 << 20 // maximum in memory
	maxSpool    = 16 << 30 // maximum in the temporary file
)

// checkSize returns an error if a tree is larger than its file permits. The limit never exceeds
// maximum, unless the user has set a limit.
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
