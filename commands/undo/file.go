package undo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/zksh/zksh/internal/userfile"
)

// ToFile keeps what is destroyed in a file that is made for it, and that import reads: one
// dump for each operation, behind each other. queue is as in Log.
func ToFile(name string, queue func(name string) bool) (*Keeper, error) {
	if _, err := os.Lstat(name); err == nil {
		return nil, fmt.Errorf("%s already exists; specify a new file with --undo", name)
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return &Keeper{shelf: &file{name: name}, queue: queue}, nil
}

// file is a shelf of one process. It is made when there is something to be kept.
type file struct {
	name string
	f    *os.File
	end  int64 // of what is kept
	last int64 // where the last operation begins
}

// begin is part of shelf.
func (s *file) begin() (draft, error) {
	if s.f == nil {
		f, err := os.OpenFile(s.name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, err
		}
		s.f = f
	}
	return &fileDraft{s: s, at: s.end}, nil
}

// update is part of shelf: a dump does not say what has become of it.
func (s *file) update(*entry) error { return nil }

// remove is part of shelf. It is the last one.
func (s *file) remove(int) error {
	s.end = s.last
	return s.cut()
}

// whole is part of shelf.
func (s *file) whole() bool { return true }

// cut takes away what is behind the end. Without anything there is no file.
func (s *file) cut() error {
	if s.end > 0 {
		return s.f.Truncate(s.end)
	}
	f := s.f
	s.f = nil
	return errors.Join(f.Close(), os.Remove(s.name))
}

// fileDraft is what is written at the file's end.
type fileDraft struct {
	s  *file
	at int64
}

// Write is part of draft.
func (d *fileDraft) Write(p []byte) (int, error) {
	n, err := d.s.f.WriteAt(p, d.at)
	d.at += int64(n)
	return n, err
}

// keep is part of draft.
func (d *fileDraft) keep(*entry) error {
	err := d.s.f.Sync()
	if err == nil && d.s.end == 0 {
		err = userfile.SyncDir(filepath.Dir(d.s.name))
	}
	if err != nil {
		return errors.Join(err, d.drop())
	}
	d.s.last, d.s.end = d.s.end, d.at
	return nil
}

// drop is part of draft.
func (d *fileDraft) drop() error { return d.s.cut() }
