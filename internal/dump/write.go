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

// Writer writes a tree in one form. What it takes is encoded and written behind the
// caller's back, by a goroutine that Close or Abort waits for: one of them ends each Writer.
type Writer struct {
	enc    encoder
	out    *bufio.Writer
	close  func() error // puts what was written where it belongs
	abort  func() error // removes it
	taken  []*Znode     // not handed over yet
	size   int          // of their data
	behind chan []*Znode
	ended  chan struct{} // closed when the goroutine has ended
	err    error         // why it ended early; good once ended is closed
}

// Bounds of what is handed over together, and how often that may be ahead.
const (
	takenZnodes  = 256
	takenBytes   = 128 << 10 // of data
	takenBatches = 2
)

// encoder is the writing half of a form.
type encoder interface {
	begin(h Header) error
	znode(z *Znode) error
	end(t Trailer) error
}

// compressed reports whether a file of this name is gzipped.
func compressed(name string) bool { return strings.HasSuffix(name, ".gz") }

// NewWriter writes to w. Close does not close it.
func NewWriter(w io.Writer, form Form, h Header) (*Writer, error) {
	d := &Writer{out: bufio.NewWriterSize(w, 256<<10), close: func() error { return nil }, abort: func() error { return nil }}
	switch form {
	case Lines:
		d.enc = newLines(d.out)
	case Zoocreep:
		d.enc = &zoocreeper{w: d.out}
	default:
		return nil, fmt.Errorf("the %s format can be written only to a directory", form)
	}
	return d, d.enc.begin(h)
}

// Create writes a file, gzipped by its name, for the user alone. It gets its name when
// all is written, in the place of one that had it.
func Create(name string, form Form, h Header) (*Writer, error) {
	if form == Dir {
		return createDir(name, h)
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
	d, err := NewWriter(w, form, h)
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

// Write takes a znode, after the one above it, which is not to be changed any more. An
// error may be about one before.
func (d *Writer) Write(z *Znode) error {
	d.taken = append(d.taken, z)
	if d.size += len(z.Data); len(d.taken) < takenZnodes && d.size < takenBytes {
		return nil
	}
	if d.behind == nil {
		d.behind, d.ended = make(chan []*Znode, takenBatches), make(chan struct{})
		go d.follow() // ends with join, or at the first error
	}
	taken := d.taken
	d.taken, d.size = make([]*Znode, 0, takenZnodes), 0
	select {
	case d.behind <- taken:
		return nil
	case <-d.ended:
		return d.err
	}
}

// follow encodes what is handed over.
func (d *Writer) follow() {
	defer close(d.ended)
	for taken := range d.behind {
		if d.err = d.encode(taken); d.err != nil {
			return
		}
	}
}

func (d *Writer) encode(taken []*Znode) error {
	for _, z := range taken {
		if err := d.enc.znode(z); err != nil {
			return err
		}
	}
	return nil
}

// join waits for what was handed over.
func (d *Writer) join() error {
	if d.behind != nil {
		close(d.behind)
		<-d.ended
		d.behind = nil
	}
	return d.err
}

// Close ends the dump; only now it is one.
func (d *Writer) Close(t Trailer) error {
	err := d.join()
	if err == nil {
		err = d.encode(d.taken)
	}
	if err == nil {
		err = d.enc.end(t)
	}
	if err == nil {
		err = d.out.Flush()
	}
	if err != nil {
		return errors.Join(err, d.abort())
	}
	return d.close()
}

// Abort ends the writing of a file, of which nothing stays. Why it could not be written
// has been told.
func (d *Writer) Abort() error {
	_ = d.join()
	return d.abort()
}
