package peer

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// Windows returns its own numbers. Those of package syscall are inventions of Go, which some
// functions return.
var (
	refused = []error{windows.WSAECONNREFUSED, syscall.ECONNREFUSED}
	cut     = []error{windows.WSAECONNRESET, windows.WSAECONNABORTED, syscall.ECONNRESET}
	unread  = []error{windows.ERROR_BROKEN_PIPE, windows.ERROR_NO_DATA, windows.ERROR_PIPE_NOT_CONNECTED, syscall.EPIPE}
)
