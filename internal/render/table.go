package render

import (
	"bufio"
	"io"
	"strings"
)

// Tabler is a value that has a table. One without a header is none.
type Tabler interface {
	Table() Grid
}

// Grid is a table's contents.
type Grid struct {
	Header []string
	Rows   [][]string
	Stat   *Stat // printed as a table of its own below; may be nil
}

// WriteGrid prints a grid without borders, with blanks behind the last column, too.
// Cells are printed as they are, but for control characters, which would break the
// rows.
func WriteGrid(w io.Writer, g Grid) error {
	safe := Grid{Header: g.Header}
	for _, row := range g.Rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = Safe(c)
		}
		safe.Rows = append(safe.Rows, cells)
	}
	widths := safe.Widths()
	b := bufio.NewWriter(w)
	for _, row := range append([][]string{safe.Header}, safe.Rows...) {
		for i, cell := range row {
			b.WriteString(cell)
			b.WriteString(strings.Repeat(" ", widths[i]-Width(cell)+gap))
		}
		b.WriteByte('\n')
	}
	if err := b.Flush(); err != nil || g.Stat == nil {
		return err
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return WriteGrid(w, g.Stat.Table())
}
