package shell

import (
	"io"
)

// Output is one of the two streams a shell writes to.
type Output struct {
	W    io.Writer
	TTY  bool                       // it is a terminal
	Dumb bool                       // one that knows no control sequences
	Size func() (columns, rows int) // of the terminal; nil or zeros: not known

	Plain bool // no bold text
}

// size is that of the terminal; one that does not know its size counts as 80 by 24.
func (o *Output) size() (columns, rows int) {
	if o.Size != nil {
		columns, rows = o.Size()
	}
	if columns == 0 || rows == 0 {
		return 80, 24
	}
	return columns, rows
}

// columns is how many the terminal is known to have; 0: not known.
func (o *Output) columns() int {
	if !o.TTY || o.Size == nil {
		return 0
	}
	columns, _ := o.Size()
	return columns
}

// answers is standard output. Answers that come close together can go out in one write.
type answers struct {
	w         io.Writer
	buffering bool
	buffer    []byte
	err       error // of a write, until it is returned
}

// maxBuffered is the number of bytes of answers after which they do not wait for more.
const maxBuffered = 32 << 10

// Write writes at once, or into the buffer.
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

// takeError returns the error of a write, once.
func (a *answers) takeError() (err error) {
	err, a.err = a.err, nil
	return err
}

// buffer makes answers wait until flush, or until something else is printed.
func (s *screen) buffer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers.buffering = true
}

// flush prints the answers that wait.
func (s *screen) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers.buffering = false
	s.answers.flush()
	return s.answers.takeError()
}
