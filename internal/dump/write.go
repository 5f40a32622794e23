package dump

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/zksh/zksh/internal/userfile"
)

// A Writer writes a tree in zksh's own format. A background goroutine encodes and writes the znodes. The
// caller must finish with Close or Abort, which wait for the goroutine.
type Writer struct {
	lines       *lineWriter
	out         *bufio.Writer
	close       func() error  // gives the finished file its final name
	abort       func() error  // removes the unfinished file
	pending     []*Znode      // znodes of the next batch
	size        int           // size of the data in pending, in bytes
	batches     chan []*Znode // batches for the goroutine; nil until the goroutine starts
	encoderDone chan struct{} // closed when the goroutine has ended
	err         error         // error that ended the goroutine early; valid once encoderDone is closed
}

// Limits on the batches of znodes that Write passes to the background goroutine.
const (
	batchZnodes = 256
	batchBytes  = 128 << 10 // size of the data, in bytes
	maxBatches  = 2         // maximum number of batches that wait for the goroutine
)

// compressed reports whether a file with this name is to be compressed with gzip.
func compressed(name string) bool { return strings.HasSuffix(name, ".gz") }

// NewWriter returns a Writer that writes to w. The Writer's Close does not close w.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	d := &Writer{
		out:   bufio.NewWriterSize(w, 256<<10),
		close: func() error { return nil },
		abort: func() error { return nil },
	}
	d.lines = newLineWriter(d.out)
	return d, d.lines.begin(h)
}

// Create returns a Writer that writes to a new file. Only the user can read the file, which has a
// temporary name until Close renames it to name. It is compressed if name ends in .gz, and replaces
// an existing file. If name is a stream, such as /dev/stderr, the Writer writes directly to it.
func Create(name string, h Header) (*Writer, error) {
	if userfile.IsStream(name) {
		return createStream(name, h)
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return nil, userfile.NamedAs(name, err)
	}
	abort := func() error { return errors.Join(f.Close(), os.Remove(f.Name())) }
	var pack *gzip.Writer
	w := io.Writer(f)
	if compressed(name) {
		pack = gzip.NewWriter(f)
		w = pack
	}
	d, err := NewWriter(w, h)
	if err != nil {
		return nil, errors.Join(err, abort())
	}
	d.abort = abort
	d.close = func() error {
		if pack != nil {
			if err := pack.Close(); err != nil {
				return errors.Join(err, abort())
			}
		}
		if err := f.Sync(); err != nil {
			return errors.Join(err, abort())
		}
		err := f.Close()
		if err == nil {
			err = os.Rename(f.Name(), name)
		}
		if err != nil {
			return errors.Join(err, os.Remove(f.Name()))
		}
		return nil
	}
	return d, nil
}

// createStream returns a Writer that writes to a stream that this process has inherited.
func createStream(name string, h Header) (*Writer, error) {
	f, err := userfile.OpenToWrite(name, 0, 0)
	if err != nil {
		return nil, err
	}
	d, err := NewWriter(f, h)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	d.close, d.abort = f.Close, f.Close
	return d, nil
}

// Write writes a znode, which the caller must not change afterwards. The parent of the znode must
// have been written before. The error may be about an earlier znode.
func (d *Writer) Write(z *Znode) error {
	d.pending = append(d.pending, z)
	if d.size += len(z.Data); len(d.pending) < batchZnodes && d.size < batchBytes {
		return nil
	}
	if d.batches == nil {
		d.batches, d.encoderDone = make(chan []*Znode, maxBatches), make(chan struct{})
		go d.encodeBatches() // ends in join, or at the first error
	}
	taken := d.pending
	d.pending, d.size = make([]*Znode, 0, batchZnodes), 0
	select {
	case d.batches <- taken:
		return nil
	case <-d.encoderDone:
		return d.err
	}
}

// encodeBatches encodes the batches of znodes that Write passes to it.
func (d *Writer) encodeBatches() {
	defer close(d.encoderDone)
	for taken := range d.batches {
		if d.err = d.encode(taken); d.err != nil {
			return
		}
	}
}

func (d *Writer) encode(taken []*Znode) error {
	for _, z := range taken {
		if err := d.lines.znode(z); err != nil {
			return err
		}
	}
	return nil
}

// join waits until the background goroutine has encoded all batches.
func (d *Writer) join() error {
	if d.batches != nil {
		close(d.batches)
		<-d.encoderDone
		d.batches = nil
	}
	return d.err
}

// Close writes the rest of the dump, including the trailer. A file without the trailer is
// incomplete.
func (d *Writer) Close(t Trailer) error {
	err := d.join()
	if err == nil {
		err = d.encode(d.pending)
	}
	if err == nil {
		err = d.lines.end(t)
	}
	if err == nil {
		err = d.out.Flush()
	}
	if err != nil {
		return errors.Join(err, d.abort())
	}
	return d.close()
}

// Abort removes the unfinished file. It does not return an error that Write has already returned.
func (d *Writer) Abort() error {
	_ = d.join()
	return d.abort()
}
