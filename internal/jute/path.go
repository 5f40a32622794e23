package jute

import "strings"

// PathFault finds what is wrong with the names in a path, as clients and servers
// see it alike, in PathUtils' words; its position counts UTF-16 units from 0. What
// a path begins and ends with is the caller's to look at.
func PathFault(path string) (at int, why string) {
	at = 1 // the leading slash
	for name := range strings.SplitSeq(path[1:], "/") {
		switch name {
		case "":
			return at, "empty node name specified"
		case ".", "..":
			return at + len(name) - 1, "relative paths not allowed"
		}
		for _, r := range name {
			switch {
			case r == 0:
				return at, "null character not allowed"
			case invalidChar(r):
				return at, "invalid character"
			}
			at++
		}
		at++
	}
	return 0, ""
}

// invalidChar has the ranges of PathUtils. Characters beyond the basic plane are
// two surrogates to Java, hence invalid; invalid UTF-8 decodes to U+FFFD.
func invalidChar(r rune) bool {
	return r >= 0x01 && r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}
