package render

import "strings"

// A Style is the appearance of text on a terminal: the parameters of the control sequence SGR.
type Style string

// Styles that are readable on light and dark backgrounds.
const (
	Plain  Style = ""
	Strong Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Blue   Style = "94"
	Cyan   Style = "36"
)

// A Span is a part of a line with a single style.
type Span struct {
	Text  string
	Style Style
}

// A Line is a line of a terminal whose parts can have different styles.
type Line []Span

// PlainLine returns a line without styles.
func PlainLine(text string) Line { return Line{{Text: text}} }

// Text returns the text of the line without its styles.
func (l Line) Text() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.Text)
	}
	return b.String()
}

// Width returns the number of terminal columns that the line occupies.
func (l Line) Width() int { return Width(l.Text()) }

// Terminal returns the line as it is written to a terminal: with control characters escaped, cut to
// the given number of columns, and with control sequences for its styles if styled is true.
func (l Line) Terminal(columns int, styled bool) string {
	var b strings.Builder
	for i, s := range l {
		text := Safe(s.Text)
		rest := columns - Width(text)
		if rest < 0 || rest == 0 && l[i+1:].Width() > 0 { // as Cut does: the ellipsis takes the last column
			text = Cut(text+"  ", columns)
		}
		if styled && s.Style != Plain {
			text = "\x1b[" + string(s.Style) + "m" + text + "\x1b[0m"
		}
		b.WriteString(text)
		if columns = rest; columns < 0 || columns == 0 && l[i+1:].Width() > 0 {
			break
		}
	}
	return b.String()
}
