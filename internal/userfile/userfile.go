// Package userfile opens files that are for one user alone, and that all shells of
// that user share, puts new files in the place of old ones, and knows where ~ is.
package userfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Home is a file's name as people type it: ~/ is the user's own directory, as in a shell,
// which has not read the name here.
func Home(name string) string {
	below, is := strings.CutPrefix(name, "~/")
	if !is {
		return name
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return name // there is none: ~ is a directory like others
	}
	return filepath.Join(home, below)
}

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

// Check is an error if what is at path, and was not opened here, could belong to somebody
// else, as Open has it.
func Check(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	return check(path, info)
}

// CheckDir returns an error if path is no directory of this user: a symbolic link, too, could
// lead to somebody else's.
func CheckDir(path string) error {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case info.Mode().Type() == os.ModeSymlink:
		return fmt.Errorf("%s is a symbolic link", path)
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", path)
	}
	return checkOwner(path, info)
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
	return checkOwner(path, info)
}

func checkOwner(path string, info os.FileInfo) error {
	if uid, other := owner(info); other {
		return fmt.Errorf("%s belongs to another user (uid %d)", path, uid)
	}
	return nil
}

// A lock that LockSoon takes is held for a moment only, so a longer wait means that its
// holder was stopped in the middle; a shell must not hang because of that.
const (
	lockPatience = 3 * time.Second
	lockRetry    = 2 * time.Millisecond
)

// LockSoon takes the lock on an open file for this descriptor alone, and waits for it
// if need be.
func LockSoon(f *os.File) error {
	for end := time.Now().Add(lockPatience); ; time.Sleep(lockRetry) {
		taken, err := Lock(f, false)
		switch {
		case err != nil:
			return fmt.Errorf("cannot lock the file %s: %w", f.Name(), err)
		case taken:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("cannot lock the file %s: another process has held its lock for %v", f.Name(), lockPatience)
		}
	}
}

// Replace puts a file in the place of the one at path, or leaves that as it was.
func Replace(path string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // for the user alone
	if err != nil {
		return NamedAs(path, err)
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync() // or a crash could leave an empty file under the name
	}
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err == nil {
		err = rename(f.Name(), path, data)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// NamedAs is an error of a file that goes by a name of ours until it is whole, with the
// name that it is to have.
func NamedAs(path string, err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return &os.PathError{Op: e.Op, Path: path, Err: e.Err}
	}
	return err
}
