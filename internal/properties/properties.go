// Package properties parses Java's properties files, in which zkCli keeps the configuration of TLS
// and the members of an ensemble.
//
// This package is part of the program zksh and may change at any time.
package properties

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"unicode/utf16"
)

// A Property is one entry of a properties file.
type Property struct {
	Line       int // number of its first line
	Key, Value string
}

// Parse parses the format of java.util.Properties: keys and values separated by =, : or
// spaces; comments that begin with # or !; lines continued after a backslash; and escapes. The
// encoding is Latin-1, as in Java. The error of an invalid entry begins with the number of its line.
// No entry follows it.
func Parse(data []byte) iter.Seq2[Property, error] {
	return func(yield func(Property, error) bool) {
		for n, text := range logicalLines(data) {
			key, rest := cutKey(text)
			p := Property{Line: n}
			var err error
			if p.Key, err = unescape(key); err == nil {
				p.Value, err = unescape(rest)
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

const whitespace = " \t\f"

// logicalLines yields the lines of a file that are not comments, each with its line number.
// Continuation lines are joined into one line, which has the number of its first part.
func logicalLines(data []byte) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data))
		var whole strings.Builder
		first, continued := 0, false
		n := 0
		for line := range strings.SplitSeq(text, "\n") {
			n++
			line = strings.TrimLeft(line, whitespace)
			if !continued {
				if line == "" || line[0] == '#' || line[0] == '!' {
					continue
				}
				first = n
			}
			back := len(line) - len(strings.TrimRight(line, `\`))
			continued = back%2 == 1
			if continued {
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

// cutKey splits a line at the first space, = or : that is not escaped.
func cutKey(line string) (key, value string) {
	end := 0
	for end < len(line) && !strings.ContainsRune(whitespace+"=:", rune(line[end])) {
		if line[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(line))
	rest := strings.TrimLeft(line[end:], whitespace)
	if rest != "" && (rest[0] == '=' || rest[0] == ':') {
		rest = strings.TrimLeft(rest[1:], whitespace)
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
