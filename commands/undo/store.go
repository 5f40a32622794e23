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

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/userfile"
)

// Limits of the undo log.
const (
	maxOperations = 50        // number of operations, where all operations of a line count as one
	maxEntries    = 1000      // number of operations, each counted on its own
	maxOperation  = 64 << 20  // size of the dump of one operation, in bytes
	maxStore      = 256 << 20 // total size of the dumps of all operations, in bytes
	maxNumber     = 1 << 30   // largest number of an operation; files with higher numbers are ignored
)

// store is the directory of an undo log, which several shells may share. Each operation has two
// files: a dump of the data that it destroyed, N.dump, and an entry that describes it, N.json. A
// shell locks the file "lock" while it assigns a number, writes an entry, or removes old
// operations.
//
// While an operation is being saved, its dump is named N.part and is locked by the shell that
// writes it. A command destroys nothing before both files are on disk. If that shell no longer
// runs, nobody needs the .part file, and it is removed. All other files are removed only if the
// entry can be read, because an unreadable entry may belong to the only copy of a subtree.
type store struct{ dir string }

// entry describes an operation. It is stored as JSON in the file N.json.
type entry struct {
	N       int           `json:"-"`
	Command string        `json:"command"`
	Path    string        `json:"path"` // path relative to the chroot
	Of      commands.Lost `json:"of"`
	Servers []string      `json:"servers"` // the ensemble's servers, each as host:port
	Chroot  string        `json:"chroot,omitempty"`
	Cluster string        `json:"cluster,omitempty"` // name of the cluster in the configuration file, if it has one
	Time    time.Time     `json:"time"`
	Znodes  int           `json:"znodes"`
	Data    int64         `json:"data"`  // total size of the znodes' data, in bytes
	Bytes   int64         `json:"bytes"` // size of the dump, in bytes
	State   state         `json:"state"`
	Partly  bool          `json:"partly,omitempty"` // whether the operation was undone except for znodes that had changed after it
	By      *Origin       `json:"by,omitempty"`     // nil if an older version of zksh wrote the entry

	// Line identifies a line typed at the prompt. Part numbers the operations of a line, from 1.
	Line string `json:"line,omitempty"`
	Part int    `json:"part,omitempty"`

	// Ephemeral and Queued are the numbers of znodes that undo will not restore, because they were
	// ephemeral or belonged to a lock queue.
	Ephemeral int `json:"ephemeral,omitempty"`
	Queued    int `json:"queued,omitempty"`

	// Seen is the zxid of the latest change to any saved znode.
	Seen int64 `json:"seen,omitempty"`
	// Zxid is the server's last zxid after the operation. It is set only if Of is LostParts.
	Zxid int64 `json:"zxid,omitempty"`
	// Wrote is a hash of the data that the operation wrote. It is set only if Of is LostData.
	Wrote string `json:"wrote,omitempty"`
	// Left is the ACL of the root after an operation that set ACLs, or nil if unknown.
	Left []zk.ACL `json:"left,omitempty"`
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
	return d, s.withLock(func() error {
		all, err := s.numbers(partFile, dumpFile, entryFile)
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
		if _, err = userfile.Lock(d.f, false); err != nil {
			err = errors.Join(err, d.abort())
		}
		return err
	})
}

// forImport implements backend. It returns false, because import does not read the undo log.
func (s *store) forImport() bool { return false }

// storeDraft is a draft that writes to the .part file of an operation.
type storeDraft struct {
	s     *store
	n     int
	f     *os.File
	bytes int64
}

// errTooLarge means that the data that an operation would destroy is too large to be saved.
var errTooLarge = fmt.Errorf("the data to save is larger than %d MiB", maxOperation>>20)

// Write implements io.Writer.
func (d *storeDraft) Write(p []byte) (int, error) {
	if d.bytes += int64(len(p)); d.bytes > maxOperation {
		return 0, errTooLarge
	}
	return d.f.Write(p)
}

// abort implements draft. It removes the .part file of the operation.
func (d *storeDraft) abort() error {
	return errors.Join(d.f.Close(), os.Remove(d.f.Name()))
}

// commit implements draft. It adds the operation to the log, and then trims the log.
func (d *storeDraft) commit(e *entry) error {
	e.N, e.Bytes, e.State = d.n, d.bytes, begun
	if err := d.f.Sync(); err != nil {
		return errors.Join(err, d.abort())
	}
	return d.s.withLock(func() error {
		err := d.f.Close()
		// Write the entry before the dump, because trim never removes a dump without an entry.
		if err == nil {
			err = d.s.write(e)
		}
		if err == nil {
			err = os.Rename(d.f.Name(), d.s.file(d.n, dumpFile))
		}
		if err == nil {
			err = userfile.SyncDir(d.s.dir)
		}
		if err == nil {
			err = d.s.trimAfter(e)
		}
		if err != nil {
			return errors.Join(err, ignoreNotExist(os.Remove(d.f.Name())), d.s.discard(d.n))
		}
		return nil
	})
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
	return errors.Join(ignoreNotExist(os.Remove(s.file(n, dumpFile))), ignoreNotExist(os.Remove(s.file(n, entryFile))))
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
	total, lines, seen := int64(0), 0, map[string]bool{}
	for i, e := range all { // newest operations first
		size, sizeErr := s.dumpSize(e.N)
		total += size
		if e.Line == "" || !seen[e.Line] {
			lines++
		}
		seen[e.Line] = true
		if sizeErr == nil && e.N != newest && (lines > maxOperations || i >= maxEntries || total > maxStore) {
			err = errors.Join(err, s.discard(e.N))
		}
	}
	return errors.Join(err, s.removeAbandoned())
}

// dumpSize returns the size of an operation's dump in bytes, or 0 if there is no dump.
func (s *store) dumpSize(n int) (int64, error) {
	info, err := os.Lstat(s.file(n, dumpFile))
	if err != nil {
		return 0, ignoreNotExist(err)
	}
	return info.Size(), nil
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
			err = errors.Join(err, os.Remove(f.Name()))
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
