package app

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/zksh/zksh/internal/userfile"
)

// FromStdin reports whether commands are read from standard input, be it a pipe or a keyboard.
func (o *Options) FromStdin() bool {
	return len(o.Command) == 0 && len(o.Lines) == 0 && (!o.HasFile || o.File == "-")
}

// Source is where commands come from when they are neither on the command line nor typed,
// with the name that error messages give it.
func (o *Options) Source() (io.ReadCloser, string, error) {
	if len(o.Lines) > 0 {
		return io.NopCloser(strings.NewReader(strings.Join(o.Lines, "\n"))), "-c", nil
	}
	if !o.HasFile || o.File == "-" {
		return io.NopCloser(os.Stdin), "stdin", nil
	}
	f, err := userfile.OpenToRead(o.File)
	return f, o.File, err
}

// Surroundings are the Environment of this process.
func Surroundings() Environment {
	env := Environment{Getenv: os.Getenv}
	if dir, err := os.UserConfigDir(); err == nil {
		env.ConfigDir = dir
	}
	env.StateDir = os.Getenv("XDG_STATE_HOME")
	if local, err := os.UserCacheDir(); runtime.GOOS == "windows" && env.StateDir == "" && err == nil {
		env.StateDir = local // AppData\Local; elsewhere caches are no place for a history
	}
	if home, err := os.UserHomeDir(); env.StateDir == "" && err == nil {
		env.StateDir = filepath.Join(home, ".local", "state")
	}
	return env
}
