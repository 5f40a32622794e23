package manual

import (
	"fmt"
	"strings"
)

// Roff formats the page as sections for the man macros of roff. If whole is false, it omits the
// title and the generated parts, so that the page can be included in a document that already
// contains the same facts. refer returns the help command for a topic.
func (p *Page) Roff(whole bool, refer func(topic string) string) string {
	r := &roffLayout{in: inline{markBold: true, refer: refer}}
	if whole {
		fmt.Fprintf(&r.b, ".SH %s\n", escapeHeading(strings.ToUpper(p.Title)))
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

// A roffLayout builds the roff text of a page.
type roffLayout struct {
	in inline
	b  strings.Builder
}

func (r *roffLayout) block(b block) {
	switch b.kind {
	case heading:
		if b.level > 2 {
			fmt.Fprintf(&r.b, ".PP\n\\fB%s\\fR\n", escapeHeading(r.in.convert(b.text)))
		} else {
			fmt.Fprintf(&r.b, ".SS %s\n", escapeHeading(r.in.convert(b.text)))
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
			fmt.Fprintf(&r.b, ".TP\n%s\n", escapeMarked(row[0]))
			for i, about := range describeCells(rows[0], row) {
				if i > 0 {
					r.b.WriteString(".br\n")
				}
				r.b.WriteString(escapeMarked(about) + "\n")
			}
		}
	default:
		fmt.Fprintf(&r.b, ".PP\n%s\n", escapeMarked(r.in.convert(b.text)))
	}
}

func (r *roffLayout) list(b block) {
	for i, item := range b.items {
		mark := `\(bu 2`
		if b.ordered {
			mark = fmt.Sprintf("%d. 4", b.start+i)
		}
		fmt.Fprintf(&r.b, ".IP %s\n%s\n", mark, escapeMarked(r.in.convert(item[0].text)))
		if len(item) > 1 {
			r.b.WriteString(".RS 4\n")
			for _, more := range item[1:] {
				r.block(more)
			}
			r.b.WriteString(".RE\n")
		}
	}
}

func escapeHeading(text string) string {
	return strings.NewReplacer(boldOn, "", boldOff, "", `"`, `\(dq`).Replace(EscapeRoff(text))
}

// escapeMarked is like EscapeRoff, but also converts the markers around bold text to roff escapes.
func escapeMarked(text string) string {
	return strings.NewReplacer(boldOn, `\fB`, boldOff, `\fR`).Replace(EscapeRoff(text))
}

// EscapeRoff escapes text so that roff prints it unchanged. Dashes and quotes remain ASCII
// characters, so that a reader can copy and paste them.
func EscapeRoff(text string) string {
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		// "…" becomes dots
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") || strings.HasPrefix(line, "…") {
			b.WriteString(`\&`)
		}
		for _, c := range line {
			switch known := roffEscapes[c]; {
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

// roffEscapes maps characters that are special in roff, or that roff would print differently, to
// their escapes.
var roffEscapes = map[rune]string{'\\': `\e`, '-': `\-`, '\'': `\(aq`, '`': `\(ga`, '^': `\(ha`, '~': `\(ti`, '…': "..."}
