//go:build (!unix && !windows) || aix || solaris

package userfile

import (
	"errors"
	"os"
)

const noFollow = 0

// Lock returns an error: zksh cannot lock files on this system.
func Lock(*os.File, bool) (taken bool, err error) {
	return false, errors.New("zksh cannot lock files on this system")
}

// Unlock does nothing, because Lock never succeeds.
func Unlock(*os.File) error { return nil }

func owner(os.FileInfo) (uid uint32, other bool) { return 0, false }

// rename renames a file. It replaces an existing file that has the new name.
func rename(from, to string, _ []byte) error { return os.Rename(from, to) }

// SyncDir does nothing: only Unix must sync the names of files separately from their contents.
func SyncDir(string) error { return nil }
