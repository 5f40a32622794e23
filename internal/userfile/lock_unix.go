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

// Lock tries to acquire the advisory lock on an open file, without waiting. shared selects a
// shared lock instead of an exclusive one. taken reports whether Lock acquired the lock.
// Closing the file releases it.
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

// Unlock releases the lock on an open file.
func Unlock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// owner returns the user ID of a file's owner. known reports whether the file system has one.
func owner(info os.FileInfo) (uid uint32, known bool) {
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, false
	}
	return stat.Uid, true
}

// rename renames the file oldName to newName, and replaces an existing file newName. The third
// parameter is used only on Windows.
func rename(oldName, newName string, _ []byte) error { return os.Rename(oldName, newName) }

// SyncDir makes sure that the names of the files in a directory are on the disk. On Unix,
// File.Sync guarantees this only for the contents of a file.
func SyncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
