package render

import (
	"bufio"
	"io"
	"strings"

	"github.com/mattn/go-runewidth"
	"github.com/olekukonko/tablewriter"
)

// A Tabler is a value that can be printed as a table. If the table has no header, the text of the
// value is printed instead.
type Tabler interface {
	Table() Grid
}

// A Grid is the contents of a table.
type Grid struct {
	Header []string
	Rows   [][]string
	Stat   *Stat // printed below the grid as a second table, or nil if there is none
}

// WriteGrid prints a grid without borders. It escapes control characters, because they would
// break rows.
func WriteGrid(w io.Writer, g Grid) error {
	var text strings.Builder
	t := tablewriter.NewWriter(&text)
	t.SetAutoFormatHeaders(false)
	t.SetAutoWrapText(false)
	t.SetHeaderAlignment(tablewriter.ALIGN_LEFT)
	t.SetAlignment(tablewriter.ALIGN_LEFT)
	t.SetNoWhiteSpace(true) // neither borders nor separators
	t.SetTablePadding("  ")
	t.SetBorders(tablewriter.Border{Left: true}) // is not drawn; without it, the last header has less padding
	t.SetHeaderLine(false)
	t.SetHeader(g.Header)
	for _, row := range g.Rows {
		safe := make([]string, len(row))
		for i, c := range row {
			safe[i] = Safe(c)
		}
		t.Append(safe)
	}
	t.Render()
	if g.Stat != nil {
		text.WriteString("\n")
	}
	if _, err := io.WriteString(w, text.String()); err != nil || g.Stat == nil {
		return err
	}
	return WriteGrid(w, g.Stat.Table())
}

// Lines returns the header and the rows as aligned lines without trailing spaces. The cells must
// not contain control characters.
func (g Grid) Lines() (lines []string) {
	widths := g.Widths()
	for _, row := range append([][]string{g.Header}, g.Rows...) {
		var b strings.Builder
		for i, cell := range row {
			b.WriteString(cell + strings.Repeat(" ", widths[i]-Width(cell)+2))
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return lines
}

// A Fitter is a value whose text can be laid out for the width of a terminal.
type Fitter interface {
	FitText(w io.Writer, columns int) error
}

// A Step is one way to make a grid narrower: it narrows or removes a column.
type Step struct {
	Column int
	Width  int                                 // minimum width of the column; 0 removes the column
	Cut    func(cell string, width int) string // shortens a cell; if nil, the function Cut does
}

// Fit narrows the grid, step by step, until it fits the given number of terminal columns or no
// steps remain. If columns is below 1, the width is unknown, and the grid is returned unchanged.
func (g Grid) Fit(columns int, steps ...Step) Grid {
	if columns < 1 {
		return g
	}
	widths := g.Widths()
	cuts := make([]func(string, int) string, len(widths))
	for _, s := range steps {
		excess := totalWidth(widths) - columns
		if excess <= 0 {
			break
		}
		if widths[s.Column] = min(widths[s.Column], max(widths[s.Column]-excess, s.Width)); s.Width == 0 {
			widths[s.Column] = 0
		}
		cuts[s.Column] = s.Cut
	}
	fit := func(cells []string) (fitted []string) {
		for i, cell := range cells {
			switch {
			case widths[i] == 0:
				continue
			case Width(cell) > widths[i] && cuts[i] != nil:
				cell = cuts[i](cell, widths[i])
			}
			fitted = append(fitted, Cut(cell, widths[i]))
		}
		return fitted
	}
	fitted := Grid{Header: fit(g.Header), Stat: g.Stat}
	for _, row := range g.Rows {
		fitted.Rows = append(fitted.Rows, fit(row))
	}
	return fitted
}

// Width returns the number of terminal columns that the grid occupies, including the gaps
// between columns.
func (g Grid) Width() int { return totalWidth(g.Widths()) }

func totalWidth(widths []int) int {
	sum := -gap
	for _, w := range widths {
		if w > 0 {
			sum += w + gap
		}
	}
	return sum
}

// Widths returns the width of each column of the grid, in terminal columns.
func (g Grid) Widths() []int {
	widths := make([]int, len(g.Header))
	for _, row := range append([][]string{g.Header}, g.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], Width(cell))
		}
	}
	return widths
}

// A Lister is a value that consists of a list of names, optionally followed by a Stat.
type Lister interface {
	Columns() (items []string, stat *Stat)
}

// gap is the number of spaces between two columns.
const gap = 2

// maxSearchedItems is the maximum length of a list that arrange lays out in as few rows as
// possible.
const maxSearchedItems = 2000

// writeColumns prints a list in columns, in as few rows as possible. The items run down each
// column.
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

// arrange returns the smallest number of rows that makes the columns fit into width, and the widths
// of the columns. For a long list, the number of rows may be larger than necessary.
func arrange(cells []string, width int) (rows int, widths []int) {
	lengths := make([]int, len(cells))
	widest := 0
	for i, c := range cells {
		lengths[i] = runewidth.StringWidth(c)
		widest = max(widest, lengths[i])
	}
	// most is the number of rows if all columns are as wide as the widest cell. The list never
	// needs more rows.
	most := (len(cells)-1)/max(1, (width+gap)/(widest+gap)) + 1
	rows = 1
	if len(cells) > maxSearchedItems {
		rows = most
	}
	for ; ; rows++ {
		if widths, all := columnWidths(lengths, rows); rows == most || all <= width {
			return rows, widths
		}
	}
}

// columnWidths returns the width of each column if the list is printed in the given number of rows.
// all is the total width, including the gaps between columns.
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
