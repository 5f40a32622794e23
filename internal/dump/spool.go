package dump

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// spoolMemory is the maximum number of bytes that a spool keeps in memory.
const spoolMemory = 1 << 20

// A spool stores a sequence of bytes. It keeps a short sequence in memory, and writes a longer one
// to a temporary file that only the user can read.
type spool struct {
	size int64
	buf  []byte   // bytes that are not in the file yet
	f    *os.File // temporary file, or nil while all bytes are in memory
}

func (s *spool) write(b []byte) error {
	s.size += int64(len(b))
	if len(s.buf)+len(b) > spoolMemory {
		if err := s.spill(); err != nil {
			return err
		}
	}
	if len(b) > spoolMemory {
		_, err := s.f.Write(b)
		return err
	}
	s.buf = append(s.buf, b...)
	return nil
}

// spill moves the contents of buf to the temporary file.
func (s *spool) spill() (err error) {
	if s.f == nil {
		if s.f, err = os.CreateTemp("", "zksh-*"); err != nil {
			return fmt.Errorf("cannot create a temporary file: %w", err)
		}
		_ = os.Remove(s.f.Name()) // hide the file from other programs; if this fails, close removes it
	}
	_, err = s.f.Write(s.buf)
	s.buf = s.buf[:0]
	return err
}

// flush writes buffered bytes to the temporary file, if there is one. The caller must call flush
// after the last write.
func (s *spool) flush() error {
	if s.f == nil {
		return nil
	}
	return s.spill()
}

func (s *spool) read(b []byte, at int64) error {
	if s.f == nil {
		copy(b, s.buf[at:])
		return nil
	}
	_, err := s.f.ReadAt(b, at)
	return err
}

// readAheadBytes is the number of bytes that a spoolReader reads from the temporary file at once.
const readAheadBytes = 64 << 10

// A spoolReader reads a spool sequentially and has a buffer. It is not safe for concurrent use.
type spoolReader struct {
	s   *spool
	buf []byte
	at  int64 // offset of buf in the spool
}

func (a *spoolReader) read(b []byte, at int64) error {
	if a.s.f == nil || len(b) > readAheadBytes {
		return a.s.read(b, at)
	}
	if end := at + int64(len(b)); at < a.at || end > a.at+int64(len(a.buf)) {
		a.at, a.buf = at, slices.Grow(a.buf[:0], readAheadBytes)[:min(readAheadBytes, a.s.size-at)]
		if err := a.s.read(a.buf, at); err != nil {
			a.buf = nil
			return err
		}
	}
	copy(b, a.buf[at-a.at:])
	return nil
}

func (s *spool) close() error {
	if s.f == nil {
		return nil
	}
	err := s.f.Close()
	if gone := os.Remove(s.f.Name()); gone != nil && !errors.Is(gone, os.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}
