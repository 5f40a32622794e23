package batch

import (
	"errors"
	"fmt"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/exit"
)

// cutError says what is known of lines that got no answer.
type cutError struct {
	before int // number of the first line
	sent   int // number of the last line that may have taken effect; 0: none
	unsent int // number of the last line that was not sent; 0: none
	cause  error
}

func newCutError(lines []*pendingLine) *cutError {
	e := &cutError{before: lines[0].number, cause: lines[0].err}
	for _, p := range lines {
		if p.sent() {
			e.sent = p.number
		} else {
			e.unsent = p.number
		}
	}
	return e
}

// Error relies on two properties of a server: it carries out the requests of a connection in
// their order, and when it stops, it carries out none after the first that it has not.
func (e *cutError) Error() string {
	why := "the connection was lost"
	for _, end := range []error{exit.ErrInterrupted, exit.ErrTerminated} {
		if errors.Is(e.cause, end) {
			why = end.Error()
		}
	}
	text := fmt.Sprintf("%s: all lines before line %d are done", why, e.before)
	if e.sent > 0 {
		text += fmt.Sprintf("; lines %d to %d may also be done, in order and without gaps", e.before, e.sent)
	}
	if e.sent > 0 && e.unsent == 0 { // at that moment: a batch that continues sends the next lines
		text += "; no later line had been sent"
	}
	if e.unsent > 0 {
		text += fmt.Sprintf("; the lines after that, up to line %d, were not sent", e.unsent)
	}
	return text
}

// Unwrap returns the error of the first line.
func (e *cutError) Unwrap() error { return e.cause }

// endedError is the failure of the line at which a script ends because there is no server. To
// try each later line would take long, and one that succeeded would leave a gap.
type endedError struct {
	err  error
	from int // the first line that was not run
}

func (e *endedError) Error() string {
	return fmt.Sprintf("%s; line %d and all later lines were not run", e.err, e.from)
}

// Unwrap returns the line's own failure.
func (e *endedError) Unwrap() error { return e.err }

// ending returns the error of a line that was run, as an endedError if it ends the script. A
// line of several requests may have made some of them.
func ending(line int, err error) error {
	none, is := errors.AsType[*zkconn.NoServerError](err)
	if !is || !none.Final {
		return err
	}
	if error(none) != err {
		line++
	}
	return &endedError{err, line}
}

// ends reports whether an error is that of the line at which a script ends.
func ends(err error) bool { return errors.As(err, new(*endedError)) }
