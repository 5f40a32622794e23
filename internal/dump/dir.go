package dump

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// An export to a directory consists of the file tree.json and the directory data. The first line of
// tree.json is dirMark. The rest is in zksh's own format, except that it contains SHA-256 checksums
// in place of the data. The directory data contains a directory for each znode. If the znode has
// data, the data is in the file content of that directory.
const (
	dirTree = "tree.json"
	dirMark = `{"zksh":"dir","version":1}` + "\n"
	dirData = "data"
	dirFile = "content"
)

// A dirWriter writes an export to a directory.
type dirWriter struct {
	root  *os.Root
	tree  *os.File
	out   *bufio.Writer
	lines *lineWriter
}

// createDir returns a Writer that writes to a temporary directory. Its method Close renames that
// directory to name.
func createDir(name string, h Header) (*Writer, error) {
	if left, err := os.ReadDir(name); err == nil && len(left) > 0 {
		return nil, fmt.Errorf("%s already exists and is not empty", name)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	temp, err := os.MkdirTemp(filepath.Dir(filepath.Clean(name)), "."+filepath.Base(name)+".*")
	if err != nil {
		return nil, err
	}
	f, err := newDirWriter(temp)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(temp))
	}
	d := &Writer{enc: f, out: f.out}
	d.abort = func() error { return errors.Join(f.close(), os.RemoveAll(temp)) }
	d.close = func() error {
		err := errors.Join(f.tree.Sync(), f.close())
		if err == nil {
			err = os.Rename(temp, name)
		}
		if err != nil {
			return errors.Join(err, os.RemoveAll(temp))
		}
		return nil
	}
	if err := f.begin(h); err != nil {
		return nil, errors.Join(err, d.abort())
	}
	return d, nil
}

func newDirWriter(name string) (*dirWriter, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	tree, err := root.OpenFile(dirTree, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	out := bufio.NewWriter(tree)
	return &dirWriter{root, tree, out, newLineWriter(out)}, nil
}

func (f *dirWriter) close() error { return errors.Join(f.tree.Close(), f.root.Close()) }

func (f *dirWriter) begin(h Header) error {
	if _, err := f.out.WriteString(dirMark); err != nil {
		return err
	}
	return f.lines.begin(h)
}

func (f *dirWriter) znode(z *Znode) error {
	listed := *z
	if z.Data != nil {
		sum := sha256.Sum256(z.Data)
		listed.Data = sum[:]
		if err := f.write(z); err != nil {
			return fmt.Errorf("%s: %w", z.Path, err)
		}
	}
	return f.lines.znode(&listed)
}

func (f *dirWriter) write(z *Znode) error {
	name := contentPath(z.Path)
	if err := f.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	file, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return errors.New("cannot create a file for the znode: on this file system, the file's name clashes with that of another znode's file; export to a single file instead")
	}
	if err != nil {
		return err
	}
	_, err = file.Write(z.Data)
	return errors.Join(err, file.Close())
}

func (f *dirWriter) end(t Trailer) error { return f.lines.end(t) }

// contentPath returns the path of the file that contains a znode's data. It percent-encodes, as in
// URLs, characters that file systems reject and names that have a special meaning in the export.
func contentPath(znode string) string {
	name := dirData
	for part := range strings.SplitSeq(strings.Trim(znode, "/"), "/") {
		if part == "" {
			continue
		}
		var b strings.Builder
		for i, c := range []byte(part) {
			if strings.IndexByte(`%<>:"\|?*`, c) >= 0 || i == 0 && c == '.' || i == 0 && part == dirFile || i == len(part)-1 && (c == '.' || c == ' ') {
				fmt.Fprintf(&b, "%%%02X", c)
			} else {
				b.WriteByte(c)
			}
		}
		name = path.Join(name, b.String())
	}
	return path.Join(name, dirFile)
}

// readDir reads an export from a directory.
func readDir(ctx context.Context, name string, options []Option) (t *Tree, err error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	tree, err := root.Open(dirTree)
	if err != nil {
		return nil, errors.New("the directory is not an export: it does not contain the file " + dirTree)
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	file := newSourceFile(ctx, tree, options)
	r := newBuffered(file)
	if mark, err := r.ReadString('\n'); err != nil || mark != dirMark {
		return nil, errors.New(dirTree + " is in a format that this version of zksh cannot read")
	}
	listed, err := readLines(&input{r, file})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dirTree, err)
	}
	defer func() { err = errors.Join(err, listed.Close()) }()
	b := newBuilder(Dir, file)
	defer func() {
		if err != nil {
			err = errors.Join(err, b.t.Close())
		}
	}()
	b.t.Header, b.t.Trailer = listed.Header, listed.Trailer
	for z, err := range listed.Znodes(listed.Root()) {
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err == nil && z.Data != nil {
			z.Data, err = readContent(root, contentPath(z.Path), z.Data)
			file.bytes += int64(len(z.Data)) // the data was stored uncompressed
		}
		if err == nil {
			err = b.add(z)
		}
		if err != nil {
			return nil, err
		}
	}
	return b.finish(false)
}

// readContent reads a znode's data from a file, and verifies that its checksum equals want.
func readContent(root *os.Root, name string, want []byte) ([]byte, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxData+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); string(sum[:]) != string(want) {
		return nil, fmt.Errorf("the file %s has changed since it was exported", name)
	}
	return data, nil
}
