package undo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/userfile"
)

// Limits of the undo log.
const (
	maxOperations = 50        // number of operations
	maxOperation  = 64 << 20  // size of the dump, and of the list of edits, of one operation, in bytes
	maxStore      = 256 << 20 // total size of the files of all operations, in bytes
	maxNumber     = 1 << 30   // largest number of an operation; files with higher numbers are ignored
)

// store is the directory of an undo log, which several shells may share. Each operation has three
// files: an entry that describes it, N.json; a list of its edits, N.list; and a dump of the states
// before these edits, N.dump, which import can read. A shell locks the file "lock" while it assigns a
// number, writes an entry, or removes old operations.
//
// Until the first edits are recorded, the dump of an operation is named N.part and is locked by the
// shell that writes it. A command changes nothing before all three files are on disk. If that shell no
// longer runs, nobody needs the .part file, and it is removed. All other files are removed only if the
// entry can be read, because an unreadable entry may belong to the only copy of a subtree.
type store struct{ dir string }

// entry describes an operation. It is stored as JSON in the file N.json.
type entry struct {
	N       int       `json:"-"`
	Command string    `json:"command"`
	Path    string    `json:"path"`             // path relative to the chroot
	Last    string    `json:"last,omitempty"`   // last command of the line and its path, if the line ran several
	Undoes  int       `json:"undoes,omitempty"` // number of the operation that this one undoes, or 0 if it is not an undo
	Servers []string  `json:"servers"`          // the ensemble's servers, each as host:port
	Chroot  string    `json:"chroot,omitempty"`
	Cluster string    `json:"cluster,omitempty"` // name of the cluster in the configuration file, if it has one
	Time    time.Time `json:"time"`
	Bytes   int64     `json:"bytes"` // size of the dump, in bytes
	State   state     `json:"state"`
	Partly  bool      `json:"partly,omitempty"` // whether the operation was undone except for znodes that had changed after it
	By      *Origin   `json:"by,omitempty"`     // nil if an older version of zksh wrote the entry

	counts

	// Seen is the zxid of the latest change to any saved or created znode.
	Seen int64 `json:"seen,omitempty"`
}

// counts are the numbers of znodes that an operation has changed.
type counts struct {
	Znodes  int   `json:"znodes"` // saved states
	Data    int64 `json:"data"`   // total size of their data, in bytes
	Created int   `json:"created,omitempty"`
	// Ephemeral and Queued are the numbers of znodes that undo will not restore, because they were
	// ephemeral or belonged to a lock queue.
	Ephemeral int `json:"ephemeral,omitempty"`
	Queued    int `json:"queued,omitempty"`
}

// A state is the last recorded progress of an operation.
type state string

const (
	begun  state = "begun"  // the outcome is unknown: the operation may have taken effect fully, partly or not at all
	done   state = "done"   // the operation has ended; all its requests were executed or rejected
	undone state = "undone" // the operation was undone
)

// Further states that undo -l can print. They are not stored.
const (
	partlyUndone = "partly undone" // undone, except for znodes that had changed after the operation
	unreadable   = "unreadable"    // the entry or the dump cannot be read
)

func (s *store) file(n int, kind string) string {
	return filepath.Join(s.dir, strconv.Itoa(n)+kind)
}

// Extensions of the names of the files that belong to an operation.
const (
	partFile  = ".part"
	dumpFile  = ".dump"
	listFile  = ".list"
	entryFile = ".json"
)

// withLock calls do while it holds the lock that all shells with this undo log share.
func (s *store) withLock(do func() error) error {
	if err := s.check(); err != nil {
		return err
	}
	f, err := userfile.Open(filepath.Join(s.dir, "lock"), 0)
	if err != nil {
		return err
	}
	if err = os.Chmod(s.dir, 0o700); err == nil { // so that other users cannot add files
		err = userfile.LockSoon(f)
	}
	if err == nil {
		err = do()
	}
	return errors.Join(err, f.Close()) // closing the file also releases the lock
}

