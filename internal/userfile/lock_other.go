//go:build (!unix && !windows) || aix || solaris

package userfile

import (
	"errors"
	"os"
)

const noFollow = 0

// Lock is for systems where a file can be locked.
func Lock(*os.File, bool) (taken bool, err error) {
	return false, errors.New("zksh cannot lock files on this system")
}

// Unlock has nothing to release.
func Unlock(*os.File) error { return nil }

func owner(os.FileInfo) (uid uint32, other bool) { return 0, false }

// rename puts the file from, which holds data, in the place of another.
func rename(from, to string, _ []byte) error { return os.Rename(from, to) }

// SyncDir is for systems that keep the names of files apart from what is in them.
func SyncDir(string) error { return nil }
