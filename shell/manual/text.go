package manual

import (
	"fmt"
	"strings"

	"github.com/zksh/zksh/internal/render"
)

// Layout is how a page is laid out.
type Layout struct {
	Columns int                       // of the terminal; below 1: lines are not wrapped
	Bold    func(text string) string  // makes text bold; nil: there is no bold text
	Refer   func(topic string) string // words that lead to the page of a topic; may be nil
}

// Indents of text, of code and of the smaller headings.
const (
	textIndent = "    "
	codeIndent = "  "
	subIndent  = "  "
)

// leastLast is the least width of the last column of a table. In less room each row becomes a
// paragraph.
const leastLast = 24

var boldPart = compiled(boldOn + "([^" + boldOff + "]*)" + boldOff)

// Text returns the page as text.
func (p *Page) Text(l Layout) string {
	t := &textLayout{Layout: l, in: inline{bold: l.Bold != nil, code: "`", refer: l.Refer}}
	t.b.WriteString(t.heading(p.Title) + "\n")
	t.blocks(p.blocks, textIndent, false)
	text := t.b.String()
	if l.Bold == nil {
		return text
	}
	return boldPart().ReplaceAllStringFunc(text, func(part string) string { return l.Bold(part[len(boldOn) : len(part)-len(boldOff)]) })
}

// textLayout is a page that is being laid out.
type textLayout struct {
	Layout
	in inline
	b  strings.Builder
}

func (t *textLayout) heading(text string) string {
	if t.Bold == nil {
		return text
	}
	return boldOn + strings.NewReplacer(boldOn, "", boldOff, "").Replace(text) + boldOff
}

// blocks writes blocks, with an empty line before each unless they are tight.
func (t *textLayout) blocks(blocks []block, indent string, tight bool) {
	for _, b := range blocks {
		if b.kind == comment {
			continue
		}
		if !tight {
			t.b.WriteByte('\n')
		}
		t.block(b, indent)
	}
}

func (t *textLayout) block(b block, indent string) {
	switch b.kind {
	case heading:
		start := ""
		if b.level > 2 {
			start = subIndent
		}
		t.wrap(start, start, t.heading(t.in.text(b.text)))
	case code:
		for _, line := range codeLines(b) {
			t.b.WriteString(strings.TrimRight(indent+codeIndent+line, " ") + "\n")
		}
	case list:
		t.list(b, indent)
	case table:
		t.table(b, indent)
	default:
		t.wrap(indent, indent, t.in.text(b.text))
	}
}

// wrap writes a paragraph whose first line begins with first, and the others with rest.
func (t *textLayout) wrap(first, rest, text string) {
	t.b.WriteString(render.Wrap(first+text, t.Columns, rest) + "\n")
}

// list writes a list whose items hang after their marks.
func (t *textLayout) list(b block, indent string) {
	for i, item := range b.items {
		mark := "- "
		if b.ordered {
			mark = fmt.Sprintf("%d. ", b.start+i)
		}
		if !b.tight && i > 0 {
			t.b.WriteByte('\n')
		}
		rest := indent + strings.Repeat(" ", len(mark))
		t.wrap(indent+mark, rest, t.in.text(item[0].text))
		t.blocks(item[1:], rest, b.tight)
	}
}

func codeLines(b block) (lines []string) {
	for _, line := range b.lines {
		lines = append(lines, strings.ReplaceAll(line, "\t", "    "))
	}
	return lines
}

// cells returns the rows of a table as text, its header first.
func (in inline) cells(b block) (rows [][]string) {
	in.code = "" // columns set it apart
	for _, row := range b.rows {
		var cells []string
		for _, cell := range row {
			cells = append(cells, in.text(cell))
		}
		rows = append(rows, cells)
	}
	return rows
}

// table draws columns, of which the last may be wrapped. Where they do not fit, each row is
// its first cell with the others below, and so is the header of two columns.
func (t *textLayout) table(b block, indent string) {
	rows := t.in.cells(b)
	header := rows[0]
	grid := render.Grid{Header: header, Rows: rows[1:]}
	widths := grid.Widths()
	last := len(widths) - 1
	before := len(indent) + grid.Width() - widths[last] // where the last column begins
	if t.Columns > 0 && before+min(widths[last], leastLast) > t.Columns {
		t.entries(header, rows[1:], indent)
		return
	}
	hang := strings.Repeat(" ", before)
	for i, row := range rows {
		line := indent
		for c, cell := range row {
			gap := 0
			if c < last {
				gap = widths[c] - render.Width(cell) + 2
			}
			if i == 0 && cell != "" {
				cell = t.heading(cell)
			}
			line += cell + strings.Repeat(" ", gap)
		}
		t.b.WriteString(strings.TrimRight(render.Wrap(line, t.Columns, hang), " ") + "\n")
	}
}

func (t *textLayout) entries(header []string, rows [][]string, indent string) {
	below := indent + textIndent
	if len(header) == 2 && header[0]+header[1] != "" {
		for i, cell := range []string{indent, below} {
			t.wrap(cell, cell, t.heading(header[i]))
		}
	}
	for _, row := range rows {
		t.wrap(indent, indent+"  ", row[0])
		for _, about := range abouts(header, row) {
			t.wrap(below, below, about)
		}
	}
}

// abouts returns the cells of a row after the first one, with the headings of their columns
// if there are several.
func abouts(header, row []string) (list []string) {
	for i, cell := range row[1:] {
		switch {
		case cell == "":
			continue
		case len(row) > 2:
			cell = header[i+1] + ": " + cell
		}
		list = append(list, cell)
	}
	return list
}
