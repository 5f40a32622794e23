package manual

import (
	"fmt"
	"strings"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
)

// Roff returns the page as sections for the macros of man(7). Without its heading it can follow
// another section's; without its generated parts it can stand beside the same facts. refer is
// that of a Layout.
func (p *Page) Roff(whole bool, refer func(topic string) string) string {
	r := &roffLayout{in: inline{source: p.source, bold: true, refer: refer}}
	if whole {
		fmt.Fprintf(&r.b, ".SH %s\n", headingInRoff(strings.ToUpper(p.Title)))
	}
	generated := false
	for _, n := range p.blocks {
		if n.Kind() == ast.KindHTMLBlock {
			generated = !strings.Contains(string(n.Lines().Value(p.source)), "<!-- end")
		} else if whole || !generated {
			r.block(n)
		}
	}
	return r.b.String()
}

// roffLayout is a page that is being laid out.
type roffLayout struct {
	in inline
	b  strings.Builder
}

func (r *roffLayout) block(n ast.Node) {
	switch n := n.(type) {
	case *ast.Heading:
		if n.Level > 2 {
			fmt.Fprintf(&r.b, ".PP\n\\fB%s\\fR\n", headingInRoff(r.in.text(n)))
		} else {
			fmt.Fprintf(&r.b, ".SS %s\n", headingInRoff(r.in.text(n)))
		}
	case *ast.FencedCodeBlock:
		r.b.WriteString(".PP\n.RS 4\n.nf\n")
		for _, line := range codeLines(n, r.in.source) {
			r.b.WriteString(EscapeRoff(line) + "\n")
		}
		r.b.WriteString(".fi\n.RE\n")
	case *ast.List:
		r.list(n)
	case *east.Table:
		rows := r.in.cells(n)
		for _, row := range rows[1:] {
			fmt.Fprintf(&r.b, ".TP\n%s\n", inRoff(row[0]))
			for i, about := range abouts(rows[0], row) {
				if i > 0 {
					r.b.WriteString(".br\n")
				}
				r.b.WriteString(inRoff(about) + "\n")
			}
		}
	default:
		fmt.Fprintf(&r.b, ".PP\n%s\n", inRoff(r.in.text(n)))
	}
}

func (r *roffLayout) list(n *ast.List) {
	number := n.Start
	for item := range children(n) {
		mark := `\(bu 2`
		if n.IsOrdered() {
			mark = fmt.Sprintf("%d. 4", number)
			number++
		}
		fmt.Fprintf(&r.b, ".IP %s\n%s\n", mark, inRoff(r.in.text(item.FirstChild())))
		if more := others(item); len(more) > 0 {
			r.b.WriteString(".RS 4\n")
			for _, c := range more {
				r.block(c)
			}
			r.b.WriteString(".RE\n")
		}
	}
}

func headingInRoff(text string) string {
	return strings.NewReplacer(boldOn, "", boldOff, "", `"`, `\(dq`).Replace(EscapeRoff(text))
}

// inRoff is EscapeRoff for text that has bold parts.
func inRoff(text string) string {
	return strings.NewReplacer(boldOn, `\fB`, boldOff, `\fR`).Replace(EscapeRoff(text))
}

// EscapeRoff returns text that roff prints as it is: also a dash, or a quote, which may be typed.
func EscapeRoff(text string) string {
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			b.WriteString(`\&`)
		}
		for _, c := range line {
			switch known := roffNames[c]; {
			case known != "":
				b.WriteString(known)
			case c > '~':
				fmt.Fprintf(&b, `\[u%04X]`, c)
			default:
				b.WriteRune(c)
			}
		}
	}
	return b.String()
}

// roffNames are how roff has characters that mean something to it, or that it would print
// as others.
var roffNames = map[rune]string{'\\': `\e`, '-': `\-`, '\'': `\(aq`, '`': `\(ga`, '^': `\(ha`, '~': `\(ti`, '…': "..."}
