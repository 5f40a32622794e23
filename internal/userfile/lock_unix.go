//go:build unix && !aix && !solaris

package userfile

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// noFollow makes open fail on a symbolic link.
const noFollow = unix.O_NOFOLLOW

// Lock takes the advisory lock on an open file, for this descriptor alone or shared
// with others, and reports whether it was free. Closing the file releases it.
func Lock(f *os.File, shared bool) (taken bool, err error) {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return err == nil, err
}

// Unlock releases the lock.
func Unlock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// owner returns the user a file belongs to if that is somebody else.
func owner(info os.FileInfo) (uid uint32, other bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return stat.Uid, int(stat.Uid) != os.Geteuid()
}

// rename puts the file from, which holds data, in the place of another.
func rename(from, to string, _ []byte) error { return os.Rename(from, to) }

// SyncDir has the names of the files in a folder on the disk, as File.Sync has what is in
// them.
func SyncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
