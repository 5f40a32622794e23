package commands

import (
	"strings"

	"github.com/zksh/zksh/internal/userfile"
)

// Place is a parsed argument of the kind PlaceWord. It names a path in the shell's ensemble (only
// Path is set), a path in another ensemble (Spec and Path), or the subtree at Path in a file (File
// and Path).
type Place struct {
	Spec string // connect string or cluster name of another ensemble; otherwise empty
	File string
	Path string // empty for the whole file
}

// fileMark is the prefix of an argument that names a file.
const fileMark = "file:"

// ParsePlace parses an argument that names a place. An argument that begins with ./, ../, ~/ or file:
// names a file. Otherwise, one that contains :/ and does not begin with / names a path in another
// ensemble.
func ParsePlace(word string) Place {
	name, named := strings.CutPrefix(word, fileMark)
	front, path := name, ""
	if at := strings.LastIndex(name, ":/"); at > 0 {
		front, path = name[:at], name[at+1:]
	}
	switch {
	case named || strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../") || strings.HasPrefix(word, "~/"):
		return Place{File: userfile.Home(front), Path: path}
	case strings.HasPrefix(word, "/"):
		return Place{Path: word}
	}
	at := strings.Index(word, ":/")
	if at <= 0 {
		return Place{Path: word}
	}
	return Place{Spec: word[:at], Path: withoutSlash(word[at+1:])}
}

// Here reports whether the place is a path in the shell's own ensemble.
func (p Place) Here() bool { return p.Spec == "" && p.File == "" }
