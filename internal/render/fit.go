package render

import "io"

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
		over := -gap - columns
		for _, w := range widths {
			if w > 0 {
				over += w + gap
			}
		}
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
