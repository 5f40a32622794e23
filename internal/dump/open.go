package dump

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/zksh/zksh/internal/unpack"
	"github.com/zksh/zksh/internal/userfile"
)

func newBuffered(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, 256<<10) }

// A File is a dump or a snapshot that is read once, from its beginning to its end. Only at its end is
// it known to be intact.
type File struct {
	Header   Header  // of the first dump in the file; set before the first znode
	Trailer  Trailer // set after the last znode
	Snapshot bool    // whether the file is a ZooKeeper snapshot
	// Part is the number of the dump that is being read, counted from 1. A file that --undo has written
	// contains several dumps, one after the other. If several of them contain a znode, the first one
	// counts. Other files contain only one.
	Part int

	name  string        // name of the file, or empty for a stream
	r     *bufio.Reader // decompressed contents
	file  *sourceFile
	close func() error
}

// A sourceFile is a file that is being read, before decompression. It counts the bytes that it
// reads. After ctx has ended, reading fails.
type sourceFile struct {
	ctx     context.Context
	r       io.Reader
	bytes   int64
	held    int64 // memory for the contents so far, in bytes
	maxSize int64 // limit on the size in memory and, separately, on disk; 0 for the default
}

// An Option changes how a file is read.
type Option func(*sourceFile)

// MaxSize limits the size of the contents, in bytes, both in memory and in a temporary file. If the
// contents are larger, reading fails with ErrTooLarge. By default, the limit depends on the size of
// the file.
func MaxSize(bytes int64) Option { return func(c *sourceFile) { c.maxSize = bytes } }

// ErrTooLarge means that the contents of a file exceed the limit that MaxSize has set.
var ErrTooLarge = errors.New("the contents of the file are too large")

// Read implements io.Reader.
func (c *sourceFile) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := c.r.Read(p)
	c.bytes += int64(n)
	return n, err
}

// OpenFile opens a dump in zksh's own format, or a snapshot, whether compressed or not. It detects
// the format from the file's contents.
func OpenFile(ctx context.Context, name string, options ...Option) (*File, error) {
	opened, err := openSingle(name, "an export of zksh (export -R) or a ZooKeeper snapshot (snapshot.*)")
	if err != nil {
		return nil, err
	}
	f, err := newFile(ctx, opened, options)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), opened.Close())
	}
	f.name, f.close = name, opened.Close
	if f.Snapshot {
		f.Header.Zxid = zxidOf(name)
	}
	return f, nil
}

// openSingle opens a file for reading. It returns an error if name is a directory; want describes
// the file that was expected.
func openSingle(name, want string) (*os.File, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory, but zksh reads only a single file: %s; "+
			"only a ZooKeeper server can open a complete data directory", name, want)
	}
	return userfile.OpenToRead(name)
}

// newFile returns a File that reads from in.
func newFile(ctx context.Context, in io.Reader, options []Option) (*File, error) {
	f := &File{file: &sourceFile{ctx: ctx, r: in}, close: func() error { return nil }}
	for _, set := range options {
		set(f.file)
	}
	var err error
	if f.r, err = decompressed(f.file); err != nil {
		return nil, truncatedError(err)
	}
	start, err := f.r.Peek(len(linesStart))
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, truncatedError(err)
	case len(start) == 0:
		return nil, errors.New("the file is empty")
	case string(start) == linesStart:
	case hasMagic(start, "ZKSN"):
		f.Snapshot = true
	case hasMagic(start, "ZKLG"):
		return nil, errors.New("the file is a transaction log, not an export or a snapshot; to read it, use the log command")
	default:
		return nil, errors.New("the file is neither an export of zksh (export -R) nor a ZooKeeper snapshot, and zksh reads no other formats")
	}
	return f, nil
}

// Close closes the file.
func (f *File) Close() error { return f.close() }

