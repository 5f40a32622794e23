package zktree

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zksh/zksh/internal/zkconn"
)

// Refusals collects the errors of requests that were rejected: by the server or, if they were too
// large to be sent, by zksh. It stores the first few errors and counts all of them.
type Refusals struct {
	First    []error // the first errors; at most namedRefusals
	N        int
	TooLarge int // number of errors that are a *zkconn.TooLargeError
}

// namedRefusals is the maximum number of errors that a Refusals stores and prints.
const namedRefusals = 20

// Add counts an error, and stores it if it is one of the first namedRefusals errors.
func (r *Refusals) Add(err error) {
	if r.N++; r.N <= namedRefusals {
		r.First = append(r.First, err)
	}
	if errors.As(err, new(*zkconn.TooLargeError)) {
		r.TooLarge++
	}
}

// count returns the number of rejected requests as text, and says who rejected them.
func (r *Refusals) count() string {
	switch byServer := r.N - r.TooLarge; {
	case r.TooLarge == 0:
		return fmt.Sprintf("the server rejected %d", byServer)
	case byServer == 0:
		return fmt.Sprintf("zksh rejected %d", r.TooLarge)
	default:
		return fmt.Sprintf("the server rejected %d and zksh %d", byServer, r.TooLarge)
	}
}

// Error lists the stored errors, and states the number of further errors.
func (r *Refusals) Error() string {
	var b strings.Builder
	for i, f := range r.First {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(f.Error())
	}
	if more := r.N - len(r.First); more > 0 {
		fmt.Fprintf(&b, "; and %d more errors", more)
	}
	return b.String()
}

// Unwrap returns the stored errors.
func (r *Refusals) Unwrap() []error { return r.First }

// orNil returns r as an error, or nil if there are no errors.
func (r *Refusals) orNil() error {
	if r.N == 0 {
		return nil
	}
	return r
}

// A PartialError reports that not all edits were made.
type PartialError struct {
	Verb     string // for an operation on a whole subtree: its past participle, such as "deleted"
	Root     string
	Done     Counts
	Outcome  zkconn.Outcome // outcomes of all writes that were tried
	Refusals                // rejected edits with their paths, except those counted in Below
	Changed  Refusals       // edits that were not made, because another client has changed the znode
	Lost     Refusals       // edits whose outcome is unknown although Apply went on after a lost connection
	Below    int            // number of znodes not created because an ancestor was rejected
	Open     int            // number of znodes to whose ACL the session's identity is still added
	Total    int            // number of znodes found in the subtree
	Whole    bool           // whether the subtree was read completely, so that Total counts all of its znodes
	Cause    error          // reason why the operation stopped early, or nil if it tried every edit
}

func (e *PartialError) Error() string {
	onlyRejection := e.N == 1 && e.Done == (Counts{}) && e.Outcome.Unknown+e.Open+e.Changed.N == 0 && e.Cause == nil
	switch {
	case e.Verb != "":
		return e.ofSubtree()
	case onlyRejection: // all other znodes are descendants of the rejected one
		return fmt.Sprintf("nothing was written to %s: %s", e.Root, e.Refusals.Error())
	}
	text := fmt.Sprintf("wrote %s to %s", Znodes(e.Done.Total()-e.Done.Skipped), e.Root)
	if e.Outcome.Unknown > 0 {
		text += fmt.Sprintf(", and possibly %d more", e.Outcome.Unknown)
	}
	if e.Below > 0 {
		text += fmt.Sprintf("; %d were not written, because one of their ancestors was rejected", e.Below)
	}
	if e.Open > 0 {
		text += fmt.Sprintf("; the ACLs of %d still contain an entry for this session, "+
			"which zksh adds only for the time of the write", e.Open)
	}
	if e.N > 0 {
		text += fmt.Sprintf("; %s: %s", e.count(), e.Refusals.Error())
	}
	if e.Changed.N > 0 {
		text += fmt.Sprintf("; another client has changed %s meanwhile, and zksh has left them alone: %s",
			Znodes(e.Changed.N), e.Changed.Error())
	}
	if e.Lost.N > 0 {
		text += "; the connection was lost, and the znodes do not show what became of the change: " + e.Lost.Error()
	}
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// ofSubtree returns the text of an error about an operation on a whole subtree.
func (e *PartialError) ofSubtree() string {
	text := fmt.Sprintf("%s %d of %d znodes of %s", e.Verb, e.Outcome.Done, e.Total, e.Root)
	if !e.Whole {
		text = fmt.Sprintf("%s %d znodes of %s; the subtree contains more znodes", e.Verb, e.Outcome.Done, e.Root)
	}
	if e.Outcome.Unknown > 0 {
		text += fmt.Sprintf("; the outcome for %d znodes is unknown", e.Outcome.Unknown)
	}
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	if e.N > 0 {
		text += ": " + e.Refusals.Error()
	}
	return text
}

// incomplete reports whether some edits were not made, or may not have been. Those that were not tried do
// not count.
func (e *PartialError) incomplete() bool {
	return e.N+e.Changed.N+e.Below+e.Open+e.Outcome.Unknown > 0
}

// Unwrap returns the cause, if there is one, followed by the rejections.
func (e *PartialError) Unwrap() []error {
	all := slices.Concat(e.First, e.Changed.First, e.Lost.First)
	if e.Cause == nil {
		return all
	}
	return append([]error{e.Cause}, all...)
}

// A ChangedError reports that another client has changed a znode, or has created it anew, after zksh
// had read it.
type ChangedError struct{ Path string }

func (e *ChangedError) Error() string { return e.Path + " has changed since zksh read it" }

// An UnreadError reports that some znodes of a subtree could not be read.
type UnreadError struct {
	Root string
	Refusals
}

func (e *UnreadError) Error() string {
	return fmt.Sprintf("%s of %s could not be read: %s", Znodes(e.N), e.Root, e.Refusals.Error())
}

// OrNil returns e, or nil if every znode could be read.
func (e *UnreadError) OrNil() error {
	if e.N == 0 {
		return nil
	}
	return e
}
