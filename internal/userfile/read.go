package userfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Limits on the time that zksh waits for another program.
const (
	openPatience = 3 * time.Second  // limit for the program to open the other end of a FIFO
	readPatience = 30 * time.Second // limit for the program to write all data to a pipe or a device
)

// OpenToRead opens a file for reading. If the file is a FIFO, it waits up to three seconds for
// another program to open the FIFO for writing. This is enough for process substitution, where the
// shell has already started the writer.
func OpenToRead(name string) (*os.File, error) {
	return openPatiently(name, "writing", "writer", openPatience, func() (*os.File, error) { return os.Open(name) })
}

// OpenToWrite opens a file for writing, with the flags and mode of os.OpenFile. If the file is a
// FIFO, it waits up to three seconds for another program to open the FIFO for reading. If name is a
// stream, OpenToWrite returns that stream, which continues where it is, whatever flag and mode say.
func OpenToWrite(name string, flag int, mode os.FileMode) (*os.File, error) {
	if fd, is := streamOf(name); is {
		return openStream(fd, name)
	}
	return openPatiently(name, "reading", "reader", openPatience, func() (*os.File, error) { return os.OpenFile(name, os.O_WRONLY|flag, mode) })
}

// openPatiently opens a file by calling open. If the file is a FIFO, it waits for another program
// to open the other end, but no longer than patience. use and program are words for the error
// message.
func openPatiently(name, use, program string, patience time.Duration, open func() (*os.File, error)) (*os.File, error) {
	if info, err := os.Stat(name); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		return open()
	}
	type opened struct {
		f   *os.File
		err error
	}
	got := make(chan opened, 1)
	go func() { // ends when another program opens the other end, or when the process ends
		f, err := open()
		got <- opened{f, err}
	}()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case o := <-got:
		return o.f, o.err
	case <-timeout.C:
		go func() { // ends when the goroutine above ends
			if o := <-got; o.err == nil {
				_ = o.f.Close()
			}
		}()
		return nil, fmt.Errorf("%s is a FIFO, and no program opened it for %s within %v: start the %s first, or use a regular file", name, use, patience, program)
	}
}

// ReadSmallFile opens and reads a file of at most maxSize bytes, with OpenToRead. If the file is a pipe
// or a device, it fails unless the end of the data comes within half a minute.
func ReadSmallFile(name string, maxSize int64) ([]byte, error) {
	f, err := OpenToRead(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readSmall(f, maxSize, readPatience)
}

// ReadRegular opens and reads a regular file of at most maxSize bytes. It follows symbolic links. It
// does not open anything else, because a FIFO or a device may block or never end.
func ReadRegular(name string, maxSize int64) ([]byte, error) {
	switch info, err := os.Stat(name); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return ReadSmallFile(name, maxSize)
}

// readSmall reads an open file of at most maxSize bytes. patience is the time limit for a pipe or a
// device.
func readSmall(f *os.File, maxSize int64, patience time.Duration) ([]byte, error) {
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
	b, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("cannot read all of %s: it is not a regular file, and its end did not come within %v; use a regular file", f.Name(), patience)
	case int64(len(b)) > maxSize:
		return nil, fmt.Errorf("the file %s is too large: the limit is %d bytes", f.Name(), maxSize)
	}
	return b, err
}
