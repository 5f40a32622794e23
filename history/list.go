// Package history keeps the lines a user has typed: numbered for the session,
// and in a file for the next one, without the lines that carry a password.
package history

// Entry is a line with its number.
type Entry struct {
	Number int    `json:"number"`
	Line   string `json:"line"`
}

// List is a session's lines as they were typed, numbered from 0. The zero
// value is an empty list. It is for one goroutine.
type List struct {
	lines []string
}

// Add appends a line and returns its number.
func (l *List) Add(line string) int {
	l.lines = append(l.lines, line)
	return len(l.lines) - 1
}

// Get returns line i; ok is false if there is none.
func (l *List) Get(i int) (line string, ok bool) {
	if i < 0 || i >= len(l.lines) {
		return "", false
	}
	return l.lines[i], true
}

// Replace puts line in the place of line i, as redo does with its own line,
// and says whether there was one.
func (l *List) Replace(i int, line string) bool {
	if i < 0 || i >= len(l.lines) {
		return false
	}
	l.lines[i] = line
	return true
}

// Len returns the number of lines, which is the number the next one gets.
func (l *List) Len() int { return len(l.lines) }

// Last returns the newest n lines, or all if there are fewer, oldest first.
func (l *List) Last(n int) []Entry {
	first := max(0, len(l.lines)-max(0, n))
	var entries []Entry
	for i, line := range l.lines[first:] {
		entries = append(entries, Entry{first + i, line})
	}
	return entries
}
