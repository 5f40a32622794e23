package history

import "strings"

// Recall gives back lines typed earlier, in this session and in those before,
// oldest first and numbered from 0. It holds no credentials and no line twice in
// a row. It is for one goroutine at a time.
type Recall struct{ lines []string }

// maxRecall bounds the lines a Recall keeps.
const maxRecall = 20000

// NewRecall starts with the lines of earlier sessions.
func NewRecall(lines []string) *Recall {
	r := &Recall{}
	for _, line := range lines {
		r.Add(line)
	}
	return r
}

// Add appends a line, unless it carries credentials or is the same as the last.
func (r *Recall) Add(line string) {
	if line == "" || len(line) > maxLine || secret(line) || len(r.lines) > 0 && r.lines[len(r.lines)-1] == line {
		return
	}
	if len(r.lines) >= maxRecall {
		r.lines = append([]string(nil), r.lines[maxRecall/2:]...)
	}
	r.lines = append(r.lines, line)
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
