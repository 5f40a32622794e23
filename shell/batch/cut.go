package batch

import (
	"errors"
	"fmt"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/exit"
)

// A cutError reports that several lines of a script got no answer, and which of them may have taken
// effect.
type cutError struct {
	first      int   // number of the first line without an answer
	lastSent   int   // number of the last line that may have taken effect, or 0 if there is none
	lastUnsent int   // number of the last line that was not sent, or 0 if there is none
	cause      error // error of the first line without an answer
}

func newCutError(lines []*pendingLine) *cutError {
	e := &cutError{first: lines[0].number, cause: lines[0].err}
	for _, p := range lines {
		if p.sent() {
			e.lastSent = p.number
		} else {
			e.lastUnsent = p.number
		}
	}
	return e
}

// Error returns a message for the user. The message relies on a guarantee of ZooKeeper: a server
// executes the requests of a connection in order. If it did not execute one request, it did not
// execute any later one either.
func (e *cutError) Error() string {
	why := "the connection was lost"
	for _, end := range []error{exit.ErrInterrupted, exit.ErrTerminated} {
		if errors.Is(e.cause, end) {
			why = end.Error()
		}
	}
	text := fmt.Sprintf("%s: all lines before line %d are done", why, e.first)
	if e.lastSent > 0 {
		text += fmt.Sprintf("; lines %d to %d may also be done, in order and without gaps", e.first, e.lastSent)
	}
	if e.lastSent > 0 && e.lastUnsent == 0 { // "had been", because the batch may still send later lines
		text += "; no later line had been sent"
	}
	if e.lastUnsent > 0 {
		text += fmt.Sprintf("; the lines after that, up to line %d, were not sent", e.lastUnsent)
	}
	return text
}

// Unwrap returns the error of the first line that got no answer.
func (e *cutError) Unwrap() error { return e.cause }

// An endedError is the failure of a line that ends the script, even with -k. See asEndedError.
type endedError struct {
	err  error
	from int // number of the first line that was not run
}

func (e *endedError) Error() string {
	return fmt.Sprintf("%s; line %d and all later lines were not run", e.err, e.from)
}

// Unwrap returns the failure of the line.
func (e *endedError) Unwrap() error { return e.err }

// An endlessError reports that a script would run files again and again.
type endlessError struct{ error }

// Endless returns an error of the command source that ends all scripts that are running. It is for
// a file that runs itself: if only one line failed, its other lines would run the file again.
func Endless(err error) error { return &endlessError{err} }

// asEndedError wraps err, the error of a line, in an endedError if the script must end. Otherwise
// it returns err unchanged. line is the number of the line. The script must end in two cases:
//   - No server can be reached. The later lines would take a long time. Besides, a later line could
//     succeed although the lines before it have failed.
//   - The error is that of Endless.
//
// If err is not itself the NoServerError, but wraps it, the line may have sent some of its
// requests. The line then counts as run.
func asEndedError(line int, err error) error {
	if errors.As(err, new(*endlessError)) {
		return &endedError{err, line}
	}
	none, is := errors.AsType[*zkconn.NoServerError](err)
	if !is || !none.Final {
		return err
	}
	if error(none) != err {
		line++
	}
	return &endedError{err, line}
}

// isEndedError reports whether err ends the script, even with -k: it is an endedError of this
// script, or of a file that the script has run.
func isEndedError(err error) bool {
	reported, is := errors.AsType[*exit.ReportedError](err)
	return is && reported.EndsScript || errors.As(err, new(*endedError))
}
