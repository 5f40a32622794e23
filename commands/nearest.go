package commands

import (
	"strings"
	"unicode"
)

// Nearest returns the name closest to a mistyped one, or "" when none is close.
func (r *Registry) Nearest(name string) string {
	if name == "" || !unicode.IsLetter(rune(name[0])) {
		return ""
	}
	best, at := "", 1+min(2, len(name)/2)
	for _, c := range r.list {
		for _, n := range append([]string{c.Name}, c.Aliases...) {
			if d := distance(strings.ToLower(name), strings.ToLower(n)); d < at || d == at && best != "" && n < best {
				best, at = n, d
			}
		}
	}
	return best
}

// distance is the number of single-character edits, swaps of neighbours
// included, between two words.
func distance(a, b string) int {
	var before, prev, cur []int
	for j := range len(b) + 1 {
		prev = append(prev, j)
	}
	for i := range len(a) {
		cur = append(make([]int, 0, len(b)+1), i+1)
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			d := min(prev[j]+cost, prev[j+1]+1, cur[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, before[j-1]+1)
			}
			cur = append(cur, d)
		}
		before, prev = prev, cur
	}
	return prev[len(b)]
}
