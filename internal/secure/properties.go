package secure

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"unicode/utf16"
)

// property is one entry of a file of Java properties.
type property struct {
	line       int
	key, value string
}

// properties reads what java.util.Properties reads: keys and values apart by =, : or
// blanks, # and ! for comments, lines that go on behind a backslash, and escapes. The
// bytes are Latin-1, as they are to Java.
func properties(data []byte) iter.Seq2[property, error] {
	return func(yield func(property, error) bool) {
		for n, text := range logicalLines(data) {
			key, rest := cutKey(text)
			p := property{line: n}
			var err error
			if p.key, err = unescape(key); err == nil {
				p.value, err = unescape(rest)
			}
			if err != nil {
				err = fmt.Errorf("%d: %w", n, err)
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

const blanks = " \t\f"

// logicalLines are the lines that are no comments, joined, by the number of the first.
func logicalLines(data []byte) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data))
		var whole strings.Builder
		first, goesOn := 0, false
		n := 0
		for line := range strings.SplitSeq(text, "\n") {
			n++
			line = strings.TrimLeft(line, blanks)
			if !goesOn {
				if line == "" || line[0] == '#' || line[0] == '!' {
					continue
				}
				first = n
			}
			back := len(line) - len(strings.TrimRight(line, `\`))
			goesOn = back%2 == 1
			if goesOn {
				whole.WriteString(line[:len(line)-1])
				continue
			}
			whole.WriteString(line)
			if !yield(first, whole.String()) {
				return
			}
			whole.Reset()
		}
		if whole.Len() > 0 {
			yield(first, whole.String())
		}
	}
}

// cutKey ends the key at the first blank, = or : that is not escaped.
func cutKey(line string) (key, value string) {
	end := 0
	for end < len(line) && !strings.ContainsRune(blanks+"=:", rune(line[end])) {
		if line[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(line))
	rest := strings.TrimLeft(line[end:], blanks)
	if rest != "" && (rest[0] == '=' || rest[0] == ':') {
		rest = strings.TrimLeft(rest[1:], blanks)
	}
	return line[:end], rest
}

var escapes = map[byte]rune{'t': '\t', 'n': '\n', 'r': '\r', 'f': '\f'}

func unescape(s string) (string, error) {
	units := make([]uint16, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := rune(s[i])
		if c == '\\' && i+1 < len(s) {
			i++
			switch r, known := escapes[s[i]]; {
			case known:
				c = r
			case s[i] == 'u':
				if i+5 > len(s) {
					return "", fmt.Errorf(`\u must be followed by four hexadecimal digits`)
				}
				n, err := strconv.ParseUint(s[i+1:i+5], 16, 16)
				if err != nil {
					return "", fmt.Errorf(`\u must be followed by four hexadecimal digits`)
				}
				c = rune(n)
				i += 4
			default:
				c = rune(s[i])
			}
		}
		units = append(units, uint16(c))
	}
	return string(utf16.Decode(units)), nil
}
