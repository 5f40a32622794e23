package queue

import (
	"slices"
	"time"

	"github.com/zksh/zksh/internal/render"
)

// MarkTime is how long a picture marks a change.
const MarkTime = time.Second

// A mark is a change that a picture marks.
type mark struct {
	path   string // path of the lock
	change Change
	until  time.Time
}

// marks contains the changes that a picture marks, the latest last.
type marks []mark

// add adds the changes of the queue at path, and removes old marks. The first reading of a queue is
// not a change.
func (m *marks) add(path string, list []Change, now time.Time) {
	*m = slices.DeleteFunc(*m, func(old mark) bool { return !now.Before(old.until) })
	for _, c := range list {
		if markStyles[c.Event].sign != "" {
			*m = append(*m, mark{path, c, now.Add(MarkTime)})
		}
	}
}

// markStyles contains the sign before a marked row, and the style of the row. Terminals without
// colors show only the sign.
var markStyles = map[string]struct {
	sign  string
	style render.Style
}{
	cameEvent: {"+ ", render.Green}, gotEvent: {"* ", render.Strong}, leftEvent: {"- ", render.Dim},
}

// picture returns the table of the queue as lines that fit a terminal. It marks the changes, and
// also shows contenders that have just left.
func (m marks) picture(q *Queue, columns int, now time.Time) []render.Line {
	shown, events := *q, map[string]string{} // events by node
	shown.Contenders = slices.Clone(q.Contenders)
	is := byNode(q)
	for _, k := range m {
		if k.path != q.Path || !now.Before(k.until) {
			continue
		}
		c := k.change.Contender
		node := c.Nodes[0]
		if k.change.Event == leftEvent && is[node] == nil {
			gone := *c
			gone.State = "gone"
			at := min(c.Place-1, len(shown.Contenders))
			shown.Contenders = slices.Insert(shown.Contenders, at, &gone)
		}
		events[node] = k.change.Event
	}
	if len(shown.Contenders) == 0 {
		return nil
	}
	var lines []render.Line
	for i, text := range shown.fit(shown.Table(), columns-1-len("+ ")).Lines() {
		sign, style := "  ", render.Plain
		if i > 0 {
			if s, ok := markStyles[events[shown.Contenders[i-1].Nodes[0]]]; ok {
				sign, style = s.sign, s.style
			}
		}
		lines = append(lines, render.Line{{Text: sign + text, Style: style}})
	}
	return lines
}

// plainLines returns lines without styles.
func plainLines(texts ...string) (lines []render.Line) {
	for _, text := range texts {
		lines = append(lines, render.PlainLine(text))
	}
	return lines
}

// cutLines returns at most rows-1 lines, but at least two. If it omits lines, the last one says how
// many.
func cutLines(lines []render.Line, rows int) []render.Line {
	most := max(rows-1, 2)
	if len(lines) <= most {
		return lines
	}
	return append(lines[:most-1], plainLines(andMore(len(lines)-most+1))...)
}
