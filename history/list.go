// Package history keeps the lines a user has typed: numbered for the session,
// and in a file for the next one, without the lines that carry a password.
//
// This package is part of the program zksh and may change at any time.
package history

import "strings"

// Entry is a line with its number.
type Entry struct {
	Number int    `json:"number"`
	Line   string `json:"line"`
}

// List is a session's lines as they were typed, numbered from 0. It keeps the
// newest, so that a long script does not fill the memory; numbers go on. The zero
// value is an empty list. It is for one goroutine.
type List struct {
	lines   []string
	dropped int // lines no longer kept
	bytes   int // of those that are
}

// Bounds of what a List keeps.
const (
	maxListLines = 10000
	maxListBytes = 4 << 20
)

// Add appends a line and returns its number.
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

// Get returns line i; ok is false if there is none, or none any more.
func (l *List) Get(i int) (line string, ok bool) {
	i -= l.dropped
	if i < 0 || i >= len(l.lines) {
		return "", false
	}
	return l.lines[i], true
}

// Replace puts line in the place of line i, as redo does with its own line,
// and says whether there was one.
func (l *List) Replace(i int, line string) bool {
	old, ok := l.Get(i)
	if ok {
		l.bytes += len(line) - len(old)
		l.lines[i-l.dropped] = line
	}
	return ok
}

// Len returns the number of lines so far, which is the number the next one gets.
func (l *List) Len() int { return l.dropped + len(l.lines) }

// Last returns the newest n lines, or all if there are fewer, oldest first.
func (l *List) Last(n int) []Entry {
	var last []Entry
	for i := max(0, len(l.lines)-n); i < len(l.lines); i++ {
		last = append(last, Entry{l.dropped + i, l.lines[i]})
	}
	return last
}

// Recall gives back lines typed earlier, in this session and in those before,
// oldest first and numbered from 0. It holds no credentials and no line twice in
// a row. The zero value has none. It is for one goroutine at a time.
type Recall struct{ lines []string }

// maxRecall bounds the lines a Recall keeps.
const maxRecall = 20000

// Add appends lines, but for those that carry credentials or are the same as the last.
func (r *Recall) Add(lines ...string) {
	for _, line := range lines {
		if line == "" || len(line) > maxLine || secret(line) || len(r.lines) > 0 && r.lines[len(r.lines)-1] == line {
			continue
		}
		if len(r.lines) >= maxRecall {
			r.lines = append([]string(nil), r.lines[maxRecall/2:]...)
		}
		r.lines = append(r.lines, line)
	}
}

// Len is the number of lines.
func (r *Recall) Len() int { return len(r.lines) }

// Older returns the nearest line before line i that begins with a prefix and says
// something else, and its number.
func (r *Recall) Older(i int, prefix string) (line string, at int, ok bool) {
	return r.find(i, -1, func(l string) bool { return strings.HasPrefix(l, prefix) && l != r.shown(i, prefix) })
}

// Newer returns the nearest such line after line i.
func (r *Recall) Newer(i int, prefix string) (line string, at int, ok bool) {
	return r.find(i, 1, func(l string) bool { return strings.HasPrefix(l, prefix) && l != r.shown(i, prefix) })
}

// Search returns the nearest line before line i that contains a text and says
// something else than line i, and its number.
func (r *Recall) Search(i int, text string) (line string, at int, ok bool) {
	return r.find(i, -1, func(l string) bool { return strings.Contains(l, text) && l != r.shown(i, "") })
}

// shown is line i, or what was typed, which comes after the last.
func (r *Recall) shown(i int, typed string) string {
	if i < len(r.lines) {
		return r.lines[i]
	}
	return typed
}

func (r *Recall) find(i, step int, fits func(string) bool) (string, int, bool) {
	for j := i + step; j >= 0 && j < len(r.lines); j += step {
		if fits(r.lines[j]) {
			return r.lines[j], j, true
		}
	}
	return "", i, false
}
