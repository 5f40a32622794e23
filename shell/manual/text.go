package manual

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"

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

var boldPart = regexp.MustCompile(boldOn + "([^" + boldOff + "]*)" + boldOff)

// Text returns the page as text.
func (p *Page) Text(l Layout) string {
	t := &textLayout{Layout: l, in: inline{source: p.source, bold: l.Bold != nil, code: "`", refer: l.Refer}}
	t.b.WriteString(t.heading(p.Title) + "\n")
	t.blocks(p.blocks, textIndent, false)
	text := t.b.String()
	if l.Bold == nil {
		return text
	}
	return boldPart.ReplaceAllStringFunc(text, func(part string) string { return l.Bold(part[len(boldOn) : len(part)-len(boldOff)]) })
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
func (t *textLayout) blocks(list []ast.Node, indent string, tight bool) {
	for _, n := range list {
		if n.Kind() == ast.KindHTMLBlock {
			continue
		}
		if !tight {
			t.b.WriteByte('\n')
		}
		t.block(n, indent)
	}
}

func (t *textLayout) block(n ast.Node, indent string) {
	switch n := n.(type) {
	case *ast.Heading:
		start := ""
		if n.Level > 2 {
			start = subIndent
		}
		t.wrap(start, start, t.heading(t.in.text(n)))
	case *ast.FencedCodeBlock:
		for _, line := range codeLines(n, t.in.source) {
			t.b.WriteString(strings.TrimRight(indent+codeIndent+line, " ") + "\n")
		}
	case *ast.List:
		t.list(n, indent)
	case *east.Table:
		t.table(n, indent)
	default:
		t.wrap(indent, indent, t.in.text(n))
	}
}

// wrap writes a paragraph whose first line begins with first, and the others with rest.
func (t *textLayout) wrap(first, rest, text string) {
	t.b.WriteString(render.Wrap(first+text, t.Columns, rest) + "\n")
}

// list writes a list whose items hang behind their marks.
func (t *textLayout) list(n *ast.List, indent string) {
	number := n.Start
	for item := range children(n) {
		mark := "- "
		if n.IsOrdered() {
			mark = fmt.Sprintf("%d. ", number)
			number++
		}
		if !n.IsTight && item.PreviousSibling() != nil {
			t.b.WriteByte('\n')
		}
		rest := indent + strings.Repeat(" ", len(mark))
		t.wrap(indent+mark, rest, t.in.text(item.FirstChild()))
		t.blocks(others(item), rest, n.IsTight)
	}
}

// others returns all children but the first one.
func others(n ast.Node) (list []ast.Node) {
	for c := range children(n) {
		if c != n.FirstChild() {
			list = append(list, c)
		}
	}
	return list
}

func codeLines(n *ast.FencedCodeBlock, source []byte) (list []string) {
	for i := range n.Lines().Len() {
		segment := n.Lines().At(i)
		line := strings.TrimRight(string(segment.Value(source)), "\n")
		list = append(list, strings.ReplaceAll(line, "\t", "    "))
	}
	return list
}

// cells returns the rows of a table, its header first.
func (in inline) cells(n *east.Table) (rows [][]string) {
	in.code = "" // columns set it apart
	for row := range children(n) {
		var cells []string
		for cell := range children(row) {
			cells = append(cells, in.text(cell))
		}
		rows = append(rows, cells)
	}
	return rows
}

// table draws columns, of which the last may be wrapped. Where they do not fit, each row is
// its first cell with the others below.
func (t *textLayout) table(n *east.Table, indent string) {
	rows := t.in.cells(n)
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
	for _, row := range rows {
		t.wrap(indent, indent+"  ", row[0])
		for _, about := range abouts(header, row) {
			t.wrap(below, below, about)
		}
	}
}

// abouts returns the cells of a row behind the first one, with the headings of their columns
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
