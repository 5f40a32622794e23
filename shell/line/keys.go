//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"strings"
	"unicode/utf8"
)

// keyBuffer cuts what a terminal sends into keys. A read may hold half a key as
// well as many.
type keyBuffer struct {
	bytes   string
	pasting bool // between the marks of bracketed paste
}

// The marks around what is pasted, and two of our own: a tab that is text, and the
// terminal has cut the line this stands in.
const (
	pasteBegins = "\x1b[200~"
	pasteEnds   = "\x1b[201~"
	pastedTab   = "\x1b[9998~"
	cutMark     = "\x1b[9999~"
)

const keyInterrupt = "\x03"

// next takes the first key: a run of printable text, one control character, or
// one escape sequence. It is empty when there is none, or only the beginning of
// one, unless flush says that nothing more will come of it.
func (k *keyBuffer) next(flush bool) string {
	for k.bytes != "" {
		n := keyLength(k.bytes)
		if n == 0 && !flush {
			return ""
		}
		if n == 0 {
			n = len(k.bytes)
		}
		key := k.bytes[:n]
		k.bytes = k.bytes[n:]
		switch {
		case key == pasteBegins || key == pasteEnds:
			k.pasting = key == pasteBegins
		case k.pasting && key == keyInterrupt: // the end mark may be lost
			k.pasting = false
			return key
		case k.pasting && isControl(key[0]) && key != cutMark:
			switch key { // line ends and tabs are text, all else is dropped
			case "\r", "\n":
				return k.joined(key)
			case "\t":
				return pastedTab
			}
		default:
			return k.joined(key)
		}
	}
	return ""
}

// pastedLine is the next line of a paste, if all of it has come, and what is behind
// it. k itself stays as it is.
func (k keyBuffer) pastedLine() (line string, rest keyBuffer, ok bool) {
	if !k.pasting {
		return "", k, false
	}
	return k.line()
}

// line is the text up to the next Enter, if all of it has come and no key in it edits, and
// what is behind it. k itself stays as it is.
func (k keyBuffer) line() (line string, rest keyBuffer, ok bool) {
	for {
		switch key := k.next(false); {
		case key == "\r":
			return line, k, true
		case key == pastedTab:
			line += "\t"
		case key == "" || isControl(key[0]):
			return "", k, false
		default:
			line += key
		}
	}
}

// interrupted takes all keys up to a Ctrl-C, if there is one.
func (k *keyBuffer) interrupted() bool {
	if !strings.Contains(k.bytes, keyInterrupt) {
		return false
	}
	ahead := *k // looked at only, until it is found
	for key := ahead.next(false); key != ""; key = ahead.next(false) {
		if key == keyInterrupt {
			*k = ahead
			return true
		}
	}
	return false
}

// open reports whether the last key is in a paste that goes on.
func (k *keyBuffer) open() bool {
	begins, ends := strings.LastIndex(k.bytes, pasteBegins), strings.LastIndex(k.bytes, pasteEnds)
	if begins == ends { // there is none
		return k.pasting
	}
	return begins > ends
}

// then is one buffer behind the other.
func (k keyBuffer) then(next keyBuffer) keyBuffer {
	if next.pasting {
		next.bytes = pasteBegins + next.bytes
	}
	return keyBuffer{bytes: k.bytes + next.bytes, pasting: k.pasting}
}

// joined makes one key of each way to end a line, and valid text of text.
func (k *keyBuffer) joined(key string) string {
	switch {
	case key == "\r":
		k.bytes = strings.TrimPrefix(k.bytes, "\n")
	case key == "\n":
		return "\r"
	case !isControl(key[0]):
		return string([]rune(key)) // a replacement character for each byte that is none
	}
	return key
}

func isControl(b byte) bool { return b < ' ' || b == 0x7f }

// keyLength is the length of the first key, or 0 if it is not all there yet.
func keyLength(s string) int {
	switch {
	case s[0] == 0x1b:
		return sequenceLength(s)
	case isControl(s[0]):
		return 1
	}
	n := 0 // of printable text, without a character that is cut at its end
	for n < len(s) && !isControl(s[n]) && utf8.FullRuneInString(s[n:]) {
		_, size := utf8.DecodeRuneInString(s[n:])
		n += size
	}
	return n
}

// sequenceLength is the length of an escape sequence: ESC [ … letter, ESC O
// letter, or ESC and any key (Alt).
func sequenceLength(s string) int {
	if len(s) == 1 {
		return 0
	}
	switch s[1] {
	case 'O':
		if len(s) < 3 {
			return 0
		}
		return 3
	case '[':
		i := 2
		if len(s) > i && s[i] == '[' { // function keys of the Linux console
			i++
		}
		for ; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
			if isControl(s[i]) { // broken off
				return i
			}
		}
		return 0
	}
	if isControl(s[1]) && s[1] != 0x7f && s[1] != '\b' { // Escape, and a key
		return 1
	}
	if !utf8.FullRuneInString(s[1:]) {
		return 0
	}
	_, size := utf8.DecodeRuneInString(s[1:])
	return 1 + size
}
