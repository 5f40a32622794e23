package render

import (
	"io"

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
