package dump

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/zksh/zksh/internal/unpack"
	"github.com/zksh/zksh/internal/userfile"
)

func newBuffered(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, 256<<10) }

// An input is a file that is being read. Its Reader returns the decompressed contents.
type input struct {
	*bufio.Reader
	file *sourceFile
}

// A sourceFile is a file that is being read, before decompression. It counts the bytes that it
// reads. After ctx has ended, reading fails.
type sourceFile struct {
	ctx     context.Context
	r       io.Reader
	bytes   int64
	maxSize int64 // limit on the tree's size in memory and, separately, on disk; 0 for the default
}

// An Option changes how a file is read.
type Option func(*sourceFile)

// MaxSize limits the size of a tree, in bytes, both in memory and in a temporary file. If bytes is
// 0, the default limit applies, which depends on the size of the file.
func MaxSize(bytes int64) Option { return func(c *sourceFile) { c.maxSize = bytes } }

func newSourceFile(ctx context.Context, r io.Reader, options []Option) *sourceFile {
	c := &sourceFile{ctx: ctx, r: r}
	for _, set := range options {
		set(c)
	}
	return c
}

// Read implements io.Reader.
func (c *sourceFile) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := c.r.Read(p)
	c.bytes += int64(n)
	return n, err
}

// Open reads a dump in zksh's own format, or a snapshot. It detects the format from the file's
// contents.
func Open(ctx context.Context, name string, options ...Option) (*Tree, error) {
	return userfile.Await(ctx, func() (*Tree, error) { return open(ctx, name, options) })
}

func open(ctx context.Context, name string, options []Option) (*Tree, error) {
	f, err := openFile(name, "an export of zksh (export -R) or a ZooKeeper snapshot (snapshot.*)")
	if err != nil {
		return nil, err
	}
	t, err := readAny(ctx, f, options)
	if closed := f.Close(); err == nil && closed != nil {
		return nil, errors.Join(closed, t.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if t.snapshot {
		t.Header.Zxid = zxidOf(name)
	}
	return t, nil
}

// openFile opens a file for reading. It returns an error if name is a directory; want describes the
// file that was expected.
func openFile(name, want string) (*os.File, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory, but zksh reads only a single file: %s; only a ZooKeeper server can open a complete data directory", name, want)
	}
	return userfile.OpenToRead(name)
}

// Read is like Open, but reads the file from a stream.
func Read(ctx context.Context, in io.Reader, options ...Option) (*Tree, error) {
	return userfile.Await(ctx, func() (*Tree, error) { return readAny(ctx, in, options) })
}

func readAny(ctx context.Context, in io.Reader, options []Option) (*Tree, error) {
	r, err := decompressed(ctx, in, options)
	if err != nil {
		return nil, truncatedError(err)
	}
	start, err := r.Peek(64)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, truncatedError(err)
	}
	var t *Tree
	switch {
	case len(start) == 0:
		return nil, errors.New("the file is empty")
	case bytes.HasPrefix(start, []byte(`{"zksh":`)):
		t, err = readLines(r)
	case hasMagic(start, "ZKSN"):
		t, err = readSnapshot(r)
	case hasMagic(start, "ZKLG"):
		return nil, errors.New("the file is a transaction log, not an export or a snapshot; to read it, use the log command")
	default:
		return nil, errors.New("the file is neither an export of zksh (export -R) nor a ZooKeeper snapshot, and zksh reads no other formats")
	}
	return t, truncatedError(err)
}

// truncatedError replaces io.ErrUnexpectedEOF with an error that users understand. It returns other
// errors unchanged.
func truncatedError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file is truncated")
	}
	return err
}

// decompressed returns the decompressed contents of a file. It detects the compression: gzip,
// Java's snappy, or none.
func decompressed(ctx context.Context, in io.Reader, options []Option) (*input, error) {
	file := newSourceFile(ctx, in, options)
	r := newBuffered(file)
	mark, err := r.Peek(16)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(mark, []byte("\x1f\x8b")):
		inner, err := gzip.NewReader(r)
		return &input{newBuffered(inner), file}, err
	case unpack.IsJavaSnappy(mark):
		inner, err := unpack.JavaSnappy(r)
		return &input{newBuffered(inner), file}, err
	}
	return &input{r, file}, nil
}

// Limits on the size of a Tree in memory and, separately, in the temporary file. The limit grows
// with the compressed size of the file, so that a small file cannot expand without bounds.
const (
	minSize     = 32 << 20 // size that every tree may have, in bytes
	sizePerByte = 50       // additional bytes for each byte of the file
	maxMemory   = 96 << 20 // upper bound of the limit in memory, in bytes
	maxSpool    = 16 << 30 // upper bound of the limit in the temporary file, in bytes
)

// checkSize returns an error if the size of a tree exceeds the limit. By default, the limit depends
// on the size of the file, and is at most maximum. The user can set another limit. where is a part
// of the error message, such as "in memory".
func (c *sourceFile) checkSize(size, maximum int64, where string) error {
	limit := min(maximum, minSize+sizePerByte*c.bytes)
	if c.maxSize > 0 {
		limit = c.maxSize
	}
	if size <= limit {
		return nil
	}
	return fmt.Errorf("the file expands to more than %d MiB %s, too much for the %d bytes of it that zksh has read; if you trust the file, raise the limit with --max-size",
		limit>>20, where, c.bytes)
}
