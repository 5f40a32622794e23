//go:build (!unix && !windows) || aix || solaris

package userfile

import (
	"errors"
	"os"
)

const noFollow = 0

// Lock returns an error, because zksh has no implementation of file locks for systems such as
// AIX, Solaris and Plan 9.
func Lock(*os.File, bool) (taken bool, err error) {
	return false, errors.New("zksh cannot lock files on this system")
}

// Unlock does nothing. On systems such as AIX, Solaris and Plan 9, Lock never acquires a lock.
func Unlock(*os.File) error { return nil }

// owner returns no user ID, because zksh does not know how such systems store it.
func owner(os.FileInfo) (uid uint32, known bool) { return 0, false }

// rename renames the file oldName to newName, and replaces an existing file newName. The third
// parameter is used only on Windows.
func rename(oldName, newName string, _ []byte) error { return os.Rename(oldName, newName) }

// SyncDir does nothing. On systems such as Linux and macOS, it makes sure that the names in a
// directory are on the disk.
func SyncDir(string) error { return nil }
