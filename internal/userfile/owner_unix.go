//go:build unix

package userfile

import (
	"os"
	"syscall"
)

// noFollow makes open fail on a symbolic link.
const noFollow = syscall.O_NOFOLLOW

// owner returns the user a file belongs to if that is somebody else.
func owner(info os.FileInfo) (uid uint32, other bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return stat.Uid, int(stat.Uid) != os.Geteuid()
}
