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

// What a store keeps at most.
const (
	maxOperations = 50        // lines whose operations are kept
	maxEntries    = 1000      // operations of all lines
	maxOperation  = 64 << 20  // bytes of one
	maxStore      = 256 << 20 // bytes of all
	maxNumber     = 1 << 30   // of an operation; what has a higher one is no file of ours
)

// store is a folder of operations that destroyed something: of each what was there as a
// dump, N.dump, and an entry about it, N.json. Several shells may share one. Numbers are
// given, entries are written and old ones removed by who has the lock on a file there.
//
// While an operation is being saved its dump is N.part, locked by its writer. Nothing is
// destroyed before both the entry and the dump are on the disk, so a .part file whose writer
// is gone is of no use, and is removed. Nothing else is removed unless its entry could be
// read: what cannot be read may be the only copy of a tree.
type store struct{ dir string }

// entry is what is known of an operation besides what it destroyed.
type entry struct {
	N       int           `json:"-"`
	Command string        `json:"command"`
	Path    string        `json:"path"` // below the chroot
	Of      commands.Lost `json:"of"`
	Servers []string      `json:"servers"` // host:port each
	Chroot  string        `json:"chroot,omitempty"`
	Cluster string        `json:"cluster,omitempty"` // its name, if it has one
	Time    time.Time     `json:"time"`
	Znodes  int           `json:"znodes"`
	Data    int64         `json:"data"`  // bytes of the znodes' data
	Bytes   int64         `json:"bytes"` // of the file
	State   state         `json:"state"`
	Partly  bool          `json:"partly,omitempty"` // undone but for what had changed since
	By      *By           `json:"by,omitempty"`     // nil: an older zksh wrote the entry

	// Line is that of the typed line, and Part counts the operations of it from 1.
	Line string `json:"line,omitempty"`
	Part int    `json:"part,omitempty"`

	// Ephemeral and Queued are how many znodes are not brought back, because they were
	// ephemeral or of a lock's queue.
	Ephemeral int `json:"ephemeral,omitempty"`
	Queued    int `json:"queued,omitempty"`

	// Seen is that of the last change in what was kept.
	Seen int64 `json:"seen,omitempty"`
	// Zxid is of LostParts: that of the server's last change when it had ended.
	Zxid int64 `json:"zxid,omitempty"`
	// Wrote is of LostData: the hash of what was to be written.
	Wrote string `json:"wrote,omitempty"`
	// Left is of LostACLs: that of the root when it had ended, and so of all; nil: unknown.
	Left []zk.ACL `json:"left,omitempty"`
}

// state is how far an operation is known to have come.
type state string

const (
	begun  state = "begun"  // all of it may have been done, or nothing
	done   state = "done"   // all of it, or what was not refused
	undone state = "undone" // it was undone
)

// stateJSON is the state in JSON of an operation whose entry is partly undone, and of an
// entry that cannot be read.
const (
	partlyUndone = "partly undone"
	unreadable   = "unreadable"
)

func (s *store) file(n int, kind string) string {
	return filepath.Join(s.dir, strconv.Itoa(n)+kind)
}

// The files of an operation.
const (
	partFile  = ".part"
	dumpFile  = ".dump"
	entryFile = ".json"
)

// locked runs do while no other shell does.
func (s *store) locked(do func() error) error {
	if err := s.check(); err != nil {
		return err
	}
	f, err := userfile.Open(filepath.Join(s.dir, "lock"), 0)
	if err != nil {
		return err
	}
	if err = os.Chmod(s.dir, 0o700); err == nil { // nobody else puts there what undo would bring back
		err = userfile.LockSoon(f)
	}
	if err == nil {
		err = do()
	}
	return errors.Join(err, f.Close()) // which releases the lock
}

// check returns an error if the folder is one that somebody else could have put there. One
// that does not exist yet is fine.
func (s *store) check() error {
	err := userfile.CheckDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// numbers are those of the files of a kind, in their order.
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

// begin makes room for one more operation, and a file for what it destroys.
func (s *store) begin() (draft, error) {
	d := &storeDraft{s: s}
	return d, s.locked(func() error {
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
			err = errors.Join(err, d.drop())
		}
		return err
	})
}

// whole is part of shelf: undo needs to know no more than what was lost.
func (s *store) whole() bool { return false }

// storeDraft is the file of an operation that is being kept.
type storeDraft struct {
	s     *store
	n     int
	f     *os.File
	bytes int64
}

// errTooLarge is that of an operation which is not kept for its size.
var errTooLarge = fmt.Errorf("the data to save is larger than %d MiB", maxOperation>>20)

// Write is part of io.Writer.
func (d *storeDraft) Write(p []byte) (int, error) {
	if d.bytes += int64(len(p)); d.bytes > maxOperation {
		return 0, errTooLarge
	}
	return d.f.Write(p)
}

