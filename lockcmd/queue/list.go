package queue

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// maxIgnored is the maximum number of znode names listed in the remark about ignored children.
const maxIgnored = 10

// Remarks returns the lines to print in addition to the table, such as warnings.
func (q *Queue) Remarks() []string {
	var lines []string
	for _, w := range q.Warnings {
		lines = append(lines, "warning: "+w)
	}
	for _, c := range q.Contenders {
		if c.Orphan != nil {
			lines = append(lines, render.Safe("orphan: "+c.Orphan.Problem+"; to remove it, run: "+c.Orphan.Command))
		}
	}
	if n := len(q.Ignored); n > 0 {
		text := "ignored: " + strings.Join(q.Ignored[:min(n, maxIgnored)], ", ")
		if n > maxIgnored {
			text += fmt.Sprintf(" and %d more", n-maxIgnored)
		}
		if q.strangers > 0 {
			text += fmt.Sprintf("; ephemeral znodes of an unknown recipe among them: %d", q.strangers)
		}
		lines = append(lines, render.Safe(text))
	}
	if text := q.unknownRemark(); text != "" {
		lines = append(lines, render.Safe(text))
	}
	if q.NoClients != "" {
		lines = append(lines, "client addresses: "+q.NoClients)
	}
	switch {
	case q.MaxLeases > 0:
		lines = append(lines, "the semaphore has "+countLeases(q.MaxLeases))
	case slices.ContainsFunc(q.Contenders, func(c *Contender) bool { return c.Kind == curatorSemaphore }):
		lines = append(lines, "the number of the semaphore's leases is unknown, because Curator does not record it")
	}
	return lines
}

// countLeases returns the number n of leases in words.
func countLeases(n int) string {
	if n == 1 {
		return "1 lease"
	}
	return strconv.Itoa(n) + " leases"
}

// Text implements render.Value. It writes the table of contenders, or "free" if there are none.
func (q *Queue) Text(w io.Writer) error { return q.FitText(w, 0) }

// FitText implements render.Fitter. It writes the same text as Text, shortened to fit columns.
func (q *Queue) FitText(w io.Writer, columns int) error {
	_, err := io.WriteString(w, strings.Join(q.lines(columns), "\n")+"\n")
	return err
}

// Indices of the columns in the table of contenders.
const (
	colPlace = iota
	colMode
	_ // index of the column STATE, which is never removed
	colSession
	colClient
	colAge
	colWho
	colNode
)

// Table returns one row for each contender, without shortening any text. An empty cell contains a
// dash. Scripts can therefore split a row at its spaces, up to the column WHO.
func (q *Queue) Table() render.Grid {
	g := render.Grid{Header: []string{"PLACE", "MODE", "STATE", "SESSION", "CLIENT", "AGE", "WHO", "NODE"}}
	for _, c := range q.Contenders {
		g.Rows = append(g.Rows, c.cells(strconv.Itoa(c.Place), c.modeName(), c.State, c.Session, c.Client, c.Age))
	}
	return g
}

// cells returns the cells of a table row: the given words, followed by the contender's
// description and znode name. All cells are safe to print on one line.
func (c *Contender) cells(words ...string) []string {
	words = append(words, c.Who, c.Node)
	for i, word := range words {
		words[i] = cmp.Or(render.Safe(word), "-")
	}
	return words
}

// lines returns the queue as lines of text that fit a terminal with the given number of columns.
// If columns is 0, the width is unlimited.
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
	if q.State == unknown {
		return append([]string{unknownTitle(len(q.Contenders))}, g.Lines()...)
	}
	return g.Lines()
}

// fit shortens the table step by step until it fits into the given number of columns. It first
// shortens znode names, and then removes CLIENT and SESSION. Next, it removes MODE, because a
// shortened znode name still shows the mode. WHO and AGE are the last columns that it removes.
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

// ShortNode shortens the name or path of a contender's znode to the given number of columns. If
// possible, it keeps the parts that differ between contenders: the lock mode and the end of the
// sequence number. Find accepts shortened names.
func ShortNode(node string, columns int) string {
	if render.Width(node) <= columns {
		return node
	}
	const digits = 5 // minimum number of digits to keep from a sequence number
	name := path.Base(node)
	parsed, ok := zklock.ParseName(name)
	// tail is the part of the name after the GUID. It contains the lock mode and the sequence
	// number.
	_, tail, _ := strings.Cut(name, parsed.GUID)
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
