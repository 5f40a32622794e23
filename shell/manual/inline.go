package manual

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/util"
)

// Marks around bold text while it is laid out. They take no column of a terminal.
const (
	boldOn  = "\x0e"
	boldOff = "\x0f"
)

// inline makes one line of the text within a block.
type inline struct {
	source []byte
	bold   bool                      // mark what is bold, and code, as bold
	code   string                    // stands around code that is not bold
	refer  func(topic string) string // words that lead to the page of a topic; nil: links are their text alone
}

// text returns the text of a node.
func (in inline) text(n ast.Node) string {
	var b strings.Builder
	for c := range children(n) {
		in.write(&b, c)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func (in inline) write(b *strings.Builder, n ast.Node) {
	switch n := n.(type) {
	case *ast.Text:
		b.Write(util.UnescapePunctuations(util.ResolveEntityNames(util.ResolveNumericReferences(n.Value(in.source)))))
		if n.SoftLineBreak() || n.HardLineBreak() {
			b.WriteByte(' ')
		}
	case *ast.CodeSpan:
		var code strings.Builder
		for c := range children(n) {
			if t, is := c.(*ast.Text); is {
				code.Write(t.Value(in.source))
			}
		}
		b.WriteString(in.asCode(code.String()))
	case *ast.Emphasis:
		if text := in.text(n); in.bold && n.Level > 1 {
			// Code in bold text ends neither.
			b.WriteString(boldOn + strings.NewReplacer(boldOn, "", boldOff, "").Replace(text) + boldOff)
		} else {
			b.WriteString(text)
		}
	case *ast.Link:
		b.WriteString(in.link(in.text(n), string(n.Destination), strings.HasSuffix(b.String(), "(")))
	case *ast.Image:
		b.WriteString("[picture: " + in.text(n) + "]")
	case *ast.AutoLink:
		b.Write(n.URL(in.source))
	}
}

func (in inline) asCode(text string) string {
	if in.bold {
		return boldOn + text + boldOff
	}
	return in.code + text + in.code
}

// link returns the text of a link. To that of another page it adds the line that prints the page.
// In brackets, which only have the name of the page, it returns that line alone.
func (in inline) link(text, destination string, bracket bool) string {
	file, _, _ := strings.Cut(destination, "#")
	topic, page := strings.CutSuffix(file, ".md")
	switch {
	case in.refer == nil || !page || strings.Contains(topic, "/"):
		return text
	case bracket && strings.EqualFold(text, topic):
		return in.asCode(in.refer(topic))
	}
	return text + " (" + in.asCode(in.refer(topic)) + ")"
}
