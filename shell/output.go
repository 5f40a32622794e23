package shell

import (
	"io"

	"github.com/zksh/zksh/shell/exit"
)

// An Output is one of the two streams to which a shell writes: standard output or standard error.
type Output struct {
	W    io.Writer
	TTY  bool                       // whether W is a terminal
	Dumb bool                       // whether the terminal does not understand control sequences
	Size func() (columns, rows int) // size of the terminal; unknown if Size is nil or returns zeros

	Plain bool // whether to print no bold text
}

// size returns the size of the terminal, or 80 by 24 if it is unknown.
func (o *Output) size() (columns, rows int) {
	if o.Size != nil {
		columns, rows = o.Size()
	}
	if columns == 0 || rows == 0 {
		return 80, 24
	}
	return columns, rows
}

// columns returns the width of the terminal, or 0 if it is unknown or there is no terminal.
func (o *Output) columns() int {
	if !o.TTY || o.Size == nil {
		return 0
	}
	columns, _ := o.Size()
	return columns
}

// A reportingWriter makes the error of a failed write an exit.WriteError. An answer can be read from a
// server while it is printed, so only the writer knows which of the two has failed.
type reportingWriter struct{ w io.Writer }

func (r reportingWriter) Write(p []byte) (int, error) {
	n, err := r.w.Write(p)
	return n, exit.AsWriteError(err)
}

// answers is a writer to standard output that can combine several answers into a single write.
type answers struct {
	w         io.Writer
	buffering bool
	buffer    []byte
	err       error // error of the last write, until takeError returns it
}

// maxBuffered is the size, in bytes, above which the buffered answers are written without waiting
// for flush.
const maxBuffered = 32 << 10

// Write appends p to the buffer, or writes it at once if buffering is off.
func (a *answers) Write(p []byte) (int, error) {
	if !a.buffering {
		return a.w.Write(p)
	}
	if a.buffer = append(a.buffer, p...); len(a.buffer) > maxBuffered {
		a.flush()
	}
	return len(p), a.takeError()
}

func (a *answers) flush() {
	if len(a.buffer) > 0 && a.err == nil {
		_, a.err = a.w.Write(a.buffer)
	}
	a.buffer = a.buffer[:0]
}

// takeError returns the error of the last write, and clears it.
func (a *answers) takeError() (err error) {
	err, a.err = a.err, nil
	return err
}

// buffer makes the screen buffer answers until flush is called or something else is printed.
func (s *screen) buffer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers.buffering = true
}

// flush prints the buffered answers and stops buffering.
func (s *screen) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers.buffering = false
	s.answers.flush()
	return s.answers.takeError()
}
