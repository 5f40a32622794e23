package undo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/zksh/zksh/internal/userfile"
)

// ToFile returns a Saver that writes to a new file with the given name. The file contains one dump
// for each operation, and the command import can read it. isQueued reports whether a znode with the
// given name belongs to a lock queue.
func ToFile(name string, isQueued func(name string) bool) (*Saver, error) {
	if userfile.IsStream(name) {
		return nil, fmt.Errorf("%s is a stream, from which import cannot read; specify a new file with --undo", name)
	}
	if _, err := os.Lstat(name); err == nil {
		return nil, fmt.Errorf("%s already exists; specify a new file with --undo", name)
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return &Saver{backend: &fileBackend{name: name}, inQueue: isQueued}, nil
}

// fileBackend is a backend that writes all operations to a single file. It creates the file when it
// saves the first operation.
type fileBackend struct {
	name string
	f    *os.File
	end  int64 // offset in the file at which the last saved operation ends
	last int64 // offset in the file at which the last saved operation starts
}

// begin implements backend.
func (s *fileBackend) begin() (draft, error) {
	if s.f == nil {
		f, err := os.OpenFile(s.name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, err
		}
		s.f = f
	}
	return &fileDraft{s: s, at: s.end}, nil
}

// update implements backend. It does nothing, because a dump does not record the outcome of an
// operation.
func (s *fileBackend) update(*entry) error { return nil }

// remove implements backend. Only the last operation in the file can be removed.
func (s *fileBackend) remove(int) error {
	s.end = s.last
	return s.truncate()
}

// forImport implements backend. It returns true, because import reads the file.
func (s *fileBackend) forImport() bool { return true }

// truncate removes everything after the last saved operation from the file. If no operation is
// saved, it removes the file.
func (s *fileBackend) truncate() error {
	if s.end > 0 {
		return s.f.Truncate(s.end)
	}
	f := s.f
	s.f = nil
	return errors.Join(f.Close(), os.Remove(s.name))
}

// fileDraft is a draft that writes an operation to the end of the file.
type fileDraft struct {
	s  *fileBackend
	at int64
}

// Write implements draft.
func (d *fileDraft) Write(p []byte) (int, error) {
	n, err := d.s.f.WriteAt(p, d.at)
	d.at += int64(n)
	return n, err
}

// commit implements draft.
func (d *fileDraft) commit(*entry) error {
	err := d.s.f.Sync()
	if err == nil && d.s.end == 0 {
		err = userfile.SyncDir(filepath.Dir(d.s.name))
	}
	if err != nil {
		return errors.Join(err, d.abort())
	}
	d.s.last, d.s.end = d.s.end, d.at
	return nil
}

// abort implements draft.
func (d *fileDraft) abort() error { return d.s.truncate() }
