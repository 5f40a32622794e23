package userfile

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

const noFollow = 0

// lockRegion returns the position of the byte that Lock locks. Windows prevents other processes
// from reading locked bytes, so the position is far beyond the end of any file.
func lockRegion() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1 << 30} }

// Lock tries to acquire a lock on an open file, without waiting. shared selects a shared lock
// instead of an exclusive one. taken reports whether Lock acquired the lock. Closing the file
// releases it.
func Lock(f *os.File, shared bool) (taken bool, err error) {
	how := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if !shared {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err = windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, lockRegion())
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

// Unlock releases the lock on an open file.
func Unlock(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, lockRegion())
}

// owner returns no user ID, because on Windows the permissions of the directory determine who can
// read a file.
func owner(os.FileInfo) (uid uint32, known bool) { return 0, false }

// rename renames the file oldName to newName, and replaces an existing file newName. Windows cannot
// replace a file that another process has open, such as a file that several shells share. In that
// case, rename overwrites the open file with data, the new contents, so that the file is incomplete
// for a moment.
func rename(oldName, newName string, data []byte) error {
	err := os.Rename(oldName, newName)
	if !errors.Is(err, windows.ERROR_ACCESS_DENIED) && !errors.Is(err, windows.ERROR_SHARING_VIOLATION) {
		return err
	}
	if err := os.WriteFile(newName, data, 0o600); err != nil {
		return err
	}
	return os.Remove(oldName)
}

// SyncDir does nothing. On Unix, it makes sure that the names in a directory are on the disk; on
// Windows, this is not necessary.
func SyncDir(string) error { return nil }
