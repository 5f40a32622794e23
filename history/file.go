package history

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/zksh/zksh/internal/userfile"
)

const (
	maxBytes = 4 << 20  // the file is trimmed above this
	maxLine  = 64 << 10 // a longer line is data that was pasted, not worth recalling
)

// File is a history file, one line per line, oldest first. Several shells may
// share one: every access takes an advisory lock on the file, and since
// trimming puts a new file in its place, every access also checks that the
// open file is still the one at the path.
type File struct {
	path string
	max  int

	mu    sync.Mutex
	f     *os.File // nil once closed
	seen  int64    // how far the file has been read
	lines int      // lines up to there
	last  string   // the last of them
}

// Open opens the history file at path as userfile.Open does. The file keeps at
// least the newest maxLines lines.
func Open(path string, maxLines int) (*File, error) {
	if maxLines < 1 {
		return nil, fmt.Errorf("history: invalid number of lines %d: must be at least 1", maxLines)
	}
	h := &File{path: path, max: maxLines}
	if err := h.reopen(); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return h, nil
}

// Append adds a line, unless it is empty, private (see secret; or it begins
// with a blank), longer than 64 KiB, or the same as the last one in the file.
func (h *File) Append(line string) error {
	if strings.ContainsAny(line, "\r\n") {
		return errors.New("history: cannot save a line that contains a line break")
	}
	if line == "" || len(line) > maxLine || private(line) {
		return nil
	}
	return h.locked(func() error {
		if line == h.last {
			return nil
		}
		if err := h.write(line + "\n"); err != nil {
			return err
		}
		if h.lines <= 2*h.max && h.seen <= maxBytes {
			return nil
		}
		// A new file with the newest lines takes the place of the old one. All shells,
		// this one too, find out when they next take the lock.
		kept, err := h.newest()
		if err != nil {
			return err
		}
		return userfile.Replace(h.path, kept, 0o600)
	})
}

// Lines returns the newest lines, at most as many as the file was opened to
// keep, oldest first.
func (h *File) Lines() ([]string, error) {
	var lines []string
	err := h.locked(func() error {
		kept, err := h.newest()
		for line := range strings.Lines(string(kept)) {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
		return err
	})
	return lines, err
}

// Close closes the file. Later calls fail with os.ErrClosed.
func (h *File) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.f == nil {
		return nil
	}
	err := h.f.Close()
	h.f = nil
	return err
}

// locked runs do with the file at the path open, locked and read to its end.
func (h *File) locked(do func() error) (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() {
		if err != nil {
			err = fmt.Errorf("history: %w", err)
		}
	}()
	if h.f == nil {
		return os.ErrClosed
	}
	if err := h.lockCurrent(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, userfile.Unlock(h.f)) }()
	if err := h.catchUp(); err != nil {
		return err
	}
	return do()
}

// lockCurrent locks the open file and, if another shell has meanwhile put a
// trimmed one in its place, goes on to that one.
func (h *File) lockCurrent() error {
	for range 1000 {
		if err := userfile.LockSoon(h.f); err != nil {
			return err
		}
		ours, err := h.f.Stat()
		if err == nil {
			var current os.FileInfo
			if current, err = os.Lstat(h.path); err == nil && os.SameFile(ours, current) {
				return nil
			}
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return errors.Join(err, userfile.Unlock(h.f))
		}
		if err := h.reopen(); err != nil {
			return errors.Join(err, userfile.Unlock(h.f))
		}
	}
	return fmt.Errorf("cannot lock %s: other programs keep replacing this file", h.path)
}

// reopen opens the file at the path, releasing the one that was open.
func (h *File) reopen() error {
	f, err := userfile.Open(h.path, os.O_APPEND)
	if err != nil {
		return err
	}
	if h.f != nil {
		_ = h.f.Close() // nothing is buffered, and the file is no longer in use
	}
	h.f, h.seen, h.lines, h.last = f, 0, 0, ""
	return nil
}

// catchUp reads what was added to the file since the last look.
func (h *File) catchUp() error {
	info, err := h.f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < h.seen { // somebody emptied it
		h.seen, h.lines, h.last = 0, 0, ""
	}
	// A file this long is trimmed at the next line, however many it holds.
	h.seen = max(h.seen, info.Size()-maxBytes)
	added := make([]byte, info.Size()-h.seen)
	if _, err := h.f.ReadAt(added, h.seen); err != nil {
		return err
	}
	h.count(added)
	return nil
}

// count takes note of bytes at the end of the file.
func (h *File) count(added []byte) {
	h.seen += int64(len(added))
	h.lines += bytes.Count(added, []byte("\n"))
	if text := bytes.TrimSuffix(added, []byte("\n")); len(text) < len(added) {
		h.last = string(text[bytes.LastIndexByte(text, '\n')+1:])
	} else if len(added) > 0 {
		h.last = "" // a line without its end is of no use for comparing
	}
}

// write appends with one write(2), and leaves nothing behind if that fails
// half-way, on a full disk say.
func (h *File) write(text string) error {
	// Whoever wrote a last line without its end, ours is a line of its own.
	end := make([]byte, 1)
	if h.seen > 0 {
		if _, err := h.f.ReadAt(end, h.seen-1); err != nil {
			return err
		}
		if end[0] != '\n' {
			text = "\n" + text
		}
	}
	if _, err := h.f.WriteString(text); err != nil {
		return errors.Join(err, h.f.Truncate(h.seen))
	}
	h.count([]byte(text))
	return nil
}

// newest returns the lines to keep: the newest h.max, and not more than half of
// maxBytes, so that a file of long lines is not trimmed at every line.
func (h *File) newest() ([]byte, error) {
	from := max(0, h.seen-maxBytes/2)
	data := make([]byte, h.seen-from)
	if _, err := h.f.ReadAt(data, from); err != nil && err != io.EOF {
		return nil, err
	}
	if from > 0 { // most likely the middle of a line
		data = data[bytes.IndexByte(data, '\n')+1:]
	}
	start := len(bytes.TrimSuffix(data, []byte("\n")))
	for range h.max {
		if start = bytes.LastIndexByte(data[:start], '\n'); start < 0 {
			return data, nil
		}
	}
	return data[start+1:], nil
}
