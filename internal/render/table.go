package render

import (
	"bufio"
	"io"
	"strings"

	"github.com/mattn/go-runewidth"
	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
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

// WriteGrid prints a grid without borders. Cells are printed as they are, but
// for control characters, which would break the rows.
func WriteGrid(w io.Writer, g Grid) error {
	cell := tw.CellConfig{
		Alignment:  tw.CellAlignment{Global: tw.AlignLeft},
		Formatting: tw.CellFormatting{AutoFormat: tw.Off, AutoWrap: tw.WrapNone},
		Padding:    tw.CellPadding{Global: tw.Padding{Right: "  ", Overwrite: true}},
	}
	t := tablewriter.NewTable(w,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders:  tw.BorderNone,
			Settings: tw.Settings{Separators: tw.SeparatorsNone, Lines: tw.LinesNone},
		})),
		tablewriter.WithConfig(tablewriter.Config{Header: cell, Row: cell, Behavior: tw.Behavior{TrimSpace: tw.Off}}))
	t.Header(g.Header)
	for _, row := range g.Rows {
		safe := make([]string, len(row))
		for i, c := range row {
			safe[i] = Safe(c)
		}
		if err := t.Append(safe); err != nil {
			return err
		}
	}
	if err := t.Render(); err != nil || g.Stat == nil {
		return err
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return WriteGrid(w, g.Stat.Table())
}

// Lines returns the header and the rows as aligned lines, without blanks at their ends. Cells
// must be safe to print.
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

// Fitter is a value whose text can be made to fit a terminal of so many columns.
type Fitter interface {
	FitText(w io.Writer, columns int) error
}

// Step is one way to make a grid narrower.
type Step struct {
	Column int
	Width  int                                 // no narrower than that; 0: it is left out
	Cut    func(cell string, width int) string // how a cell gets shorter; nil: by Cut
}

// Fit narrows a grid step by step until it takes so many columns of a terminal,
// with a gap of two between its own. Below 1 they are not known, and it stays.
func (g Grid) Fit(columns int, steps ...Step) Grid {
	if columns < 1 {
		return g
	}
	widths := g.Widths()
	cuts := make([]func(string, int) string, len(widths))
	for _, s := range steps {
		over := taken(widths) - columns
		if over <= 0 {
			break
		}
		if widths[s.Column] = min(widths[s.Column], max(widths[s.Column]-over, s.Width)); s.Width == 0 {
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

// Width is how many columns of a terminal the grid takes, with a gap of two between its own.
func (g Grid) Width() int { return taken(g.Widths()) }

func taken(widths []int) int {
	sum := -gap
	for _, w := range widths {
		if w > 0 {
			sum += w + gap
		}
	}
	return sum
}

// Widths is how many columns of a terminal each column of the grid takes.
func (g Grid) Widths() []int {
	widths := make([]int, len(g.Header))
	for _, row := range append([][]string{g.Header}, g.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], Width(cell))
		}
	}
	return widths
}

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
