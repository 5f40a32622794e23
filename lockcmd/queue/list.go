package queue

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// maxIgnored is the maximum number of ignored children that one remark names.
const maxIgnored = 10

// Remarks returns notes for the user that are not part of the table, one per line.
func (q *Queue) Remarks() []string {
	var lines []string
	for _, w := range q.Warnings {
		lines = append(lines, "warning: "+w)
	}
	if n := len(q.Ignored); n > 0 {
		text := "ignored: " + strings.Join(q.Ignored[:min(n, maxIgnored)], ", ")
		if n > maxIgnored {
			text += fmt.Sprintf(" and %d more", n-maxIgnored)
		}
		lines = append(lines, render.Safe(text))
	}
	if q.NoClients != "" {
		lines = append(lines, "client addresses: "+q.NoClients)
	}
	if q.MaxLeases > 0 {
		lines = append(lines, fmt.Sprintf("the semaphore has %d leases", q.MaxLeases))
	}
	return lines
}

// Text implements render.Value. It writes a table with a header or, for an empty queue, the word
// "free".
func (q *Queue) Text(w io.Writer) error { return q.FitText(w, 0) }

// FitText implements render.Fitter.
func (q *Queue) FitText(w io.Writer, columns int) error {
	_, err := io.WriteString(w, strings.Join(q.lines(columns), "\n")+"\n")
	return err
}

// Indices of the columns of the table.
const (
	colPlace = iota
	colMode
	_ // state
	colSession
	colClient
	colAge
	colWho
	colNode
)

// Table returns a row for each contender, without shortening anything. It represents an empty
// cell by a dash, so that programs can split a row at its spaces up to the column WHO.
func (q *Queue) Table() render.Grid {
	g := render.Grid{Header: []string{"PLACE", "MODE", "STATE", "SESSION", "CLIENT", "AGE", "WHO", "NODE"}}
	for _, c := range q.Contenders {
		g.Rows = append(g.Rows, c.cells(strconv.Itoa(c.Place), c.modeName(), c.State, c.Session, c.Client, c.Age))
	}
	return g
}

// cells returns the cells of a row: words, followed by the contender's note and its znodes. All
// cells are safe to print on one line.
func (c *Contender) cells(words ...string) []string {
	words = append(words, c.Who, strings.Join(c.Nodes, ","))
	for i, word := range words {
		words[i] = cmp.Or(render.Safe(word), "-")
	}
	return words
}

// lines returns the queue as lines of text that fit a terminal with this many columns; 0 means
// unlimited.
func (q *Queue) lines(columns int) []string {
	switch {
	case q.Missing:
		return []string{"free (the znode does not exist)"}
	case q.Free():
		return []string{"free"}
	}
	g := q.Table()
	if columns > 0 {
		g = q.fit(g, columns-1)
	}
	return g.Lines()
}

// fit shortens the table step by step until it fits into this many columns. The column WHO,
// which contains the note, is most important. fit first shortens znode names, and then removes
// CLIENT and SESSION. It then removes MODE, because a shortened znode name still shows the mode.
func (q *Queue) fit(g render.Grid, columns int) render.Grid {
	if g.Width() > columns {
		g.Header[colPlace] = "#"
	}
	other := colClient
	if q.NoClients == "" {
		other = colSession
	}
	return g.Fit(columns,
		render.Step{Column: colNode, Width: 12, Cut: ShortNode}, render.Step{Column: other}, render.Step{Column: colClient},
		render.Step{Column: colSession}, render.Step{Column: colWho, Width: 16}, render.Step{Column: colMode},
		render.Step{Column: colWho, Width: 10}, render.Step{Column: colNode, Width: 7, Cut: ShortNode},
		render.Step{Column: colWho}, render.Step{Column: colAge})
}

// ShortNode shortens the name or path of a contender's znode to this many columns. As long as
// possible, it keeps the mode and the end of the sequence number, which distinguish the
// contenders. Find accepts the result.
func ShortNode(node string, columns int) string {
	if render.Width(node) <= columns {
		return node
	}
	const digits = 5 // minimum number of digits to keep
	name := path.Base(node)
	parsed, ok := zklock.ParseName(name)
	_, tail, _ := strings.Cut(name, parsed.GUID) // the part that shows the mode, and the sequence number
	at := strings.LastIndexFunc(tail, func(r rune) bool { return r < '0' || r > '9' }) + 1
	mark, number := strings.Trim(tail[:at], "-_#"), tail[at:]
	mark, _, _ = strings.Cut(mark, "-")
	switch room := columns - 2 - len(mark); {
	case !ok || mark == "" || strings.HasSuffix(parsed.Kind, " lock") && parsed.Mode == zklock.Shared || room < digits:
		return render.CutMiddle(name, columns, digits)
	case len(tail)+2 <= columns:
		return render.CutMiddle(name, columns, len(tail))
	default:
		return "…" + mark + "…" + number[max(0, len(number)-room):]
	}
}
