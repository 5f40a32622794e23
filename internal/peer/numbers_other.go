//go:build !windows

package peer

import "syscall"

var (
	refused = []error{syscall.ECONNREFUSED}
	cut     = []error{syscall.ECONNRESET, syscall.EPIPE}
	unread  = []error{syscall.EPIPE}
)
