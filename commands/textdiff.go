package commands

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The bounds of a textDiff: lines around a change, and how many pairs of lines are
// compared for the shortest one.
const (
	diffContext = 2
	maxPairs    = 4 << 20
)

// textDiff is what makes one text of another: lines that begin with - and +, and some of
// those around them.
func textDiff(before, after string) string {
	a, b := textLines(before), textLines(after)
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var all []string
	same := func(lines []string) {
		for _, l := range lines {
			all = append(all, "  "+l)
		}
	}
	same(a[:head])
	all = append(all, edits(a[head:len(a)-tail], b[head:len(b)-tail])...)
	same(a[len(a)-tail:])
	if diff := near(all); diff != "" || before == after {
		return diff
	}
	return "only the line break at the end has changed\n"
}

// DataDiff is what makes one znode's data of another's, if both are text that people can
// read.
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

// textLines cuts a text into lines.
func textLines(text string) []string {
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	if last := len(lines) - 1; lines[last] == "" {
		return lines[:last]
	}
	return lines
}

// edits is the shortest way from one list of lines to the other, and of two that are
// too long the plainest.
func edits(a, b []string) (all []string) {
	if len(a)*len(b) > maxPairs {
		a, b, all = nil, nil, append(marked("- ", a), marked("+ ", b)...)
	}
	common := make([][]int32, len(a)+1) // how many lines a[i:] and b[j:] have in common
	for i := range common {
		common[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	for len(a) > 0 && len(b) > 0 {
		rest := common[len(common)-1-len(a):]
		at := len(rest[0]) - 1 - len(b)
		switch {
		case a[0] == b[0]:
			all = append(all, "  "+a[0])
			a, b = a[1:], b[1:]
		case rest[1][at] >= rest[0][at+1]:
			all, a = append(all, "- "+a[0]), a[1:]
		default:
			all, b = append(all, "+ "+b[0]), b[1:]
		}
	}
	return append(append(all, marked("- ", a)...), marked("+ ", b)...)
}

func marked(mark string, lines []string) []string {
	all := make([]string, len(lines))
	for i, l := range lines {
		all[i] = mark + l
	}
	return all
}

// near leaves of the lines of a diff those near a change.
func near(all []string) string {
	var b strings.Builder
	shown := 0 // lines so far, or left out and told
	for i, l := range all {
		if l[0] == ' ' {
			continue
		}
		if from := i - diffContext; from > shown {
			b.WriteString("  …\n")
			shown = from
		}
		for end := min(i+1+diffContext, len(all)); shown < end; shown++ {
			if shown > i && all[shown][0] != ' ' {
				break
			}
			b.WriteString(all[shown] + "\n")
		}
	}
	if shown < len(all) && shown > 0 {
		b.WriteString("  …\n")
	}
	return b.String()
}