// check returns an error if another user may have created the directory of the log, which is then
// unsafe. It returns nil if the directory does not exist yet.
func (s *store) check() error {
	err := userfile.CheckDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// numbers returns the sorted numbers of the operations that have files with these extensions.
func (s *store) numbers(kinds ...string) ([]int, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	files, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var found []int
	for _, f := range files {
		name, isOurs := f.Name(), slices.Contains(kinds, filepath.Ext(f.Name()))
		n, notOne := strconv.Atoi(strings.TrimSuffix(name, filepath.Ext(name)))
		if isOurs && notOne == nil && n > 0 && n < maxNumber {
			found = append(found, n)
		}
	}
	slices.Sort(found)
	return slices.Compact(found), err
}

// begin implements backend. It assigns a number to a new operation and creates the .part file.
func (s *store) begin() (draft, error) {
	d := &storeDraft{s: s}
	err := s.withLock(func() error {
		all, err := s.numbers(partFile, dumpFile, entryFile, listFile)
		if err != nil {
			return err
		}
		d.n = 1
		if len(all) > 0 {
			d.n = all[len(all)-1] + 1
		}
		if d.f, err = userfile.Open(s.file(d.n, partFile), os.O_EXCL); err != nil {
			return err
		}
		if _, err = userfile.Lock(d.f, false); err == nil {
			d.list, err = userfile.Open(s.file(d.n, listFile), os.O_EXCL)
		}
		if err != nil {
			err = errors.Join(err, d.abort())
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// forImport implements backend. It returns false, because import does not read the undo log.
func (s *store) forImport() bool { return false }

// storeDraft is a draft that writes to the files of an operation.
type storeDraft struct {
	s     *store
	n     int
	f     *os.File // the dump
	list  *os.File
	bytes int64                        // size of the dump
	lines int64                        // size of the list
	named bool                         // whether the operation has been added to the log
	kept  struct{ bytes, lines int64 } // the sizes at the last commit
}

// errTooLarge means that what is to be recorded of an operation is too large.
var errTooLarge = fmt.Errorf("the data to save is larger than %d MiB", maxOperation>>20)

// Write implements draft.
func (d *storeDraft) Write(p []byte) (int, error) { return appendTo(d.f, &d.bytes, p) }

// note implements draft.
func (d *storeDraft) note(lines []byte) error {
	_, err := appendTo(d.list, &d.lines, lines)
	return err
}

func appendTo(f *os.File, size *int64, p []byte) (int, error) {
	if *size+int64(len(p)) > maxOperation {
		return 0, errTooLarge
	}
	n, err := f.WriteAt(p, *size)
	*size += int64(n)
	return n, err
}

// close implements draft.
func (d *storeDraft) close() error { return errors.Join(d.f.Close(), d.list.Close()) }

// abort implements draft. If nothing has been committed, it removes the files of the operation.
func (d *storeDraft) abort() error {
	if d.named {
		d.bytes, d.lines = d.kept.bytes, d.kept.lines
		return errors.Join(d.f.Truncate(d.bytes), d.list.Truncate(d.lines))
	}
	var err error
	for _, f := range []*os.File{d.f, d.list} {
		if f == nil {
			continue
		}
		if closed := f.Close(); !errors.Is(closed, os.ErrClosed) {
			err = errors.Join(err, closed)
		}
		err = errors.Join(err, ignoreNotExist(os.Remove(f.Name())))
	}
	return err
}

// commit implements draft. At first, it adds the operation to the log.
func (d *storeDraft) commit(e *entry) error {
	e.N, e.Bytes = d.n, d.bytes
	err := errors.Join(d.f.Sync(), d.list.Sync())
	if err == nil && !d.named {
		err = d.s.withLock(func() error {
			// Write the entry before the dump, because trim never removes a dump without an entry.
			err := errors.Join(d.f.Close(), d.s.write(e)) // Windows does not rename open files
			if err == nil {
				err = os.Rename(d.f.Name(), d.s.file(d.n, dumpFile))
			}
			if err == nil {
				d.f, err = userfile.Open(d.s.file(d.n, dumpFile), 0)
			}
			if err == nil {
				err = userfile.SyncDir(d.s.dir)
			}
			if err == nil {
				err = d.s.trim(e.N)
			}
			if err != nil {
				err = errors.Join(err, d.s.discard(d.n))
			}
			return err
		})
	}
	if err == nil {
		d.named, d.kept.bytes, d.kept.lines = true, d.bytes, d.lines
	}
	return err
}

// write writes the entry of an operation to its file.
func (s *store) write(e *entry) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return userfile.Replace(s.file(e.N, entryFile), append(data, '\n'), 0o600)
}

// update implements backend. It does nothing if the operation has been removed in the meantime.
func (s *store) update(e *entry) error {
	return s.withLock(func() error {
		if _, err := os.Lstat(s.file(e.N, entryFile)); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return s.write(e)
	})
}

func (s *store) remove(n int) error {
	return s.withLock(func() error { return s.discard(n) })
}

// discard removes the files of an operation. It removes the dump first. If zksh crashes after that,
// trim later removes the entry.
func (s *store) discard(n int) error {
	var err error
	for _, kind := range []string{dumpFile, listFile, entryFile} {
		err = errors.Join(err, ignoreNotExist(os.Remove(s.file(n, kind))))
	}
	return err
}

// ignoreNotExist returns nil if err means that a file does not exist. Otherwise it returns err.
func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// trim removes the oldest operations until the log is within its limits. It also removes files that
// killed shells have left. It never removes the operation with the number newest, nor an operation
// whose entry or size cannot be read.
func (s *store) trim(newest int) error {
	all, _, err := s.readAll()
	if err != nil {
		return err
	}
	total := int64(0)
	for i, e := range all { // newest operations first
		size, sizeErr := s.size(e.N)
		total += size
		if sizeErr == nil && e.N != newest && (i >= maxOperations || total > maxStore) {
			err = errors.Join(err, s.discard(e.N))
		}
	}
	return errors.Join(err, s.removeAbandoned())
}

// size returns the total size of the dump and the list of an operation, in bytes.
func (s *store) size(n int) (total int64, err error) {
	for _, kind := range []string{dumpFile, listFile} {
		info, statErr := os.Lstat(s.file(n, kind))
		if statErr == nil {
			total += info.Size()
		}
		err = errors.Join(err, ignoreNotExist(statErr))
	}
	return total, err
}

// removeAbandoned removes the .part files of shells that no longer run.
func (s *store) removeAbandoned() error {
	parts, err := s.numbers(partFile)
	for _, n := range parts {
		f, openErr := userfile.Open(s.file(n, partFile), 0)
		if openErr != nil {
			err = errors.Join(err, openErr)
			continue
		}
		free, lockErr := userfile.Lock(f, false)
		err = errors.Join(err, lockErr, f.Close()) // Windows does not remove open files, so close it first
		if free {
			err = errors.Join(err, os.Remove(f.Name()), ignoreNotExist(os.Remove(s.file(n, listFile))))
		}
	}
	return err
}

// list returns the operations whose entries can be read, newest first.
func (s *store) list() ([]*entry, error) {
	all, _, err := s.readAll()
	return all, err
}

// damaged is an operation whose entry cannot be read.
type damaged struct {
	n     int
	why   error
	entry string // file name of the entry, or empty if there is no entry
	dump  string // file name of the dump, or empty if there is no dump
}

// readAll returns the readable operations, newest first, and the unreadable ones in bad.
func (s *store) readAll() (all []*entry, bad []*damaged, err error) {
	entries, err := s.numbers(entryFile)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range slices.Backward(entries) {
		switch e, err := s.entry(n); {
		case err == nil:
			all = append(all, e)
		case errors.Is(err, fs.ErrNotExist): // another shell has removed the operation
		default:
			bad = append(bad, &damaged{n: n, why: err, entry: s.file(n, entryFile), dump: s.dumpName(n)})
		}
	}
	dumps, err := s.numbers(dumpFile)
	for _, n := range dumps {
		if _, err := os.Lstat(s.file(n, entryFile)); errors.Is(err, fs.ErrNotExist) && s.dumpName(n) != "" {
			bad = append(bad, &damaged{n: n, why: fmt.Errorf("%s is missing", s.file(n, entryFile)), dump: s.dumpName(n)})
		}
	}
	slices.SortFunc(bad, func(a, b *damaged) int { return b.n - a.n })
	return all, bad, err
}

// dumpName returns the file name of an operation's dump, or an empty string if there is no dump.
func (s *store) dumpName(n int) string {
	if _, err := os.Lstat(s.file(n, dumpFile)); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return s.file(n, dumpFile)
}

// noOperation is the error for an operation number that has no entry in the log.
type noOperation int

func (n noOperation) Error() string {
	return fmt.Sprintf("there is no operation %d; to list the operations, run: undo -l", int(n))
}

// Is makes errors.Is(err, fs.ErrNotExist) return true.
func (noOperation) Is(target error) bool { return target == fs.ErrNotExist }

func (s *store) entry(n int) (*entry, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	err := userfile.Check(s.file(n, entryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noOperation(n)
	}
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(s.file(n, entryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noOperation(n)
	}
	if err != nil {
		return nil, err
	}
	e := &entry{N: n}
	err = json.Unmarshal(data, e)
	if err == nil && (e.Command == "" || e.Path == "") {
		err = errors.New("the file does not say which command was run, or on which path")
	}
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", s.file(n, entryFile), err)
	}
	return e, nil
}
