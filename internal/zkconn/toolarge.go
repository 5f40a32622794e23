package zkconn

import (
	"fmt"

	"github.com/zksh/zksh/internal/jute"
)

// UsualMaxRequest is the size, in bytes, of the largest request that a server with default
// settings accepts (jute.maxbuffer). It closes the connection over a larger one.
const UsualMaxRequest = 1<<20 - 1

// A TooLargeError reports a request that was not sent, because the server would close the
// connection over its size. The request had no effect.
type TooLargeError struct {
	Path  string
	Size  int // of the request in bytes
	Limit int // Config.MaxRequest
}

func (e *TooLargeError) Error() string {
	text := "the request"
	if e.Path != "" {
		text += " for " + e.Path
	}
	text += fmt.Sprintf(" was not sent, because it has %d bytes: ", e.Size)
	if e.Limit > UsualMaxRequest {
		return text + fmt.Sprintf("the limit, set by --max-request or jute.maxbuffer, is %d", e.Limit)
	}
	return text + fmt.Sprintf("by default, servers accept at most %d; if jute.maxbuffer is larger on this server, set --max-request to the same value", e.Limit)
}

// Unwrap returns a refusal, for callers that continue after one.
func (e *TooLargeError) Unwrap() error { return &Error{Code: requestTooLarge, Path: e.Path} }

// tooLarge returns an error if a server would close the connection over the size of a request
// of the call. It accepts credentials of any size.
func (c Config) tooLarge(of *call) error {
	limit := c.MaxRequest
	if limit == 0 {
		limit = UsualMaxRequest
	}
	if size := of.longest(); size > limit && of.Op != jute.OpAuth {
		return &TooLargeError{of.path, size, limit}
	}
	return nil
}
