// Package batch runs scripts.
package batch

import (
	"errors"
	"fmt"

	"github.com/zksh/zksh/internal/zkconn"
)

// endedError is the failure of the line at which a script ends, as there is no server: to
// try each line behind it would take long, and one that succeeded would leave a gap.
type endedError struct {
	err  error
	from int // the first line that was not run
}

func (e *endedError) Error() string {
	return fmt.Sprintf("%s; line %d and all later lines were not run", e.err, e.from)
}

// Unwrap gives the line's own failure.
func (e *endedError) Unwrap() error { return e.err }

// Ending makes the error of a line that was run one that ends the script, if it does. A
// line of several requests may have made some of them.
func Ending(line int, err error) error {
	none, is := errors.AsType[*zkconn.NoServerError](err)
	if !is || !none.Final {
		return err
	}
	if error(none) != err {
		line++
	}
	return &endedError{err, line}
}

// Ends reports whether an error is that of the line at which a script ends.
func Ends(err error) bool { return errors.As(err, new(*endedError)) }
