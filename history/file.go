package history

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/zksh/zksh/internal/userfile"
)

const (
	maxBytes = 16 << 20 // size of the file, in bytes, above which it is trimmed
	maxLine  = 64 << 10 // maximum length of a saved line, in bytes; a longer one is probably pasted
)

// A File is a history file with one command line per line, oldest first. See entryText for the
// format. Several shells can share a
// file, so each access takes an advisory lock on it. Another shell may trim the file by replacing
// it, so each access also checks that the open file is still the one at the path.
type File struct {
	path     string
	maxLines int // number of lines to keep when the file is trimmed

	mu        sync.Mutex // guards the fields below
	f         *os.File   // open history file; nil after Close
	bytesRead int64      // number of bytes of the file that have been read
	lines     int        // number of lines in those bytes
	last      string     // last line in those bytes, or empty if its line end is missing
}

// Open opens the history file at path, or creates it if it does not exist. The file keeps at least
// the newest maxLines lines.
func Open(path string, maxLines int) (*File, error) {
	if maxLines < 1 {
		return nil, fmt.Errorf("history: invalid number of lines %d: must be at least 1", maxLines)
	}
	h := &File{path: path, maxLines: maxLines}
	if err := h.reopen(); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return h, nil
}

// Append adds a line to the file. It skips a line that is empty, begins with a space, contains
// credentials, is longer than 64 KiB, or repeats the last line of the file in the same place and
// with the same exit status.
func (h *File) Append(e Entry) error {
	if strings.ContainsAny(e.Line, "\r\n") {
		return errors.New("history: cannot save a line that contains a line break")
	}
	if e.Line == "" || len(e.Line) > maxLine || isPrivate(e.Line) {
		return nil
	}
	return h.locked(func() error {
		text := entryText(e)
		last, written := parseEntry(h.last), parseEntry(text)
		if last.Time = written.Time; last == written {
			return nil
		}
		if err := h.write(text + "\n"); err != nil {
			return err
		}
		if h.lines <= 2*h.maxLines && h.bytesRead <= maxBytes {
			return nil
		}
		// Replace the file by a new one with the newest lines. Every shell, including this one,
		// opens the new file when it next takes the lock.
		kept, err := h.newest()
		if err != nil {
			return err
		}
		return userfile.Replace(h.path, kept, 0o600)
	})
}

// Entries returns the newest lines, oldest first. It returns at most the number of lines that was
// passed to Open.
func (h *File) Entries() ([]Entry, error) {
	var entries []Entry
	err := h.locked(func() error {
		kept, err := h.newest()
		entries = make([]Entry, 0, bytes.Count(kept, []byte("\n"))+1)
		for line := range strings.Lines(string(kept)) {
			entries = append(entries, parseEntry(strings.TrimSuffix(line, "\n")))
		}
		return err
	})
	return entries, err
}

// entryText returns the text of an entry in the file: #, the time, the exit status and the place,
// separated by spaces, then a tab and the line. Older versions of zksh stored only the line. No
// such line begins with #, because zksh does not store comments.
func entryText(e Entry) string {
	place := strings.Map(func(r rune) rune {
		if r < ' ' {
			return '?'
		}
		return r
	}, e.Place)
	if hasSecret(place) {
		place = ""
	}
	return fmt.Sprintf("#%d %d %s\t%s", e.Time, e.Status, place, e.Line)
}

// parseEntry parses a line of the file. If the line does not have the form of entryText, it
// contains only the command line.
func parseEntry(text string) Entry {
	if rest, ok := strings.CutPrefix(text, "#"); ok {
		head, line, tab := strings.Cut(rest, "\t")
		when, head, _ := strings.Cut(head, " ")
		status, place, space := strings.Cut(head, " ")
		t, timeErr := strconv.ParseInt(when, 10, 64)
		n, statusErr := strconv.Atoi(status)
		if tab && space && timeErr == nil && statusErr == nil {
			return Entry{Line: line, Place: place, Time: t, Status: n}
		}
	}
	return Entry{Line: text, Status: UnknownStatus}
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

// locked locks the file at the path, reads the lines that were added since the last access, and
// calls access. It unlocks the file before it returns.
func (h *File) locked(access func() error) (err error) {
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
	return access()
}

// lockCurrent locks the file at the path. If another shell has replaced the file, lockCurrent opens
// and locks the new one.
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
	return fmt.Errorf("cannot lock the history file %s: other programs keep replacing it", h.path)
}

// reopen opens the file at the path, and closes the file that was previously open.
func (h *File) reopen() error {
	f, err := userfile.Open(h.path, os.O_APPEND)
	if err != nil {
		return err
	}
	if h.f != nil {
		_ = h.f.Close() // the error does not matter, because no data is buffered
	}
	h.f, h.bytesRead, h.lines, h.last = f, 0, 0, ""
	return nil
}

// catchUp reads the bytes that were added to the file since the last access.
func (h *File) catchUp() error {
	info, err := h.f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < h.bytesRead { // another program truncated the file
		h.bytesRead, h.lines, h.last = 0, 0, ""
	}
	// Read at most the last maxBytes of the file. A longer file is trimmed at the next Append
	// anyway.
	h.bytesRead = max(h.bytesRead, info.Size()-maxBytes)
	added := make([]byte, info.Size()-h.bytesRead)
	if _, err := h.f.ReadAt(added, h.bytesRead); err != nil {
		return err
	}
	h.noteAdded(added)
	return nil
}

// noteAdded updates bytesRead, lines and last for data that was added at the end of the file.
func (h *File) noteAdded(data []byte) {
	h.bytesRead += int64(len(data))
	h.lines += bytes.Count(data, []byte("\n"))
	if text := bytes.TrimSuffix(data, []byte("\n")); len(text) < len(data) {
		h.last = string(text[bytes.LastIndexByte(text, '\n')+1:])
	} else if len(data) > 0 {
		h.last = "" // Append does not compare new lines with an incomplete one
	}
}

// write appends text with a single write(2). If only a part of text was written, for example
// because the disk is full, write removes that part again.
func (h *File) write(text string) error {
	// If the last line of the file has no line end, add one first.
	end := make([]byte, 1)
	if h.bytesRead > 0 {
		if _, err := h.f.ReadAt(end, h.bytesRead-1); err != nil {
			return err
		}
		if end[0] != '\n' {
			text = "\n" + text
		}
	}
	if _, err := h.f.WriteString(text); err != nil {
		return errors.Join(err, h.f.Truncate(h.bytesRead))
	}
	h.noteAdded([]byte(text))
	return nil
}

// newest returns the lines to keep when the file is trimmed: the newest h.maxLines lines, but at
// most half of maxBytes. A file of long lines is then not trimmed again at each Append.
func (h *File) newest() ([]byte, error) {
	from := max(0, h.bytesRead-maxBytes/2)
	data := make([]byte, h.bytesRead-from)
	if _, err := h.f.ReadAt(data, from); err != nil && err != io.EOF {
		return nil, err
	}
	if from > 0 { // data probably begins in the middle of a line; drop the rest of that line
		data = data[bytes.IndexByte(data, '\n')+1:]
	}
	start := len(bytes.TrimSuffix(data, []byte("\n")))
	for range h.maxLines {
		if start = bytes.LastIndexByte(data[:start], '\n'); start < 0 {
			return data, nil
		}
	}
	return data[start+1:], nil
}
