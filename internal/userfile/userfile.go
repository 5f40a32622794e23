// Package userfile opens files that are for one user alone, and that all shells of
// that user share, and puts new files in the place of old ones.
package userfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Open opens the file at path for reading and writing, or creates it for the user
// alone, and the directories above it if need be. It narrows wider permissions, and
// refuses what could belong to somebody else: a symbolic link, and anything that is
// not a regular file of this user. flag adds to how the file is opened, as in
// os.OpenFile.
func Open(path string, flag int) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	// Looking first keeps us from opening a FIFO or a device.
	if info, err := os.Lstat(path); err == nil {
		if err := check(path, info); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow|flag, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat() // of another file, if it has got the name meanwhile
	if err == nil {
		err = check(path, info)
	}
	if err == nil && info.Mode().Perm()&^0o600 != 0 {
		err = f.Chmod(0o600)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func check(path string, info os.FileInfo) error {
	switch {
	case info.Mode().Type() == os.ModeSymlink:
		return fmt.Errorf("%s is a symbolic link", path)
	case info.IsDir():
		return fmt.Errorf("%s is a directory", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	}
	if uid, other := owner(info); other {
		return fmt.Errorf("%s belongs to another user (uid %d)", path, uid)
	}
	return nil
}

// Replace puts a file in the place of the one at path, or leaves that as it was.
func Replace(path string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // for the user alone
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync() // or a crash could leave an empty file under the name
	}
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
