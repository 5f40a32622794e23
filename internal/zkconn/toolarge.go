package zkconn

import (
	"fmt"

	"github.com/zksh/zksh/internal/jute"
)

// UsualMaxRequest is the size in bytes of the largest request that a server with default
// settings takes (jute.maxbuffer). Over a larger one it closes the connection.
const UsualMaxRequest = 1<<20 - 1

// TooLargeError says that a request was rejected on this side, as the server would close
// the connection over it. It was not sent, and surely had no effect.
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

// Unwrap makes it a rejection, for those who go on after one.
func (e *TooLargeError) Unwrap() error { return &Error{Code: requestTooLarge, Path: e.Path} }

// tooLarge is an error if a server would close the connection over one of the requests
// of a call. Credentials are not looked at.
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
