//go:build !windows

package peer

import "syscall"

var (
	refused = []error{syscall.ECONNREFUSED}
	gone    = []error{syscall.ECONNRESET, syscall.EPIPE}
)
