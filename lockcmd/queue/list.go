package queue

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/zksh/zksh/internal/render"
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
		lines = append(lines, text)
	}
	if q.NoClients != "" {
		lines = append(lines, "client addresses: "+q.NoClients)
	}
	if q.MaxLeases > 0 {
		lines = append(lines, fmt.Sprintf("the semaphore has %d leases", q.MaxLeases))
	}
	return lines
}

// Fit has the list made to fit a terminal of so many columns; 0: of any.
func (q *Queue) Fit(columns int) { q.columns = columns }

// Text is a table with a head, or the word free.
func (q *Queue) Text(w io.Writer) error {
	_, err := io.WriteString(w, strings.Join(q.lines(), "\n")+"\n")
	return err
}

// Table has a row for each contender.
func (q *Queue) Table() render.Grid {
	var g render.Grid
	for _, c := range q.table() {
		g.Header = append(g.Header, c.head)
		for i, cell := range c.cells {
			if i == len(g.Rows) {
				g.Rows = append(g.Rows, nil)
			}
			g.Rows[i] = append(g.Rows[i], cell)
		}
	}
	return g
}

// column is one column of the list.
type column struct {
	head  string
	cells []string
	width int
	cut   func(s string, width int) string
}

// The columns of the list, in order.
const (
	colPlace = iota
	colMode
	colState
	colSession
	colClient
	colAge
	colWho
	colNode
)

// table is the list, each cell whole. An empty cell is a dash, so that a program
// can split a row at its blanks up to the column who.
func (q *Queue) table() []*column {
	t := []*column{{head: "PLACE"}, {head: "MODE"}, {head: "STATE"}, {head: "SESSION"}, {head: "CLIENT"}, {head: "AGE"},
		{head: "WHO", cut: render.Cut}, {head: "NODE", cut: cutNode}}
	for _, c := range q.Contenders {
		row := []string{strconv.Itoa(c.Place), c.word(), c.State, c.Session, c.Client, c.Age, c.Who, strings.Join(c.Nodes, ",")}
		for i, cell := range row {
			if cell == "" {
				cell = "-"
			}
			t[i].cells = append(t[i].cells, render.Safe(cell))
		}
	}
	for _, c := range t {
		c.width = render.Width(c.head)
		for _, cell := range c.cells {
			c.width = max(c.width, render.Width(cell))
		}
	}
	return t
}

// lines is the list as text, made to fit a terminal.
func (q *Queue) lines() []string {
	switch {
	case q.Missing:
		return []string{"free (there is no such znode)"}
	case len(q.Contenders) == 0:
		return []string{"free"}
	}
	t := q.table()
	if q.columns > 0 {
		q.fit(t, q.columns-1)
	}
	lines := []string{row(t, func(c *column) string { return c.head })}
	for i := range q.Contenders {
		lines = append(lines, row(t, func(c *column) string { return c.cells[i] }))
	}
	return lines
}

// row puts the cells of one row next to each other; a column of no width is
// left out.
func row(t []*column, cell func(*column) string) string {
	var b strings.Builder
	for _, c := range t {
		if c.width == 0 {
			continue
		}
		text := cell(c)
		if c.cut != nil && render.Width(text) > c.width {
			text = c.cut(text, c.width)
		}
		b.WriteString(text + strings.Repeat(" ", c.width-min(render.Width(text), c.width)+2))
	}
	return strings.TrimRight(b.String(), " ")
}

// fit narrows the list step by step until it has so many columns. Who holds the
// lock matters most: names of nodes get shorter, session and client go before.
func (q *Queue) fit(t []*column, columns int) {
	t[colPlace].head, t[colPlace].width = "#", len(strconv.Itoa(len(q.Contenders)))
	other := colClient
	if q.NoClients == "" {
		other = colSession
	}
	for _, step := range []struct{ col, width int }{
		{colNode, 12}, {other, 0}, {colClient, 0}, {colSession, 0}, {colNode, 7}, {colWho, 16}, {colMode, 0}, {colWho, 0},
	} {
		over := -2 // none behind the last column
		for _, c := range t {
			if c.width > 0 {
				over += c.width + 2
			}
		}
		if over -= columns; over <= 0 {
			return
		}
		c := t[step.col]
		c.width = min(c.width, max(c.width-over, step.width))
		if step.width == 0 {
			c.width = 0
		}
	}
}

// cutNode shortens a node's name in the middle: its end is the sequence number.
func cutNode(name string, width int) string { return render.CutMiddle(name, width, 5) }
