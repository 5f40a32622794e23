package app

import (
	"io"
	"os"
	"strings"

	"github.com/zksh/zksh/internal/userfile"
)

// FromStdin reports whether zksh reads its commands from standard input, which can be a pipe or a
// terminal.
func (o *Options) FromStdin() bool {
	return o.Listen == "" && len(o.Command) == 0 && len(o.Lines) == 0 && (!o.HasFile || o.File == "-")
}

// Source opens the source of the commands: the lines of the option -c, a file, or standard input.
// It also returns the name of the source for error messages.
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

// Surroundings returns the Environment of this process: its environment variables and the
// directories of its user.
func Surroundings() Environment {
	env := Environment{Getenv: os.Getenv}
	if dir, err := userfile.ConfigDir(); err == nil {
		env.ConfigDir = dir
	}
	env.StateDir, env.NoStateDir = userfile.StateDir()
	return env
}
