package commands

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/zksh/zksh/internal/userfile"
)

// saveFile writes all of the data, or leaves a regular file as it was. A link is
// followed and a file keeps its mode; what is no regular file (a terminal, a
// FIFO) is written to.
func saveFile(name string, data []byte) error {
	mode := os.FileMode(0o644)
	switch info, err := os.Stat(name); {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return errors.Join(err, f.Close())
	default:
		mode = info.Mode().Perm()
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return err
		}
	}
	return userfile.Replace(name, data, mode)
}

// maxInput is the largest data taken from a file; a server takes about a
// megabyte unless its jute.maxbuffer is raised.
const maxInput = 64 << 20

func loadFile(ctx context.Context, env *Env, name string) ([]byte, error) {
	open := func() (io.Reader, error) { return os.Open(name) }
	if name == "-" {
		if env.Stdin == nil {
			return nil, Misuse("-f - reads standard input, which the commands come from here; name a file")
		}
		open = func() (io.Reader, error) { return env.Stdin, nil }
	}
	data, err := readInput(ctx, open)
	if err == nil && len(data) > maxInput {
		err = fmt.Errorf("%s has more than %d bytes, which no server takes", name, maxInput)
	}
	return data, err
}

// readInput reads all there is, until ctx ends: opening and reading a FIFO or a
// terminal can block for ever, and the goroutine that does it then ends with the
// process.
func readInput(ctx context.Context, open func() (io.Reader, error)) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	got := make(chan result, 1)
	go func() {
		r, err := open()
		if err != nil {
			got <- result{nil, err}
			return
		}
		data, err := io.ReadAll(io.LimitReader(r, maxInput+1))
		if f, ok := r.(*os.File); ok && f != os.Stdin {
			err = errors.Join(err, f.Close())
		}
		got <- result{data, err}
	}()
	select {
	case r := <-got:
		return r.data, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// decodeBase64 reads the standard alphabet; padding may be missing, and line
// ends are passed over.
func decodeBase64(s string) ([]byte, error) {
	s = strings.TrimRight(strings.NewReplacer("\r", "", "\n", "").Replace(s), "=")
	b, err := base64.RawStdEncoding.DecodeString(s)
	if b == nil && err == nil {
		b = []byte{}
	}
	return b, err
}

// hexDump is netty's dump, as zkCli does: a head, 16 bytes a line, a foot.
func hexDump(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	const head = "         +-------------------------------------------------+\n" +
		"         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |\n"
	const rule = "+--------+-------------------------------------------------+----------------+"
	out := []byte(head + rule + "\n")
	for at := 0; at < len(data); at += 16 {
		row := data[at:min(at+16, len(data))]
		shown := bytes.Clone(row)
		for i, b := range shown {
			if b <= 0x1f || b >= 0x7f {
				shown[i] = '.'
			}
		}
		out = fmt.Appendf(out, "|%08x| %-47s |%-16s|\n", at, fmt.Sprintf("% x", row), shown)
	}
	return string(append(out, rule...))
}
