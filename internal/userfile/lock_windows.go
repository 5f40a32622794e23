package userfile

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

const noFollow = 0

// place is the byte that stands for a file. Windows keeps others from reading what is
// locked, so it lies far behind what any file holds.
func place() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1 << 30} }

// Lock takes the lock on an open file, for this handle alone or shared with others, and
// reports whether it was free. Closing the file releases it.
func Lock(f *os.File, shared bool) (taken bool, err error) {
	how := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if !shared {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err = windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, place())
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

// Unlock releases the lock.
func Unlock(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, place())
}

// owner is for systems where a file belongs to a user by its mode; here the folder that it
// is in says who may read it.
func owner(os.FileInfo) (uid uint32, other bool) { return 0, false }

// rename puts the file from, which holds data, in the place of another. Windows takes no
// open file's place: into such a one, as shells share, the data is written, and for a
// moment it is not whole.
func rename(from, to string, data []byte) error {
	err := os.Rename(from, to)
	if !errors.Is(err, windows.ERROR_ACCESS_DENIED) && !errors.Is(err, windows.ERROR_SHARING_VIOLATION) {
		return err
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		return err
	}
	return os.Remove(from)
}

// SyncDir is for systems that keep the names of files apart from what is in them.
func SyncDir(string) error { return nil }
