// Package cast writes recordings of a terminal in the format asciicast 2, which asciinema plays.
// A recording is a file with a header line in JSON, and then one line for each write to the
// terminal.
package cast

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/zksh/zksh/internal/userfile"
)

// Size of the recorded terminal if the output does not go to a terminal.
const defaultColumns, defaultRows = 80, 24

// A Recorder records what is written to it as the output of a terminal. It writes each output to
// its file at once, so the file is a valid recording even if the program crashes. A Recorder is
// safe for concurrent use.
type Recorder struct {
	size func() (columns, rows int)

	mu            sync.Mutex
	file          *os.File
	start         time.Time
	skipped       time.Duration // total of the calls of Skip
	columns, rows int           // size of the terminal as recorded so far
	rest          []byte        // beginning of a character whose end has not been written yet
	err           error         // first error from writing to the file
}

// Create creates a recording with the given file name and title. size returns the current size of
// the terminal, or zeros if there is none.
func Create(name, title string, size func() (columns, rows int)) (*Recorder, error) {
	f, err := userfile.OpenToWrite(userfile.Home(name), os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return nil, err
	}
	r := &Recorder{size: size, file: f, start: time.Now()}
	r.columns, r.rows = r.currentSize()
	r.line(map[string]any{"version": 2, "width": r.columns, "height": r.rows, "timestamp": r.start.Unix(), "title": title})
	return r, nil
}

func (r *Recorder) currentSize() (columns, rows int) {
	if columns, rows = r.size(); columns == 0 || rows == 0 {
		return defaultColumns, defaultRows
	}
	return columns, rows
}

// Write records output of the terminal. It always succeeds, because an error of the recording must
// not end the recorded command; Close returns the error.
func (r *Recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if columns, rows := r.currentSize(); columns != r.columns || rows != r.rows {
		r.columns, r.rows = columns, rows
		r.event("r", fmt.Sprintf("%dx%d", columns, rows))
	}
	text := append(r.rest, p...)
	complete := len(text)
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if first := len(text) - i; utf8.RuneStart(text[first]) {
			if !utf8.FullRune(text[first:]) {
				complete = first
			}
			break
		}
	}
	r.rest = append([]byte(nil), text[complete:]...)
	if complete > 0 {
		// The terminal driver replaces \n by \r\n. A recording contains its result.
		r.event("o", strings.ReplaceAll(string(text[:complete]), "\n", "\r\n"))
	}
	return len(p), nil
}

// Skip makes the recording continue as if the given time had passed.
func (r *Recorder) Skip(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skipped += d
}

// event records an event of the given kind. The caller must hold mu.
func (r *Recorder) event(kind, data string) {
	r.line([]any{(time.Since(r.start) + r.skipped).Seconds(), kind, data})
}

// line writes a line of the file with a single write. The caller must hold mu.
func (r *Recorder) line(value any) {
	b, err := json.Marshal(value)
	if err == nil {
		_, err = r.file.Write(append(b, '\n'))
	}
	if r.err == nil {
		r.err = err
	}
}

// Close closes the file. It returns the first error that occurred while recording.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	closing := r.file.Close()
	if r.err == nil {
		r.err = closing
	}
	if r.err != nil {
		return fmt.Errorf("the recording is incomplete: %w", r.err)
	}
	return nil
}
