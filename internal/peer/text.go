package peer

import "fmt"

// Printable escapes control characters, and all others that a terminal might interpret, in text that
// the other end of a connection has sent.
func Printable(s string) string {
	q := fmt.Sprintf("%q", s)
	return q[1 : len(q)-1]
}
