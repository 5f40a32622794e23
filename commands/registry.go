package commands

import (
	"slices"
	"strings"
	"unicode"
)

// Registry finds commands by name or alias.
type Registry struct {
	list   []*Command
	byName map[string]*Command
}

// NewRegistry collects commands. A name used twice is an error in the program
// and panics.
func NewRegistry(lists ...[]*Command) *Registry {
	r := &Registry{byName: map[string]*Command{}}
	for _, c := range slices.Concat(lists...) {
		for _, n := range append([]string{c.Name}, c.Aliases...) {
			if r.byName[n] != nil {
				panic("two commands are named " + n)
			}
			r.byName[n] = c
		}
		r.list = append(r.list, c)
	}
	return r
}

// Find returns the command of that name or alias, or nil.
func (r *Registry) Find(name string) *Command { return r.byName[name] }

// All returns the commands in the order of their registration.
func (r *Registry) All() []*Command { return r.list }

// elsewhere are names that other tools give to what a command here does.
var elsewhere = map[string]string{
	"cat":   "did you mean get?",
	"clear": "Ctrl-L clears the screen",
	"find":  "did you mean ls -R?",
	"grep":  "zksh ls -R / | grep … searches for names",
	"lsr":   "did you mean ls -R?",
	"mkdir": "did you mean create?",
	"rm":    "did you mean delete?",
	"rmdir": "did you mean delete?",
	"touch": "did you mean create?",
}

// Hint says what a name that no command has could stand for, or nothing.
func (r *Registry) Hint(name string) string {
	if hint := elsewhere[strings.ToLower(name)]; hint != "" {
		return hint
	}
	if near := r.nearest(name); near != "" {
		return "did you mean " + near + "?"
	}
	return ""
}

// nearest is the name closest to a mistyped one, or "" when none is close. What
// removes whole trees is never meant by mistake.
func (r *Registry) nearest(name string) string {
	if name == "" || !unicode.IsLetter(rune(name[0])) {
		return ""
	}
	best, at := "", 1+min(2, len(name)/2)
	for _, c := range r.list {
		if c.Sweeps {
			continue
		}
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
