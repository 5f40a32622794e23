package lockcmd

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

// showQueue is the answer of locks PATH: who holds the lock and who waits. The
// error is a StatusError without a text if there is anybody. With follow it goes
// on to show each change until ctx ends, which is then the error.
func showQueue(ctx context.Context, env *commands.Env, path string, follow bool) error {
	if follow {
		return followQueue(ctx, env, path)
	}
	q, err := fullQueue(ctx, env.Session, path)
	if err != nil {
		return err
	}
	q.columns = answerColumns(env)
	if err := env.Screen.Print(q); err != nil {
		return err
	}
	for _, remark := range q.remarks() {
		env.Screen.Note(remark)
	}
	return q.status()
}

// answerColumns is the width of the terminal that answers are shown on; 0 for none.
func answerColumns(env *commands.Env) int {
	columns, _ := env.Screen.Region(commands.Answers).Size()
	return columns
}

// probe is showQueue for a script that only wants the status.
func probe(ctx context.Context, env *commands.Env, path string) error {
	q, err := readQueue(ctx, env.Session, path)
	if err != nil {
		return err
	}
	return q.status()
}

// holders lists the nodes that hold the lock of a path.
func holders(ctx context.Context, env *commands.Env, path string) ([]string, error) {
	q, err := readQueue(ctx, env.Session, path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range q.Contenders {
		if c.State == holds {
			names = append(names, c.Nodes...)
		}
	}
	return names, nil
}

func (q *queue) status() error {
	if len(q.Contenders) > 0 {
		return &commands.StatusError{Status: commands.StatusNotLocked}
	}
	return nil
}

// fullQueue reads a queue and, meanwhile, who is connected. Somebody who seems
// not to be may have come in between, so that is asked again.
func fullQueue(ctx context.Context, s *zkconn.Session, path string) (*queue, error) {
	found := make(chan *clients, 1)
	go func() { found <- findClients(ctx, s, adminPort) }() // bounded, and received below
	q, err := readQueue(ctx, s, path)
	c := <-found
	if err != nil {
		return nil, err
	}
	q.addClients(c)
	if q.orphans() {
		q.addClients(findClients(ctx, s, adminPort))
	}
	return q, nil
}

// maxIgnored is how many foreign children are named.
const maxIgnored = 10

// remarks is what a person should know besides the list, a line each.
func (q *queue) remarks() []string {
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

// Text is a table with a head, or the word free.
func (q *queue) Text(w io.Writer) error {
	_, err := io.WriteString(w, strings.Join(q.lines(), "\n")+"\n")
	return err
}

// Table has a row for each contender.
func (q *queue) Table() render.Grid {
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
func (q *queue) table() []*column {
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
func (q *queue) lines() []string {
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
func (q *queue) fit(t []*column, columns int) {
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
