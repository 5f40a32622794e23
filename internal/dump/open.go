package dump

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/zksh/zksh/internal/unpack"
	"github.com/zksh/zksh/internal/userfile"
)

func newBuffered(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, 256<<10) }

// input is a file while it is read, unpacked.
type input struct {
	*bufio.Reader
	file *counted
}

// counted is a file as it is, of which bytes are read until ctx ends.
type counted struct {
	ctx   context.Context
	r     io.Reader
	bytes int64
	most  int64 // that the tree may take, in memory and on disk; 0: as room has it
}

// An Option changes how a file is read.
type Option func(*counted)

// MaxSize lets a tree take so many bytes, in memory and in a temporary file each, instead
// of what is usual for a file of its size; 0 changes nothing.
func MaxSize(bytes int64) Option { return func(c *counted) { c.most = bytes } }

func newCounted(ctx context.Context, r io.Reader, options []Option) *counted {
	c := &counted{ctx: ctx, r: r}
	for _, set := range options {
		set(c)
	}
	return c
}

// Read is part of io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := c.r.Read(p)
	c.bytes += int64(n)
	return n, err
}

// Open reads a file in any of the forms, which is known by what is in it.
func Open(ctx context.Context, name string, options ...Option) (*Tree, error) {
	return userfile.UnlessLeft(ctx, func() (*Tree, error) { return open(ctx, name, options) })
}

func open(ctx context.Context, name string, options []Option) (*Tree, error) {
	f, err := userfile.OpenToRead(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	var t *Tree
	dataDir, isData := "", false
	if info.IsDir() {
		dataDir, isData = dataDirOf(name)
	}
	switch {
	case isData:
		t, err = readDataDir(ctx, dataDir, options)
	case info.IsDir():
		t, err = readDir(ctx, name, options)
	default:
		t, err = readAny(ctx, f, options)
	}
	if closed := f.Close(); err == nil && closed != nil {
		return nil, errors.Join(closed, t.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if t.Form == Snapshot && !isData {
		t.Header.Zxid = zxidOf(name, "snapshot")
	}
	return t, nil
}

// Read is Open for what is no file.
func Read(ctx context.Context, in io.Reader, options ...Option) (*Tree, error) {
	return userfile.UnlessLeft(ctx, func() (*Tree, error) { return readAny(ctx, in, options) })
}

func readAny(ctx context.Context, in io.Reader, options []Option) (*Tree, error) {
	r, err := unpacked(ctx, in, options)
	if err != nil {
		return nil, cutShort(err)
	}
	start, err := r.Peek(64)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, cutShort(err)
	}
	var t *Tree
	switch {
	case len(start) == 0:
		return nil, errors.New("the file is empty")
	case bytes.HasPrefix(start, []byte(`{"zksh":`)):
		t, err = readLines(r)
	case start[0] == '{':
		t, err = readByName(r)
	case start[0] == '[':
		t, err = readNavigator(r)
	case isMark(start, "ZKSN"):
		t, err = readSnapshot(r)
	case isMark(start, "ZKLG"):
		return nil, errors.New("the file is a transaction log, not an export or a snapshot; to read it, use the log command")
	default:
		return nil, errors.New("the file is neither an export in a known format nor a ZooKeeper snapshot")
	}
	return t, cutShort(err)
}

// cutShort words the end of a file in the middle.
func cutShort(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file is truncated")
	}
	return err
}

// unpacked takes off what a file is packed in.
func unpacked(ctx context.Context, in io.Reader, options []Option) (*input, error) {
	file := newCounted(ctx, in, options)
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
