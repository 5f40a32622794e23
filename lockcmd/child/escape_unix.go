//go:build unix && !aix && !solaris

package child

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Escape returns an error if zksh could not terminate the named program when the lock is lost,
// because the program runs as another user. Such a program must not run under a lock. Escape checks
// only the program itself, and not the programs that it starts.
func Escape(name string) error {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil // Run reports that the program does not exist
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode()&os.ModeSetuid == 0 {
		return nil
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) == os.Geteuid() || canKillAll() {
		return nil
	}
	return fmt.Errorf("%s was not started: it runs as another user (setuid), so zksh could not terminate it "+
		"when the lock is lost; run zksh itself as root, and the command without %s", name, name)
}
