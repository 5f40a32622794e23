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

// NewRegistry returns a registry of all commands in lists. It keeps the commands of a group
// together, even if they come from different lists. It panics if two commands have the same name,
// which is a programming error.
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
	first := map[string]int{}
	for i, c := range r.list {
		if _, seen := first[c.Group]; !seen {
			first[c.Group] = i
		}
	}
	slices.SortStableFunc(r.list, func(a, b *Command) int { return first[a.Group] - first[b.Group] })
	return r
}

// Find returns the command with the given name or alias, or nil if there is none.
func (r *Registry) Find(name string) *Command { return r.byName[name] }

// All returns all commands. The commands of a group are adjacent.
func (r *Registry) All() []*Command { return r.list }

// About searches the commands for a word. found contains each command whose name contains the word,
// or whose summary contains a word with that prefix. mentioned contains the other commands whose
// help contains a word with that prefix. A command that deletes whole subtrees is found only by its
// summary.
func (r *Registry) About(word string) (found, mentioned []*Command) {
	word = strings.ToLower(word)
	separates := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	begins := func(w string) bool { return strings.HasPrefix(w, word) }
	for _, c := range r.list {
		has := func(text string) bool {
			return slices.ContainsFunc(strings.FieldsFunc(strings.ToLower(text), separates), begins)
		}
		named := strings.Contains(strings.ToLower(c.Name), word) && !c.Effect.Has(Sweeps)
		switch {
		case len(word) > 1 && (named || has(c.Summary)):
			found = append(found, c)
		case len(word) > 3 && !c.Effect.Has(Sweeps) && has(c.Help):
			mentioned = append(mentioned, c)
		}
	}
	return found, mentioned
}

// foreignNames maps command names of other tools to hints about the corresponding zksh commands.
var foreignNames = map[string]string{
	".":          "did you mean source?",
	"cat":        "did you mean get?",
	"backup":     "did you mean export -R?",
	"dir":        "did you mean ls?",
	"dump":       "did you mean export -R?",
	"grep":       "to search for names, use find / -name …; to search for data, use find / -data …",
	"head":       "to see the start of an answer, use get /PATH | head",
	"less":       "to read an answer page by page, use get /PATH | less",
	"ll":         "did you mean ls -l?",
	"lsr":        "did you mean ls -R?",
	"man":        "did you mean help? In other shells, zksh man prints the manual page",
	"completion": "run zksh completion in bash, zsh or fish, not at this prompt",
	"mkdir":      "did you mean create?",
	"more":       "to read an answer page by page, use get /PATH | less",
	"nano":       "did you mean edit?",
	"q":          "did you mean quit?",
	"rename":     "did you mean mv?",
	"restore":    "to restore an export, use import -R; to restore what a command destroyed, use undo",
	"rm":         "did you mean delete?",
	"rmdir":      "did you mean delete?",
	"tail":       "to see the end of an answer, use get /PATH | tail",
	"ssl":        "for TLS, see help security",
	"touch":      "did you mean create?",
	"undelete":   "did you mean undo?",
	"vi":         "did you mean edit?",
	"vim":        "did you mean edit?",
}

// Hint returns a suggestion for an unknown command name, or an empty string if nothing is similar.
// It can suggest a registered command, or one of the names in more.
func (r *Registry) Hint(name string, more ...string) string {
	if hint := foreignNames[strings.ToLower(name)]; hint != "" {
		return hint
	}
	if near := r.nearest(name, more...); near != "" {
		return "did you mean " + near + "?"
	}
	return ""
}

// nearest returns the name most similar to a mistyped one, or an empty string if none is similar.
// It never returns a command that deletes whole subtrees.
func (r *Registry) nearest(name string, more ...string) string {
	if name == "" || !unicode.IsLetter(rune(name[0])) {
		return ""
	}
	names := slices.Clone(more)
	for _, c := range r.list {
		if !c.Effect.Has(Sweeps) {
			names = append(append(names, c.Name), c.Aliases...)
		}
	}
	best, at := "", 1+min(2, len(name)/2)
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d < at || d == at && best != "" && n < best {
			best, at = n, d
		}
	}
	return best
}

// distance returns the number of single-character edits that turn one word into the other. A swap
// of two adjacent characters counts as one edit.
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

// All returns the commands that this package implements.
func All() []*Command {
	return []*Command{
		lsCommand, ls2Command, getCommand, statCommand, existsCommand, createCommand, setCommand, editCommand, deleteCommand,
		treeCommand, findCommand, duCommand, deleteallCommand, rmrCommand, getAllChildrenNumberCommand, getACLCommand, setACLCommand, addauthCommand, digestCommand,
		setquotaCommand, listquotaCommand, delquotaCommand, addWatchCommand, removewatchesCommand, waitCommand, watchCommand, getEphemeralsCommand,
		connectCommand, closeCommand, syncCommand, whoamiCommand, versionCommand, configCommand, reconfigCommand,
	}
}
