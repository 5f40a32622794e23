// Package history stores the lines that a user has typed.
//
// A List contains the lines of the current session with their numbers, for the commands history
// and redo. A File saves lines for later sessions, and may be shared by several shells. A Recall
// contains the lines of this and earlier sessions that the line editor can recall. File and Recall
// skip lines with credentials, and Redacted hides the credentials in a line before it is shown.
//
// This package is part of the program zksh and may change at any time.
package history

import "slices"

// An Entry is a command line, with where and when it was typed.
type Entry struct {
	Line   string
	Place  string // cluster name or connect string of the ensemble; empty if unknown
	Time   int64  // Unix time in seconds; 0 if unknown
	Status int    // exit status of the line; UnknownStatus if it has not finished, or in an old file
}

// UnknownStatus is the Status of an Entry whose exit status is not known.
const UnknownStatus = -1

// A Numbered is an Entry with its number in a List.
type Numbered struct {
	Number int
	Entry
}

// A List contains the lines of a session as they were typed, numbered from 0. To limit its memory,
// it drops the oldest lines without changing the numbers of the others. The zero value is an empty
// list. A List is not safe for concurrent use.
type List struct {
	all     []Entry // the lines, after the empty entries of lines that have been dropped
	empty   int     // number of empty entries
	dropped int     // number of the oldest lines that have been dropped
	bytes   int     // total length of the lines, in bytes
}

func (l *List) lines() []Entry { return l.all[l.empty:] }

// Limits of a List.
const (
	maxListLines = 10000
	maxListBytes = 4 << 20
)

// Add appends a line to the list and returns the number of that line.
func (l *List) Add(e Entry) int {
	l.all = append(l.all, e)
	l.bytes += len(e.Line)
	for len(l.lines()) > 1 && (len(l.lines()) > maxListLines || l.bytes > maxListBytes) {
		oldest := &l.all[l.empty]
		l.bytes -= len(oldest.Line)
		*oldest = Entry{}
		l.empty++
		l.dropped++
	}
	if l.empty > maxListLines/4 { // use the same memory again
		l.all = slices.Delete(l.all, 0, l.empty)
		l.empty = 0
	}
	return l.Len() - 1
}

// Get returns the line with number i. ok is false if that line was never added or has been dropped.
func (l *List) Get(i int) (e Entry, ok bool) {
	i -= l.dropped
	if i < 0 || i >= len(l.lines()) {
		return Entry{}, false
	}
	return l.lines()[i], true
}

// Replace replaces the text of the line with number i, and reports whether that line exists. The
// command redo uses it to replace its own line with the line that it runs.
func (l *List) Replace(i int, line string) bool {
	old, ok := l.Get(i)
	if ok {
		l.bytes += len(line) - len(old.Line)
		l.lines()[i-l.dropped].Line = line
	}
	return ok
}

// Finish records the exit status of the line with number i, and returns the line.
func (l *List) Finish(i, status int) Entry {
	e, ok := l.Get(i)
	if ok {
		l.lines()[i-l.dropped].Status = status
		e.Status = status
	}
	return e
}

// Len returns the number of lines that have been added, including dropped ones. It is also the
// number of the next line.
func (l *List) Len() int { return l.dropped + len(l.lines()) }

// Last returns the newest n lines, or all lines if there are fewer, in the order in which they were
// added.
func (l *List) Last(n int) []Numbered {
	var last []Numbered
	for i := max(0, len(l.lines())-n); i < len(l.lines()); i++ {
		last = append(last, Numbered{l.dropped + i, l.lines()[i]})
	}
	return last
}