// Znodes yields the znodes in the order of the file, in which each znode follows its parent. If the
// file is damaged, an error comes last. The znodes before it must then not be used.
func (f *File) Znodes() iter.Seq2[*Znode, error] {
	return func(yield func(*Znode, error) bool) {
		stopped := errors.New("stopped")
		err := f.each(func(z *Znode) error {
			if !yield(z, nil) {
				return stopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, stopped) {
			yield(nil, f.named(err))
		}
	}
}

// each calls add for each znode in the file, in the order of the file.
func (f *File) each(add func(*Znode) error) error {
	read, first := f.readLines, ""
	if f.Snapshot {
		read = f.readSnapshot
	}
	err := read(func(z *Znode) error {
		first = cmp.Or(first, z.Path)
		return add(z)
	})
	switch {
	case err != nil:
		return truncatedError(err)
	case first == "":
		return errors.New("the file does not contain any znodes")
	case f.Part == 1 && first != f.Header.Root:
		return fmt.Errorf("the header gives %s as the root of the export, but the first znode in the file is %s",
			shorten(f.Header.Root), shorten(first))
	}
	return nil
}

// named adds the name of the file to an error about its contents.
func (f *File) named(err error) error {
	if err == nil || f.name == "" {
		return err
	}
	return fmt.Errorf("%s: %w", f.name, err)
}

// Open reads the complete file and returns its contents.
func Open(ctx context.Context, name string, options ...Option) (*Tree, error) {
	return userfile.Await(ctx, func() (*Tree, error) {
		f, err := OpenFile(ctx, name, options...)
		if err != nil {
			return nil, err
		}
		t, err := readTree(f)
		if closed := f.Close(); err == nil && closed != nil {
			return nil, errors.Join(closed, t.Close())
		}
		return t, f.named(err)
	})
}

// Read is like Open, but reads the file from a stream.
func Read(ctx context.Context, in io.Reader, options ...Option) (*Tree, error) {
	return userfile.Await(ctx, func() (*Tree, error) {
		f, err := newFile(ctx, in, options)
		if err != nil {
			return nil, err
		}
		return readTree(f)
	})
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
func decompressed(in io.Reader) (*bufio.Reader, error) {
	r := newBuffered(in)
	mark, err := r.Peek(16)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var unpacked io.Reader
	switch {
	case bytes.HasPrefix(mark, []byte("\x1f\x8b")):
		unpacked, err = gzip.NewReader(r)
	case unpack.IsJavaSnappy(mark):
		unpacked, err = unpack.JavaSnappy(r)
	default:
		return r, nil
	}
	return newBuffered(unpacked), err
}

// Limits on the size of the contents of a file in memory and, separately, in the temporary file. The
// limit grows with the compressed size of the file, so that a small file cannot expand without
// bounds.
const (
	minSize     = 32 << 20 // size that every file may have, in bytes
	sizePerByte = 50       // additional bytes for each byte of the file
	maxMemory   = 96 << 20 // upper bound of the limit in memory, in bytes
	maxSpool    = 16 << 30 // upper bound of the limit in the temporary file, in bytes
)

// reserve counts memory that the contents of the file will keep, in bytes. It returns an error if the
// total exceeds the limit.
func (c *sourceFile) reserve(bytes int) error {
	c.held += int64(bytes)
	return c.checkSize(c.held, maxMemory, "in memory")
}

// checkSize returns an error if the size of the contents exceeds the limit. By default, the limit
// depends on the size of the file, and is at most maximum. where is a part of the error message, such
// as "in memory".
func (c *sourceFile) checkSize(size, maximum int64, where string) error {
	if c.maxSize > 0 {
		if size > c.maxSize {
			return ErrTooLarge
		}
		return nil
	}
	limit := min(maximum, minSize+sizePerByte*c.bytes)
	if size <= limit {
		return nil
	}
	return fmt.Errorf("the file expands to more than %d MiB %s, too much for the %d bytes of it that zksh has read; "+
		"if you trust the file, load it into a sandbox, which has no such limit: zksh --sandbox --load FILE",
		limit>>20, where, c.bytes)
}
