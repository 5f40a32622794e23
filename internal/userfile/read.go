package userfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Limits of waiting for another program.
const (
	openPatience = 3 * time.Second  // until the other end of a FIFO is opened
	readPatience = 30 * time.Second // until a pipe or a device is read completely
)

// OpenToRead opens a file for reading. It waits up to three seconds until another program opens a
// FIFO for writing. With process substitution, the writer exists already.
func OpenToRead(name string) (*os.File, error) {
	return openPatiently(name, "writing", "writer", openPatience, func() (*os.File, error) { return os.Open(name) })
}

// OpenToWrite opens a file for writing, with the flags and mode of os.OpenFile. It waits up to three
// seconds until another program opens a FIFO for reading.
func OpenToWrite(name string, flag int, mode os.FileMode) (*os.File, error) {
	return openPatiently(name, "reading", "reader", openPatience, func() (*os.File, error) { return os.OpenFile(name, os.O_WRONLY|flag, mode) })
}

// openPatiently opens a file. If it is a FIFO whose other end is not opened within patience,
// openPatiently fails.
func openPatiently(name, use, program string, patience time.Duration, open func() (*os.File, error)) (*os.File, error) {
	if info, err := os.Stat(name); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		return open()
	}
	type opened struct {
		f   *os.File
		err error
	}
	got := make(chan opened, 1)
	go func() { // ends when the other end is opened, or with the process
		f, err := open()
		got <- opened{f, err}
	}()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case o := <-got:
		return o.f, o.err
	case <-late.C:
		go func() { // ends after the goroutine above
			if o := <-got; o.err == nil {
				_ = o.f.Close()
			}
		}()
		return nil, fmt.Errorf("%s is a FIFO, and no program opened it for %s within %v: start the %s first, or use a regular file", name, use, patience, program)
	}
}

// ReadSmallFile opens and reads a file of at most most bytes, with OpenToRead and ReadSmall.
func ReadSmallFile(name string, most int64) ([]byte, error) {
	f, err := OpenToRead(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadSmall(f, most)
}

// ReadSmall reads an open file of at most most bytes. A pipe or a device must be read completely
// within half a minute.
func ReadSmall(f *os.File, most int64) ([]byte, error) { return readSmall(f, most, readPatience) }

func readSmall(f *os.File, most int64, patience time.Duration) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a directory", f.Name())
	}
	if !info.Mode().IsRegular() {
		if err := f.SetReadDeadline(time.Now().Add(patience)); err != nil && !errors.Is(err, os.ErrNoDeadline) {
			return nil, err
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("cannot read all of %s: it is not a regular file, and its end did not come within %v; use a regular file", f.Name(), patience)
	case int64(len(b)) > most:
		return nil, fmt.Errorf("the file %s is too large: the limit is %d bytes", f.Name(), most)
	}
	return b, err
}
