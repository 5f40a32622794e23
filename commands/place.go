package commands

import (
	"strings"
)

// Place is a parsed word of the kind PlaceWord: a path in the shell's ensemble (Path), a path in
// another ensemble (Spec and Path), or a file (File), whose subtree at Path is meant.
type Place struct {
	Spec string // connect string or cluster of the other ensemble
	File string
	Path string // empty: everything in the file
}

// fileMark is the prefix that marks a word as the name of a file.
const fileMark = "file:"

// ParsePlace parses the word. A file begins with ./, ../ or file:. Otherwise, a word that
// contains :/ and does not begin with / is in another ensemble.
func ParsePlace(word string) Place {
	name, named := strings.CutPrefix(word, fileMark)
	front, path := name, ""
	if at := strings.LastIndex(name, ":/"); at > 0 {
		front, path = name[:at], name[at+1:]
	}
	switch {
	case named || strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../"):
		return Place{File: front, Path: path}
	case strings.HasPrefix(word, "/") || path == "":
		return Place{Path: word}
	}
	at := strings.Index(word, ":/")
	return Place{Spec: word[:at], Path: word[at+1:]}
}

// Here reports whether the place is a path in the shell's own ensemble.
func (p Place) Here() bool { return p.Spec == "" && p.File == "" }
