package line

import "strings"

// A Style is the way in which a part of a line is shown.
type Style uint8

// The styles.
const (
	Plain Style = iota
	KnownCommand
	UnknownCommand
	Flag
	Quoted
	OpenQuote
	KnownPath
	suggestion // text that is not part of the line
	numStyles
)

// A Span is a part of a line that has a style.
type Span struct {
	From, To int // byte offsets
	Style    Style
}

// A palette contains the control sequence that begins each style. A nil palette means no colors.
type palette *[numStyles]string

// Both palettes can be read on light and on dark backgrounds. In colors256, each color has a
// contrast of at least 3 to both. The 16 basic colors differ between terminals, so colors16 uses
// only those that can be read in most color schemes.
var (
	colors256 = palette(&[numStyles]string{
		KnownCommand: "\x1b[1;38;5;64m", UnknownCommand: "\x1b[38;5;160m", Flag: "\x1b[38;5;31m",
		Quoted:    "\x1b[38;5;130m",
		OpenQuote: "\x1b[38;5;160m", KnownPath: "\x1b[4m", suggestion: "\x1b[38;5;244m",
	})
	colors16 = palette(&[numStyles]string{
		KnownCommand: "\x1b[1m", UnknownCommand: "\x1b[31m", Flag: "\x1b[35m", Quoted: "\x1b[35m",
		OpenQuote: "\x1b[31m", KnownPath: "\x1b[4m", suggestion: "\x1b[90m",
	})
)

// paletteOf returns the palette for the terminal that the variables TERM, COLORTERM and NO_COLOR
// describe.
func paletteOf(getenv func(string) string) palette {
	switch {
	case getenv("NO_COLOR") != "":
		return nil
	case strings.Contains(getenv("TERM"), "256color"), getenv("COLORTERM") != "":
		return colors256
	}
	return colors16
}

// stylesOf returns the style of each character of text.
func stylesOf(text string, spans []Span) []Style {
	styles := make([]Style, 0, len(text))
	for i := range text {
		for len(spans) > 0 && spans[0].To <= i {
			spans = spans[1:]
		}
		style := Plain
		if len(spans) > 0 && spans[0].From <= i {
			style = spans[0].Style
		}
		styles = append(styles, style)
	}
	return styles
}
