package commands

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
)

// diffContext is how many lines around a change a textDiff has.
const diffContext = 2

// textDiff returns the difference of two texts: the lines that begin with - and +, and some
// of the lines around them.
func textDiff(before, after string) string {
	if before == after {
		return ""
	}
	a, b := wholeLines(before), wholeLines(after)
	diff, err := udiff.ToUnifiedDiff("", "", a, udiff.Lines(a, b), diffContext)
	if err != nil || len(diff.Hunks) == 0 { // no error: the edits are those of the text
		return "only the line break at the end has changed\n"
	}
	var text strings.Builder
	next := 1 // line of the text before
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

// wholeLines ends the last line of a text.
func wholeLines(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// DataDiff returns the difference of the data of two znodes, or "" if one of them is not
// readable text.
func DataDiff(before, after []byte) string {
	if !IsText(before) || !IsText(after) {
		return ""
	}
	return textDiff(string(before), string(after))
}

// IsText tells data that people can read.
func IsText(data []byte) bool {
	binary := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' }
	return utf8.Valid(data) && !bytes.ContainsFunc(data, binary)
}
