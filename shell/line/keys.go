//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"strings"
	"unicode/utf8"
)

// A keyBuffer splits the bytes that a terminal sends into keys. A single read may return part of a
// key, or many keys.
type keyBuffer struct {
	bytes   string
	pasting bool // whether the next byte is inside a bracketed paste
}

// Sequences in the input that do not come from a key of the keyboard.
const (
	pasteBegins   = "\x1b[200~"  // sent by the terminal before pasted text
	pasteEnds     = "\x1b[201~"  // sent by the terminal after pasted text
	pastedTab     = "\x1b[9998~" // inserted by keyBuffer for a pasted tab, which is text
	truncatedMark = "\x1b[9999~" // inserted by readTypedAhead where the terminal has truncated the line
)

const keyInterrupt = "\x03" // Ctrl-C

// next removes the first key from the buffer and returns it: a run of printable text, one control
// character, or one escape sequence. It returns an empty string if there is no complete key. If
// flush is true, it returns an incomplete key too.
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
		case k.pasting && key == keyInterrupt: // ends a paste whose end mark was lost
			k.pasting = false
			return key
		case k.pasting && isControl(key[0]) && key != truncatedMark:
			switch key { // in a paste, line ends and tabs are text, and other control characters are dropped
			case "\r", "\n":
				return k.normalize(key)
			case "\t":
				return pastedTab
			}
		default:
			return k.normalize(key)
		}
	}
	return ""
}

// pastedLine returns the next line of a paste and the keys after it. ok is false if the line is
// not complete. pastedLine does not change k.
func (k keyBuffer) pastedLine() (line string, rest keyBuffer, ok bool) {
	if !k.pasting {
		return "", k, false
	}
	return k.line()
}

// line returns the text before the next Enter, and the keys after it. ok is false if there is no
// Enter yet, or if a key before Enter edits the line. line does not change k.
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

// cutAtInterrupt reports whether the buffer contains a Ctrl-C. If so, it removes the first Ctrl-C
// and all keys before it.
func (k *keyBuffer) cutAtInterrupt() bool {
	if !strings.Contains(k.bytes, keyInterrupt) {
		return false
	}
	ahead := *k // k changes only if Ctrl-C is found
	for key := ahead.next(false); key != ""; key = ahead.next(false) {
		if key == keyInterrupt {
			*k = ahead
			return true
		}
	}
	return false
}

// inPaste reports whether the end of the buffer is inside a paste.
func (k *keyBuffer) inPaste() bool {
	begins, ends := strings.LastIndex(k.bytes, pasteBegins), strings.LastIndex(k.bytes, pasteEnds)
	if begins == ends { // both are -1, because there is no mark
		return k.pasting
	}
	return begins > ends
}

// append returns a buffer with the keys of k, followed by those of later.
func (k keyBuffer) append(later keyBuffer) keyBuffer {
	if later.pasting {
		later.bytes = pasteBegins + later.bytes
	}
	return keyBuffer{bytes: k.bytes + later.bytes, pasting: k.pasting}
}

// normalize returns a key in its normal form: a line end becomes \r, and invalid UTF-8 in text is
// replaced by U+FFFD.
func (k *keyBuffer) normalize(key string) string {
	switch {
	case key == "\r":
		k.bytes = strings.TrimPrefix(k.bytes, "\n")
	case key == "\n":
		return "\r"
	case !isControl(key[0]):
		return string([]rune(key)) // replaces each invalid byte by U+FFFD
	}
	return key
}

func isControl(b byte) bool { return b < ' ' || b == 0x7f }

// keyLength returns the length in bytes of the first key in s, or 0 if that key is incomplete.
func keyLength(s string) int {
	switch {
	case s[0] == 0x1b:
		return sequenceLength(s)
	case isControl(s[0]):
		return 1
	}
	n := 0 // length of the printable text, without an incomplete character at its end
	for n < len(s) && !isControl(s[n]) && utf8.FullRuneInString(s[n:]) {
		_, size := utf8.DecodeRuneInString(s[n:])
		n += size
	}
	return n
}

// sequenceLength returns the length in bytes of the escape sequence at the beginning of s, or 0 if
// the sequence is incomplete. The forms are ESC [ … letter, ESC O letter, and ESC with any key
// (Alt).
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
		if len(s) > i && s[i] == '[' { // ESC [ [ letter is a function key of the Linux console
			i++
		}
		for ; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
			if isControl(s[i]) { // a control character aborts the sequence
				return i
			}
		}
		return 0
	}
	if isControl(s[1]) && s[1] != 0x7f && s[1] != '\b' { // Escape, followed by another key
		return 1
	}
	if !utf8.FullRuneInString(s[1:]) {
		return 0
	}
	_, size := utf8.DecodeRuneInString(s[1:])
	return 1 + size
}
