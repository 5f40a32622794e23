package commands

import (
	"strings"
)

// Place is a word of Kind Side, taken apart: a path in the shell's ensemble, a path in another
// one, or a file, whole or from a path on.
type Place struct {
	Spec string // a cluster or a connect string
	File string
	Path string // empty: all of the file
}

// fileMark begins a file's name that could be taken for something else.
const fileMark = "file:"

// ParsePlace reads the word. A file begins with ./ or ../, or with file: before its name;
// what has :/ in it and does not begin with a slash is of another ensemble.
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
