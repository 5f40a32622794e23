//go:build unix

package playground

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock takes the meeting file's lock for the life of the descriptor, unless
// another shell has it.
func tryLock(f *os.File) (mine bool, err error) { return held(f, unix.LOCK_EX) }

// sharable tells whether nobody has the lock.
func sharable(f *os.File) (bool, error) {
	free, err := held(f, unix.LOCK_SH)
	if free {
		err = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	}
	return free, err
}

func held(f *os.File, how int) (bool, error) {
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
