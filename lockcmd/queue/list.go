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

// maxIgnored is how many foreign children are named.
const maxIgnored = 10

// Remarks is what a person should know besides the list, a line each.
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

// Text is a table with a head, or the word free.
func (q *Queue) Text(w io.Writer) error { return q.FitText(w, 0) }

// FitText is part of render.Fitter.
func (q *Queue) FitText(w io.Writer, columns int) error {
	_, err := io.WriteString(w, strings.Join(q.lines(columns), "\n")+"\n")
	return err
}

// The columns of the list, in order.
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

// Table has a row for each contender, each cell whole. An empty cell is a dash, so
// that a program can split a row at its blanks up to the column who.
func (q *Queue) Table() render.Grid {
	g := render.Grid{Header: []string{"PLACE", "MODE", "STATE", "SESSION", "CLIENT", "AGE", "WHO", "NODE"}}
	for _, c := range q.Contenders {
		g.Rows = append(g.Rows, c.cells(strconv.Itoa(c.Place), c.word(), c.State, c.Session, c.Client, c.Age))
	}
	return g
}

// cells are what precedes, and who it is and where, each safe to print in a line.
func (c *Contender) cells(words ...string) []string {
	words = append(words, c.Who, strings.Join(c.Nodes, ","))
	for i, word := range words {
		words[i] = cmp.Or(render.Safe(word), "-")
	}
	return words
}

// lines is the list as text, made to fit a terminal of so many columns; 0: of any.
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

// fit narrows the list step by step until it has so many columns. Who holds the
// lock matters most: names of nodes get shorter, session and client go before. The
// mode may go where a short name still tells it.
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

// ShortNode makes the name or path of a contender's node fit into so many columns.
// It keeps what tells contenders apart as long as it can: the mode, and the end of
// the number. Find knows what it gives.
func ShortNode(node string, columns int) string {
	if render.Width(node) <= columns {
		return node
	}
	const digits = 5 // of the number, at least
	name := path.Base(node)
	parsed, ok := zklock.ParseName(name)
	_, tail, _ := strings.Cut(name, parsed.GUID) // the mode's mark and the number
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
