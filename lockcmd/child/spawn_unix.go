//go:build unix && !aix && !solaris

package child

import (
	"os"
	"strings"
	"syscall"
)

// spawn starts a program as execvp does. The error is always a syscall.Errno.
func spawn(argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	if argv[0] == "" || strings.Contains(argv[0], "/") {
		return spawnFile(argv[0], argv, attr)
	}
	path, set := os.LookupEnv("PATH")
	if !set {
		path = "/bin:/usr/bin"
	}
	found := error(syscall.ENOENT)
	for dir := range strings.SplitSeq(path, ":") {
		if dir != "" { // an empty entry of PATH means the current folder
			dir += "/"
		}
		switch pid, err = spawnFile(dir+argv[0], argv, attr); err {
		case syscall.EACCES:
			found = err
		case syscall.ENOENT, syscall.ENOTDIR, syscall.ESTALE, syscall.ENODEV, syscall.ETIMEDOUT:
		default:
			return pid, err
		}
	}
	return 0, found
}

// spawnFile starts the program in the given file. If the kernel does not know the format of the file, it is a
// script for the shell. A file that does not exist is not worth a new process, because most folders of PATH do
// not contain the program.
func spawnFile(file string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	if err := syscall.Stat(file, new(syscall.Stat_t)); err != nil {
		return 0, err
	}
	pid, err = syscall.ForkExec(file, argv, attr)
	if err == syscall.ENOEXEC {
		const shell = "/bin/sh"
		return syscall.ForkExec(shell, append([]string{shell, file}, argv[1:]...), attr)
	}
	return pid, err
}
