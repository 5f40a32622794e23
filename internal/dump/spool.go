package dump

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// spoolMemory is how much of a spool is in memory, before it is written or read.
const spoolMemory = 1 << 20

// spool keeps bytes until they are read: some in memory, more in a temporary file of the
// user's own.
type spool struct {
	size int64
	held []byte // not in the file
	f    *os.File
}

func (s *spool) write(b []byte) error {
	s.size += int64(len(b))
	if len(s.held)+len(b) > spoolMemory {
		if err := s.spill(); err != nil {
			return err
		}
	}
	if len(b) > spoolMemory {
		_, err := s.f.Write(b)
		return err
	}
	s.held = append(s.held, b...)
	return nil
}

// spill moves what is held into the file.
func (s *spool) spill() (err error) {
	if s.f == nil {
		if s.f, err = os.CreateTemp("", "zksh-*"); err != nil {
			return fmt.Errorf("cannot create a temporary file: %w", err)
		}
		_ = os.Remove(s.f.Name()) // nobody else finds it then; where that fails, close does it
	}
	_, err = s.f.Write(s.held)
	s.held = s.held[:0]
	return err
}

// flush is called once all is written.
func (s *spool) flush() error {
	if s.f == nil {
		return nil
	}
	return s.spill()
}

func (s *spool) read(b []byte, at int64) error {
	if s.f == nil {
		copy(b, s.held[at:])
		return nil
	}
	_, err := s.f.ReadAt(b, at)
	return err
}

// aheadBytes are read from a spool at once by who goes through it.
const aheadBytes = 64 << 10

// ahead reads a spool from the front to the back. It is for one goroutine.
type ahead struct {
	s   *spool
	buf []byte
	at  int64 // where that is
}

func (a *ahead) read(b []byte, at int64) error {
	if a.s.f == nil || len(b) > aheadBytes {
		return a.s.read(b, at)
	}
	if end := at + int64(len(b)); at < a.at || end > a.at+int64(len(a.buf)) {
		a.at, a.buf = at, slices.Grow(a.buf[:0], aheadBytes)[:min(aheadBytes, a.s.size-at)]
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
