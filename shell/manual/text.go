package manual

import (
	"fmt"
	"strings"

	"github.com/zksh/zksh/internal/render"
)

// A Layout contains the options for laying out a page as text.
type Layout struct {
	Columns int                       // width of the terminal; if it is less than 1, lines are not wrapped
	Bold    func(text string) string  // makes text bold; nil for plain text
	Refer   func(topic string) string // returns the help command for a topic; if nil, only the text of a link remains
}

const (
	textIndent = "    " // indentation of text
	codeIndent = "  "   // additional indentation of code
	subIndent  = "  "   // indentation of headings below the second level
)

// minLastColumn is the minimum width of the last column of a table. If the terminal leaves less
// space for it, each row is written as paragraphs.
const minLastColumn = 24

var boldPart = compiled(boldOn + "([^" + boldOff + "]*)" + boldOff)

// Text lays the page out as text for a terminal.
func (p *Page) Text(l Layout) string {
	t := &textLayout{Layout: l, in: inline{markBold: l.Bold != nil, codeQuote: "`", refer: l.Refer}}
	t.b.WriteString(t.heading(p.Title) + "\n")
	t.blocks(p.blocks, textIndent, false)
	text := t.b.String()
	if l.Bold == nil {
		return text
	}
	return boldPart().ReplaceAllStringFunc(text, func(part string) string { return l.Bold(part[len(boldOn) : len(part)-len(boldOff)]) })
}

// A textLayout builds the text of a page.
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

// blocks writes the given blocks. Unless tight is true, it writes an empty line before each block.
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
		t.wrap(start, start, t.heading(t.in.convert(b.text)))
	case code:
		for _, line := range codeLines(b) {
			t.b.WriteString(strings.TrimRight(indent+codeIndent+line, " ") + "\n")
		}
	case list:
		t.list(b, indent)
	case table:
		t.table(b, indent)
	default:
		t.wrap(indent, indent, t.in.convert(b.text))
	}
}

// wrap writes a paragraph and wraps its lines. first is the prefix of the first line, and rest is
// the prefix of all other lines.
func (t *textLayout) wrap(first, rest, text string) {
	t.b.WriteString(render.Wrap(first+text, t.Columns, rest) + "\n")
}

// list writes a list. The second and later lines of an item begin below the text of its
// first line.
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
		t.wrap(indent+mark, rest, t.in.convert(item[0].text))
		t.blocks(item[1:], rest, b.tight)
	}
}

func codeLines(b block) (lines []string) {
	for _, line := range b.lines {
		lines = append(lines, strings.ReplaceAll(line, "\t", "    "))
	}
	return lines
}

// cells converts the cells of a table to text. The first row is the header.
func (in inline) cells(b block) (rows [][]string) {
	in.codeQuote = "" // code in a table needs no quotes
	for _, row := range b.rows {
		var cells []string
		for _, cell := range row {
			cells = append(cells, in.convert(cell))
		}
		rows = append(rows, cells)
	}
	return rows
}

// table writes a table in columns, and wraps the text in the last column. If the columns do not
// fit, it writes each row as paragraphs: the first cell, and below it the other cells. The header
// is then written only if it has two cells.
func (t *textLayout) table(b block, indent string) {
	rows := t.in.cells(b)
	header := rows[0]
	grid := render.Grid{Header: header, Rows: rows[1:]}
	widths := grid.Widths()
	last := len(widths) - 1
	before := len(indent) + grid.Width() - widths[last] // width of the indentation and of all columns except the last
	if t.Columns > 0 && before+min(widths[last], minLastColumn) > t.Columns {
		t.tableAsParagraphs(header, rows[1:], indent)
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

func (t *textLayout) tableAsParagraphs(header []string, rows [][]string, indent string) {
	below := indent + textIndent
	if len(header) == 2 && header[0]+header[1] != "" {
		for i, cell := range []string{indent, below} {
			t.wrap(cell, cell, t.heading(header[i]))
		}
	}
	for _, row := range rows {
		t.wrap(indent, indent+"  ", row[0])
		for _, about := range describeCells(header, row) {
			t.wrap(below, below, about)
		}
	}
}

// describeCells returns the texts of all cells of a row except the first. If there are several,
// each text begins with the heading of its column. describeCells skips empty cells.
func describeCells(header, row []string) (list []string) {
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
