package userfile

import (
	"os"
	"path/filepath"
	"strconv"
)

// Systems offer the open files of a process under names such as /dev/stdout and /dev/fd/3. If such a
// stream is redirected to a regular file, opening its name opens that file once more: writing then
// begins at the start of the file and overwrites what others have written to it.

// IsStream reports whether name stands for an open file of this process, such as /dev/stderr or
// /dev/fd/3, or is a symbolic link to such a name.
func IsStream(name string) bool {
	_, is := streamOf(name)
	return is
}

// IsStdout reports whether name stands for the standard output of this process.
func IsStdout(name string) bool {
	fd, is := streamOf(name)
	return is && fd == 1
}

// maxLinks is the maximum number of symbolic links that streamOf follows, as in Linux.
const maxLinks = 40

// streamOf returns the number of the open file for which name stands.
func streamOf(name string) (fd int, is bool) {
	for range maxLinks {
		if fd, is = descriptor(filepath.Clean(name)); is {
			return fd, true
		}
		to, err := os.Readlink(name)
		switch {
		case err != nil:
			return 0, false
		case filepath.IsAbs(to):
			name = to
		default:
			name = filepath.Join(filepath.Dir(name), to)
		}
	}
	return 0, false
}

// streams are the names of the standard streams.
var streams = map[string]int{"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}

// descriptor returns the number in a name such as /dev/fd/3. It does not follow symbolic links.
func descriptor(name string) (fd int, is bool) {
	if fd, is = streams[name]; is {
		return fd, hasStreams
	}
	dir, number := filepath.Split(name)
	switch dir {
	case "/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/", "/proc/" + strconv.Itoa(os.Getpid()) + "/fd/":
	default:
		return 0, false
	}
	n, err := strconv.ParseUint(number, 10, 31)
	return int(n), hasStreams && err == nil
}
