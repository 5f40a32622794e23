package render

import (
	"bufio"
	"io"
	"strings"

	"github.com/mattn/go-runewidth"
)

// Lister is a value that is a list of names, perhaps with a Stat below it.
type Lister interface {
	Columns() (items []string, stat *Stat)
}

// gap is the number of blanks between two columns.
const gap = 2

// fewItems are worth a search for the tightest layout.
const fewItems = 2000

// writeColumns lays a list out for a terminal, in as few rows as fit, each column
// from top to bottom.
func writeColumns(w io.Writer, items []string, stat *Stat, width int) error {
	cells := make([]string, len(items))
	for i, s := range items {
		cells[i] = Safe(s)
	}
	rows, widths := arrange(cells, width)
	b := bufio.NewWriter(w)
	for row := range rows {
		for column := 0; column*rows+row < len(cells); column++ {
			cell := cells[column*rows+row]
			b.WriteString(cell)
			if (column+1)*rows+row < len(cells) {
				b.WriteString(strings.Repeat(" ", widths[column]-runewidth.StringWidth(cell)+gap))
			}
		}
		b.WriteByte('\n')
	}
	if err := b.Flush(); err != nil || stat == nil {
		return err
	}
	return stat.Text(w)
}

// arrange finds the fewest rows whose columns fit side by side, and how wide the
// columns are.
func arrange(cells []string, width int) (rows int, widths []int) {
	lengths := make([]int, len(cells))
	widest := 0
	for i, c := range cells {
		lengths[i] = runewidth.StringWidth(c)
		widest = max(widest, lengths[i])
	}
	// With all columns as wide as the widest it fits for sure.
	most := (len(cells)-1)/max(1, (width+gap)/(widest+gap)) + 1
	rows = 1
	if len(cells) > fewItems {
		rows = most
	}
	for ; ; rows++ {
		if widths, all := columnWidths(lengths, rows); rows == most || all <= width {
			return rows, widths
		}
	}
}

// columnWidths is how wide each column is when there are so many rows, and all of
// them with the gaps between.
func columnWidths(lengths []int, rows int) (widths []int, all int) {
	widths = make([]int, (len(lengths)-1)/rows+1)
	for i, n := range lengths {
		widths[i/rows] = max(widths[i/rows], n)
	}
	all = gap * (len(widths) - 1)
	for _, n := range widths {
		all += n
	}
	return widths, all
}
