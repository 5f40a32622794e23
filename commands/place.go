package commands

import (
	"strings"
)

// Place is a parsed argument of the kind PlaceWord. It refers to a path in the shell's ensemble
// (Path), a path in another ensemble (Spec and Path), or the subtree at Path in a file (File).
type Place struct {
	Spec string // connect string or cluster name of another ensemble; empty for the shell's ensemble or a file
	File string
	Path string // empty if everything in the file is meant
}

// fileMark is the prefix that marks an argument as the name of a file.
const fileMark = "file:"

// ParsePlace parses an argument. If it begins with ./, ../ or file:, it names a file. Otherwise,
// if it contains :/ and does not begin with /, it names a path in another ensemble.
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
