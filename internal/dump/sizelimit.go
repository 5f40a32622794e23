package dump

import "fmt"

// Limits of the size of a Tree in memory and, separately, in the temporary file. The limit grows
// with the compressed size of the file, so that a small file cannot expand without bounds.
const (
	minSize     = 32 << 20 // bytes allowed for any file
	sizePerByte = 50       // bytes allowed in addition for each byte of the file
	maxMemory   = 96 << 20 // maximum in memory
	maxSpool    = 16 << 30 // maximum in the temporary file
)

// checkSize returns an error if a tree takes more bytes than are allowed for its file.
func (c *sourceFile) checkSize(taken, atMost int64, where string) error {
	most := min(atMost, minSize+sizePerByte*c.bytes)
	if c.maxSize > 0 {
		most = c.maxSize
	}
	if taken <= most {
		return nil
	}
	return fmt.Errorf("the file expands to more than %d MiB %s, too much for the %d bytes of it that zksh has read; if you trust the file, raise the limit with --max-size",
		most>>20, where, c.bytes)
}
