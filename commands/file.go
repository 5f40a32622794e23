package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/zksh/zksh/internal/userfile"
)

// SaveFile writes data to a file. If it fails to write a regular file, the old contents remain. A
// new file has mode 0600, and an existing file keeps its mode. SaveFile follows symbolic links. It
// writes directly to a stream, such as /dev/stderr, and to anything that is not a regular file, such as
// a terminal or a FIFO.
func SaveFile(name string, data []byte) error {
	mode := os.FileMode(0o600)
	info, err := os.Stat(name)
	switch {
	case userfile.IsStream(name) || err == nil && !info.Mode().IsRegular():
		f, err := userfile.OpenToWrite(name, 0, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return errors.Join(err, f.Close())
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return err
	default:
		mode = info.Mode().Perm()
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return err
		}
	}
	return userfile.Replace(name, data, mode)
}

// maxInput is the maximum number of bytes that zksh reads from a file as the data of a znode.
// Servers accept less: about 1 MiB, unless jute.maxbuffer is raised.
const maxInput = 64 << 20

// LoadFile returns the contents of a file. If name is "-", it reads standard input, which is
// possible only if zksh runs a single command.
func LoadFile(ctx context.Context, env *Env, name string) ([]byte, error) {
	open := func() (io.Reader, error) { return userfile.OpenToRead(name) }
	if name == "-" {
		if env.Stdin == nil {
			return nil, Misuse("-f - cannot read the data from standard input, because zksh reads its commands from there; specify a file")
		}
		open = func() (io.Reader, error) { return env.Stdin, nil }
	}
	data, err := readInput(ctx, open)
	if err == nil && len(data) > maxInput {
		err = fmt.Errorf("%s is larger than %d bytes; no server accepts that much data", name, maxInput)
	}
	return data, err
}

// readInput opens a file and reads at most maxInput+1 bytes. It returns early if ctx is
// cancelled.
func readInput(ctx context.Context, open func() (io.Reader, error)) ([]byte, error) {
	return userfile.Await(ctx, func() ([]byte, error) {
		r, err := open()
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(io.LimitReader(r, maxInput+1))
		if f, ok := r.(*os.File); ok && f != os.Stdin {
			err = errors.Join(err, f.Close())
		}
		return data, err
	})
}
