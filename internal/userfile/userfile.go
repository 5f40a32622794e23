// Package userfile opens and replaces private files of zksh's user, such as the history, which
// all of the user's running shells share. It also reads small files, opens FIFOs without
// blocking forever, and expands ~ in file names.
package userfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Home replaces a leading ~/ in a file name with the user's home directory. It is for file names
// that were not expanded by a shell.
func Home(name string) string {
	below, is := strings.CutPrefix(name, "~/")
	if !is {
		return name
	}
	home, err := homeDir()
	if err != nil {
		return name // if the home directory is unknown, ~ is an ordinary name
	}
	return filepath.Join(home, below)
}

// Open opens the file at path for reading and writing. If the file does not exist, Open creates
// it with mode 0600, and creates its parent directories. It removes wider permissions from an
// existing file. It rejects everything that could belong to another user: symbolic links, and
// anything that is not a regular file of this user. flag contains additional flags for
// os.OpenFile.
func Open(path string, flag int) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	// Check the file before opening it, because opening a FIFO or a device may block.
	if info, err := os.Lstat(path); err == nil {
		if err := check(path, info); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow|flag, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat() // check again, because path may now refer to another file
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

// Check returns an error if Open would reject the file at path because it could belong to
// another user.
func Check(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	return check(path, info)
}

// CheckDir returns an error if path is not a directory of this user. It rejects symbolic links,
// because they could lead to another user's directory.
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
	if uid, known := owner(info); known && int(uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user (uid %d)", path, uid)
	}
	return nil
}

// Limits for LockSoon. Normally, a process holds the lock only for a moment. A process that holds
// it for longer is probably suspended, and this shell must not wait for it.
const (
	lockPatience = 3 * time.Second
	lockRetry    = 2 * time.Millisecond
)

// LockSoon acquires the exclusive lock on an open file. It waits for the lock, but no longer
// than lockPatience.
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

// Replace atomically replaces the contents of the file at path. If it fails, the old file is
// unchanged.
func Replace(path string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // created with mode 0600
	if err != nil {
		return NamedAs(path, err)
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync() // otherwise, a crash could leave an empty file at path
	}
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err == nil {
		err = rename(f.Name(), path, data)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// NamedAs replaces the name of a temporary file in an error with path, the final name of the file.
func NamedAs(path string, err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return &os.PathError{Op: e.Op, Path: path, Err: e.Err}
	}
	return err
}
