package shell

import (
	"errors"
	"fmt"
	"io"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/exit"
)

// step is a line on its way. It is its command's Screen, and keeps what is to be
// printed.
type step struct {
	commands.Screen
	number int
	cmd    string
	line   commands.Line
	before error // told of this line already: what had gone when it came
	trip   *zkconn.Trip
	shown  []func(*Shell) error
	err    error
	stale  bool          // it is to be run again, as one before it is
	ended  chan struct{} // closed when the command has ended

	gathered *gathering // nil: it answers as its command does
}

// work does something beside all else, in a goroutine that has done so before if one is
// free: its stack has grown then. They end with close.
func (w *window) work(do func()) {
	select {
	case w.jobs <- do:
	default:
		go func() {
			for ; do != nil; do = <-w.jobs {
				do()
			}
		}()
	}
}

// begun tells whether the step's request has been handed over, or never will be.
func (st *step) begun() bool {
	select {
	case <-st.trip.Sent:
	case <-st.ended:
	default:
		return false
	}
	return true
}

// sent reports whether a server may have received the request of a step that has ended.
func (st *step) sent() bool { return st.trip.Outcome.Sent() }

// cutOff reports whether a step that has ended got no answer to its request: the
// connection was lost, or the batch was interrupted.
func (st *step) cutOff() bool {
	return st.trip.Cut || errors.Is(st.err, exit.Interrupted) || errors.Is(st.err, exit.Terminated)
}

// cutError says what is known of lines whose answers have not come.
type cutError struct {
	before int // the first of them
	sent   int // the last that may be done; 0: none
	unsent int // the last of those that were not sent; 0: none
	cause  error
}

func newCutError(steps []*step) *cutError {
	e := &cutError{before: steps[0].number, cause: steps[0].err}
	for _, st := range steps {
		if st.sent() {
			e.sent = st.number
		} else {
			e.unsent = st.number
		}
	}
	return e
}

// Error relies on what a server does: it carries the requests of a connection out in
// their order, and when it stops, none behind the first that it has not carried out.
func (e *cutError) Error() string {
	why := "the connection was lost"
	for _, end := range []error{exit.Interrupted, exit.Terminated} {
		if errors.Is(e.cause, end) {
			why = end.Error()
		}
	}
	text := fmt.Sprintf("%s: all lines before line %d are done", why, e.before)
	if e.sent > 0 {
		text += fmt.Sprintf("; lines %d to %d may also be done, in order and without gaps", e.before, e.sent)
	}
	if e.sent > 0 && e.unsent == 0 { // at that moment: a batch that goes on sends the next lines
		text += "; no later line had been sent"
	}
	if e.unsent > 0 {
		text += fmt.Sprintf("; the lines after that, up to line %d, were not sent", e.unsent)
	}
	return text
}

// Unwrap gives the first line's error.
func (e *cutError) Unwrap() error { return e.cause }

// Print is part of commands.Screen.
func (st *step) Print(v render.Value) error {
	st.shown = append(st.shown, func(s *Shell) error { return exit.Unwritten(s.screen.answer(v)) })
	return nil
}

// Note is part of commands.Screen.
func (st *step) Note(text string) {
	st.shown = append(st.shown, func(s *Shell) error { s.env.Screen.Note(text); return nil })
}

// Alert is part of commands.Screen.
func (st *step) Alert(text string) {
	st.shown = append(st.shown, func(s *Shell) error { s.env.Screen.Alert(text); return nil })
}

// answers is standard output. Those that come close together can go out in one write.
type answers struct {
	w    io.Writer
	hold bool
	kept []byte
	err  error // of a write that nobody has been told of
}

// mostKept is how many bytes of answers wait for others at most.
const mostKept = 32 << 10

// Write writes at once, or keeps a part for pour.
func (a *answers) Write(p []byte) (int, error) {
	if !a.hold {
		return a.w.Write(p)
	}
	if a.kept = append(a.kept, p...); len(a.kept) > mostKept {
		a.pour()
	}
	return len(p), a.told()
}

// pour writes what is kept.
func (a *answers) pour() {
	if len(a.kept) > 0 && a.err == nil {
		_, a.err = a.w.Write(a.kept)
	}
	a.kept = a.kept[:0]
}

// told gives the error of a write, once.
func (a *answers) told() (err error) {
	err, a.err = a.err, nil
	return err
}

// hold has answers wait until pour, or until something else is printed.
func (s *screen) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers.hold = true
}

// pour prints the answers that wait.
func (s *screen) pour() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers.hold = false
	s.answers.pour()
	return s.answers.told()
}
