package undo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/zksh/zksh/internal/userfile"
)

// ToFile returns a Recorder that writes the old states of znodes to a new file with the given name. The
// file contains dumps, one after the other, and the command import can read it. isQueued reports
// whether a znode with the given name belongs to a lock queue.
func ToFile(name string, isQueued func(name string) bool) (*Recorder, error) {
	if userfile.IsStream(name) {
		return nil, fmt.Errorf("%s is a stream, from which import cannot read; specify a new file with --undo", name)
	}
	if _, err := os.Lstat(name); err == nil {
		return nil, fmt.Errorf("%s already exists; specify a new file with --undo", name)
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return &Recorder{backend: &fileBackend{name: name}, inQueue: isQueued}, nil
}

// fileBackend is a backend that writes all operations to a single file. It creates the file when it
// saves the first operation.
type fileBackend struct {
	name  string
	f     *os.File
	start int64 // offset in the file at which the latest operation starts
	end   int64 // offset in the file at which the last committed part ends
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
	s.start = s.end
	return &fileDraft{s: s, at: s.end}, nil
}

// update implements backend. It does nothing, because a dump does not record the outcome of an
// operation.
func (s *fileBackend) update(*entry) error { return nil }

// remove implements backend. Only the latest operation in the file can be removed.
func (s *fileBackend) remove(int) error {
	s.end = s.start
	return s.truncate()
}

// forImport implements backend. It returns true, because import reads the file.
func (s *fileBackend) forImport() bool { return true }

// truncate removes everything after the last committed part from the file. If there is none, it
// removes the file.
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

// note implements draft. It does nothing, because import needs only the old states.
func (d *fileDraft) note([]byte) error { return nil }

// commit implements draft.
func (d *fileDraft) commit(*entry) error {
	err := d.s.f.Sync()
	if err == nil && d.s.end == 0 {
		err = userfile.SyncDir(filepath.Dir(d.s.name))
	}
	if err == nil {
		d.s.end = d.at
	}
	return err
}

// abort implements draft.
func (d *fileDraft) abort() error {
	d.at = d.s.end
	return d.s.truncate()
}

// close implements draft. It does nothing, because the next operation uses the same file.
func (d *fileDraft) close() error { return nil }
