package peer

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// Errors that each of the functions recognizes. Windows has its own error numbers, but some
// functions of Go's standard library return numbers that package syscall invented. Therefore each
// list contains both.
var (
	refused = []error{windows.WSAECONNREFUSED, syscall.ECONNREFUSED}
	cut     = []error{windows.WSAECONNRESET, windows.WSAECONNABORTED, syscall.ECONNRESET}
	unread  = []error{windows.ERROR_BROKEN_PIPE, windows.ERROR_NO_DATA, windows.ERROR_PIPE_NOT_CONNECTED, syscall.EPIPE}
)