// drop removes it.
func (d *storeDraft) drop() error {
	return errors.Join(d.f.Close(), os.Remove(d.f.Name()))
}

// keep makes an operation of it, and removes what is too old by now.
func (d *storeDraft) keep(e *entry) error {
	e.N, e.Bytes, e.State = d.n, d.bytes, begun
	if err := d.f.Sync(); err != nil {
		return errors.Join(err, d.drop())
	}
	return d.s.locked(func() error {
		err := d.f.Close()
		if err == nil { // the entry first: trim can remove one without a dump, and never a dump without one
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
			return errors.Join(err, absent(os.Remove(d.f.Name())), d.s.discard(d.n))
		}
		return nil
	})
}

// write writes the entry of an operation.
func (s *store) write(e *entry) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return userfile.Replace(s.file(e.N, entryFile), append(data, '\n'), 0o600)
}

// update writes what has become of an operation that may have been removed meanwhile.
func (s *store) update(e *entry) error {
	return s.locked(func() error {
		if _, err := os.Lstat(s.file(e.N, entryFile)); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return s.write(e)
	})
}

// remove forgets an operation.
func (s *store) remove(n int) error {
	return s.locked(func() error { return s.discard(n) })
}

// discard removes the files of an operation. The dump goes first: after a crash in between,
// trim finds the entry and goes on.
func (s *store) discard(n int) error {
	return errors.Join(absent(os.Remove(s.file(n, dumpFile))), absent(os.Remove(s.file(n, entryFile))))
}

// absent is err, or nil if there is no such file.
func absent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// trim removes operations, oldest first, until the rest is within the bounds, and what
// shells that were killed have left behind. The newest stays, and so does each whose entry
// or size cannot be read.
func (s *store) trim(newest int) error {
	all, _, err := s.read()
	if err != nil {
		return err
	}
	total, lines, seen := int64(0), 0, map[string]bool{}
	for i, e := range all { // newest first
		size, sizeErr := s.size(e.N)
		total += size
		if e.Line == "" || !seen[e.Line] {
			lines++
		}
		seen[e.Line] = true
		if sizeErr == nil && e.N != newest && (lines > maxOperations || i >= maxEntries || total > maxStore) {
			err = errors.Join(err, s.discard(e.N))
		}
	}
	return errors.Join(err, s.sweep())
}

// size is that of an operation's dump; 0: it has none.
func (s *store) size(n int) (int64, error) {
	info, err := os.Lstat(s.file(n, dumpFile))
	if err != nil {
		return 0, absent(err)
	}
	return info.Size(), nil
}

// sweep removes what was being kept by shells that are no more.
func (s *store) sweep() error {
	parts, err := s.numbers(partFile)
	for _, n := range parts {
		f, openErr := userfile.Open(s.file(n, partFile), 0)
		if openErr != nil {
			err = errors.Join(err, openErr)
			continue
		}
		free, lockErr := userfile.Lock(f, false)
		err = errors.Join(err, lockErr, f.Close()) // first: Windows removes no open file
		if free {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}
	return err
}

// list are the operations whose entries can be read, newest first.
func (s *store) list() ([]*entry, error) {
	all, _, err := s.read()
	return all, err
}

// damaged is an operation whose entry cannot be read.
type damaged struct {
	n     int
	why   error
	entry string // the file; empty: there is none
	dump  string // the same
}

// read returns the operations, newest first, and those whose entries cannot be read.
func (s *store) read() (all []*entry, bad []*damaged, err error) {
	entries, err := s.numbers(entryFile)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range slices.Backward(entries) {
		switch e, err := s.entry(n); {
		case err == nil:
			all = append(all, e)
		case errors.Is(err, fs.ErrNotExist): // another shell has removed it meanwhile
		default:
			bad = append(bad, &damaged{n: n, why: err, entry: s.file(n, entryFile), dump: s.dumpOf(n)})
		}
	}
	dumps, err := s.numbers(dumpFile)
	for _, n := range dumps {
		if _, err := os.Lstat(s.file(n, entryFile)); errors.Is(err, fs.ErrNotExist) && s.dumpOf(n) != "" {
			bad = append(bad, &damaged{n: n, why: fmt.Errorf("%s is missing", s.file(n, entryFile)), dump: s.dumpOf(n)})
		}
	}
	slices.SortFunc(bad, func(a, b *damaged) int { return b.n - a.n })
	return all, bad, err
}

// dumpOf is the file of an operation's dump, or empty if there is none.
func (s *store) dumpOf(n int) string {
	if _, err := os.Lstat(s.file(n, dumpFile)); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return s.file(n, dumpFile)
}

// noOperation is the error of a number that has no entry.
type noOperation int

func (n noOperation) Error() string {
	return fmt.Sprintf("there is no operation %d; to list the operations, run: undo -l", int(n))
}

// Is reports whether target is that of a file that does not exist.
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
