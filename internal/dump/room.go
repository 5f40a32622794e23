package dump

import "fmt"

// What a Tree may take, in memory and, separately, in the temporary file: that grows with
// its file, and far less with one that is compressed than compression can make of it.
const (
	roomAtLeast = 32 << 20
	roomPerByte = 50
	roomAtMost  = 96 << 20 // in memory
	spoolAtMost = 16 << 30 // in the temporary file
)

// room is an error if a tree takes more bytes than its file may.
func (c *counted) room(taken, atMost int64, where string) error {
	most := min(atMost, roomAtLeast+roomPerByte*c.bytes)
	if c.most > 0 {
		most = c.most
	}
	if taken <= most {
		return nil
	}
	return fmt.Errorf("the file expands to more than %d MiB %s, too much for the %d bytes of it that zksh has read; if you trust the file, raise the limit with --max-size",
		most>>20, where, c.bytes)
}
