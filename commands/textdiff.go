package commands

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
)

// diffContext is the number of unchanged lines that textDiff prints before and after a change.
const diffContext = 2

// textDiff returns the difference between two texts, line by line. Removed lines begin with "-",
// added lines with "+", and the unchanged lines around them with spaces.
func textDiff(before, after string) string {
	if before == after {
		return ""
	}
	a, b := endLastLine(before), endLastLine(after)
	diff, err := udiff.ToUnifiedDiff("", "", a, udiff.Lines(a, b), diffContext)
	// The error is always nil, because the edits were computed from the same text.
	if err != nil || len(diff.Hunks) == 0 {
		return "only the line break at the end has changed\n"
	}
	var text strings.Builder
	next := 1 // number of the first line of before that has not been printed yet
	for _, h := range diff.Hunks {
		if h.FromLine > next {
			text.WriteString("  …\n")
		}
		next = h.FromLine
		for _, l := range h.Lines {
			switch l.Kind {
			case udiff.Delete:
				text.WriteString("- ")
			case udiff.Insert:
				text.WriteString("+ ")
			default:
				text.WriteString("  ")
			}
			if text.WriteString(l.Content); l.Kind != udiff.Insert {
				next++
			}
		}
	}
	if next <= strings.Count(a, "\n") {
		text.WriteString("  …\n")
	}
	return text.String()
}

// endLastLine returns the text with a line break at its end. It returns an empty text unchanged.
func endLastLine(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// DataDiff returns the difference between two versions of a znode's data, or an empty string if
// one of them is not text.
func DataDiff(before, after []byte) string {
	if !isText(before) || !isText(after) {
		return ""
	}
	return textDiff(string(before), string(after))
}

// isText reports whether data is UTF-8 text without control characters, except for line breaks
// and tabs.
func isText(data []byte) bool {
	binary := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' }
	return utf8.Valid(data) && !bytes.ContainsFunc(data, binary)
}
