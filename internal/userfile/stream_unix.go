//go:build unix && !aix && !solaris

package userfile

import (
	"os"

	"golang.org/x/sys/unix"
)

const hasStreams = true

// openStream returns a new File for the open file with the number fd. Closing it leaves fd open. It
// returns an error unless this process has inherited fd: its own files and connections are out of
// the user's reach.
func openStream(fd int, name string) (*os.File, error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err == nil && flags&unix.FD_CLOEXEC != 0 { // an inherited file cannot have this flag
		err = unix.EBADF
	}
	if err == nil {
		fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}
