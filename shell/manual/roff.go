package manual

import (
	"fmt"
	"strings"
)

// Roff returns the page as sections for the macros of man(7). Without its heading it can follow
// another section's; without its generated parts it can stand beside the same facts. refer is
// that of a Layout.
func (p *Page) Roff(whole bool, refer func(topic string) string) string {
	r := &roffLayout{in: inline{bold: true, refer: refer}}
	if whole {
		fmt.Fprintf(&r.b, ".SH %s\n", headingInRoff(strings.ToUpper(p.Title)))
	}
	generated := false
	for _, b := range p.blocks {
		if b.kind == comment {
			generated = !strings.Contains(b.text, "<!-- end")
		} else if whole || !generated {
			r.block(b)
		}
	}
	return r.b.String()
}

// roffLayout is a page that is being laid out.
type roffLayout struct {
	in inline
	b  strings.Builder
}

func (r *roffLayout) block(b block) {
	switch b.kind {
	case heading:
		if b.level > 2 {
			fmt.Fprintf(&r.b, ".PP\n\\fB%s\\fR\n", headingInRoff(r.in.text(b.text)))
		} else {
			fmt.Fprintf(&r.b, ".SS %s\n", headingInRoff(r.in.text(b.text)))
		}
	case code:
		r.b.WriteString(".PP\n.RS 4\n.nf\n")
		for _, line := range codeLines(b) {
			r.b.WriteString(EscapeRoff(line) + "\n")
		}
		r.b.WriteString(".fi\n.RE\n")
	case list:
		r.list(b)
	case table:
		rows := r.in.cells(b)
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
		fmt.Fprintf(&r.b, ".PP\n%s\n", inRoff(r.in.text(b.text)))
	}
}

func (r *roffLayout) list(b block) {
	for i, item := range b.items {
		mark := `\(bu 2`
		if b.ordered {
			mark = fmt.Sprintf("%d. 4", b.start+i)
		}
		fmt.Fprintf(&r.b, ".IP %s\n%s\n", mark, inRoff(r.in.text(item[0].text)))
		if len(item) > 1 {
			r.b.WriteString(".RS 4\n")
			for _, more := range item[1:] {
				r.block(more)
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
