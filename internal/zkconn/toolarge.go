package zkconn

import (
	"cmp"
	"fmt"

	"github.com/zksh/zksh/internal/jute"
)

// UsualMaxRequest is the size of the largest request that a server with default settings accepts,
// in bytes (jute.maxbuffer). If a request is larger, the server closes the connection.
const UsualMaxRequest = 1<<20 - 1

// A TooLargeError reports that a request was not sent, and so had no effect, because it is so
// large that the server would close the connection.
type TooLargeError struct {
	Path  string
	Size  int  // size of the request in bytes
	Limit int  // size of the largest allowed request in bytes; see Config.MaxRequest
	Whole bool // whether Size is the size of the transaction that the request cannot join
}

func (e *TooLargeError) Error() string {
	text := "the request"
	if e.Path != "" {
		text += " for " + e.Path
	}
	if e.Whole {
		text += fmt.Sprintf(" cannot join the transaction, which would then have %d bytes: ", e.Size)
	} else {
		text += fmt.Sprintf(" was not sent, because it has %d bytes: ", e.Size)
	}
	if e.Limit > UsualMaxRequest {
		return text + fmt.Sprintf("the limit, set by --max-request or jute.maxbuffer, is %d", e.Limit)
	}
	return text + fmt.Sprintf("by default, servers accept at most %d; if jute.maxbuffer is larger on this server, set --max-request to the same value", e.Limit)
}

// Unwrap returns an *Error, for callers that treat a TooLargeError like a server's refusal.
func (e *TooLargeError) Unwrap() error { return &Error{Code: requestTooLarge, Path: e.Path} }

// MaxRequest returns the size of the largest request that the session sends, in bytes.
func (s *Session) MaxRequest() int { return s.current().cfg.largest() }

// largest returns the size of the largest allowed request in bytes.
func (c Config) largest() int { return cmp.Or(c.MaxRequest, UsualMaxRequest) }

// tooLarge returns a *TooLargeError if a request of the call is so large that a server would
// close the connection. Credentials may have any size.
func (c Config) tooLarge(request *call) error {
	limit := c.largest()
	if size := request.longest(); size > limit && request.Op != jute.OpAuth {
		return &TooLargeError{Path: request.path, Size: size, Limit: limit}
	}
	return nil
}
