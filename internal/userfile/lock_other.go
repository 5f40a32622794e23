//go:build (!unix && !windows) || aix || solaris

package userfile

import (
	"errors"
	"os"
)

const noFollow = 0

// Lock fails: zksh cannot lock files on this system.
func Lock(*os.File, bool) (taken bool, err error) {
	return false, errors.New("zksh cannot lock files on this system")
}

// Unlock does nothing, because Lock never succeeds.
func Unlock(*os.File) error { return nil }

func owner(os.FileInfo) (uid uint32, other bool) { return 0, false }

// rename renames from to to, and replaces an existing file.
func rename(from, to string, _ []byte) error { return os.Rename(from, to) }

// SyncDir does nothing: only Unix syncs the names of files separately.
func SyncDir(string) error { return nil }
