//go:build unix && !aix && !solaris

package history

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The lock is held for a moment only, so a longer wait means that its holder
// was stopped in the middle; a shell must not hang because of that.
const (
	lockPatience = 3 * time.Second
	lockRetry    = 2 * time.Millisecond
)

// lock takes the advisory lock on an open file; closing the file releases it.
func lock(f *os.File) error {
	for end := time.Now().Add(lockPatience); ; time.Sleep(lockRetry) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		case time.Now().After(end):
			return fmt.Errorf("lock %s: another process has held it for %v", f.Name(), lockPatience)
		}
	}
}

func unlock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }
