// Package history stores the lines that a user has typed.
//
// A List contains the lines of the current session with their numbers, for the commands history
// and redo. A File saves lines for later sessions, and may be shared by several shells. A Recall
// contains the lines of this and earlier sessions that the line editor can recall. File and Recall
// skip lines with credentials, and Redacted hides the credentials in a line before it is shown.
//
// This package is part of the program zksh and may change at any time.
package history

import "strings"

// An Entry is a command line with its number in a List.
type Entry struct {
	Number int    `json:"number"`
	Line   string `json:"line"`
}

// A List contains the lines of a session as they were typed, numbered from 0. To limit its memory,
// it drops the oldest lines without changing the numbers of the others. The zero value is an empty
// list. A List is not safe for concurrent use.
type List struct {
	lines   []string
	dropped int // number of the oldest lines that have been dropped
	bytes   int // total length of the lines, in bytes
}

// Limits of a List.
const (
	maxListLines = 10000
	maxListBytes = 4 << 20
)

// Add appends a line to the list and returns the number of that line.
func (l *List) Add(line string) int {
	l.lines = append(l.lines, line)
	l.bytes += len(line)
	drop := 0
	for len(l.lines)-drop > 1 && (len(l.lines)-drop > maxListLines || l.bytes > maxListBytes) {
		l.bytes -= len(l.lines[drop])
		l.lines[drop] = ""
		drop++
	}
	l.lines = l.lines[drop:]
	l.dropped += drop
	return l.Len() - 1
}

// Get returns the line with number i. ok is false if that line was never added or has been dropped.
func (l *List) Get(i int) (line string, ok bool) {
	i -= l.dropped
	if i < 0 || i >= len(l.lines) {
		return "", false
	}
	return l.lines[i], true
}

// Replace replaces the line with number i, and reports whether that line exists. The command redo
// uses it to replace its own line with the line that it runs.
func (l *List) Replace(i int, line string) bool {
	old, ok := l.Get(i)
	if ok {
		l.bytes += len(line) - len(old)
		l.lines[i-l.dropped] = line
	}
	return ok
}

// Len returns the number of lines that have been added, including dropped ones. It is also the
// number of the next line.
func (l *List) Len() int { return l.dropped + len(l.lines) }

// Last returns the newest n lines, or all lines if there are fewer, in the order in which they were
// added.
func (l *List) Last(n int) []Entry {
	var last []Entry
	for i := max(0, len(l.lines)-n); i < len(l.lines); i++ {
		last = append(last, Entry{l.dropped + i, l.lines[i]})
	}
	return last
}

// A Recall contains the lines of this and earlier sessions that the line editor can recall. They
// are numbered from 0, oldest first. No line contains credentials, and no two adjacent lines are
// the same. The zero value is empty. A Recall is not safe for concurrent use.
type Recall struct{ lines []string }

// maxRecall is the maximum number of lines in a Recall.
const maxRecall = 20000

// Add appends lines. It skips a line that is empty, is longer than maxLine, contains credentials,
// or is the same as the previous line.
func (r *Recall) Add(lines ...string) {
	for _, line := range lines {
		if line == "" || len(line) > maxLine || hasSecret(line) || len(r.lines) > 0 && r.lines[len(r.lines)-1] == line {
			continue
		}
		if len(r.lines) >= maxRecall {
			r.lines = append([]string(nil), r.lines[maxRecall/2:]...)
		}
		r.lines = append(r.lines, line)
	}
}

// Len returns the number of lines in the Recall.
func (r *Recall) Len() int { return len(r.lines) }

// Older returns the nearest line before line i that begins with prefix and differs from line i. at
// is the number of the returned line. If i is Len(), the user is typing a new line, and prefix is
// its text.
func (r *Recall) Older(i int, prefix string) (line string, at int, ok bool) {
	return r.find(i, -1, func(l string) bool { return strings.HasPrefix(l, prefix) && l != r.lineAt(i, prefix) })
}

// Newer returns the nearest line after line i that begins with prefix and differs from line i. at
// is the number of the returned line.
func (r *Recall) Newer(i int, prefix string) (line string, at int, ok bool) {
	return r.find(i, 1, func(l string) bool { return strings.HasPrefix(l, prefix) && l != r.lineAt(i, prefix) })
}

// Search returns the nearest line before line i that contains text and differs from line i. at is
// the number of the returned line.
func (r *Recall) Search(i int, text string) (line string, at int, ok bool) {
	return r.find(i, -1, func(l string) bool { return strings.Contains(l, text) && l != r.lineAt(i, "") })
}

// lineAt returns line i. If i is Len(), it returns typed, the text that the user is typing.
func (r *Recall) lineAt(i int, typed string) string {
	if i < len(r.lines) {
		return r.lines[i]
	}
	return typed
}

func (r *Recall) find(i, step int, matches func(string) bool) (string, int, bool) {
	for j := i + step; j >= 0 && j < len(r.lines); j += step {
		if matches(r.lines[j]) {
			return r.lines[j], j, true
		}
	}
	return "", i, false
}
