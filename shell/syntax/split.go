// Package syntax implements the syntax of zksh's command lines.
//
// Split splits a line into words. OpenQuote determines whether a line continues on the next one,
// and OnOneLine makes a single line of such lines. CutRedirection separates the command from a
// pipe or redirection. The syntax is the same as in zkCli, with three additions: $'…' words,
// quotes over several lines, and redirections. The reverse of Split is Quote in package commands.
//
// This package is part of the program zksh and may change at any time.
package syntax

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/zksh/zksh/commands"
)

// Split splits a line into words like zkCli. Spaces separate words. "…" and '…' may contain any
// character except their own quote. A closing quote ends the word. A quote inside an unquoted word
// is an ordinary character, and so is a backslash.
//
// Split differs from zkCli in two ways. An unclosed quote is an error, whereas zkCli drops the
// quote or runs the previous command again. A $'…' word may contain the escapes of bash, so that
// every byte string can be written.
func Split(line string) ([]commands.Word, error) {
	var words []commands.Word
	for i := 0; ; {
		i = len(line) - len(strings.TrimLeft(line[i:], commands.Blanks))
		if i == len(line) {
			return words, nil
		}
		quote, n, closed := Token(line[i:])
		word := commands.Word{Text: line[i+len(quote) : i+n], Quoted: quote != ""}
		switch {
		case !closed && quote == "$'":
			return nil, fmt.Errorf("unclosed $' at column %d; close it with '", column(line, i))
		case !closed:
			return nil, fmt.Errorf("unclosed %s at column %d; close it, or write the word as $'…'", quote,
				column(line, i))
		case quote != "":
			word.Text = word.Text[:len(word.Text)-1]
		}
		if quote == "$'" {
			var err error
			if word.Text, err = ansiWord(line, i+len(quote), i+n-1); err != nil {
				return nil, err
			}
		}
		words = append(words, word)
		i += n
	}
}

// Token finds the first word of a line, without decoding it. It returns the opening quote of the
// word, or an empty string if the word is unquoted, the length of the word in bytes including
// quotes, and whether the word is complete. A closing quote ends the word, even if no space
// follows.
func Token(line string) (quote string, length int, closed bool) {
	switch {
	case strings.HasPrefix(line, "$'"):
		for i := len("$'"); i < len(line); i++ {
			switch line[i] {
			case '\\':
				i++
			case '\'':
				return "$'", i + 1, true
			}
		}
		return "$'", len(line), false
	case line != "" && (line[0] == '"' || line[0] == '\''):
		if n := strings.IndexByte(line[1:], line[0]); n >= 0 {
			return line[:1], n + 2, true
		}
		return line[:1], len(line), false
	}
	if n := strings.IndexAny(line, commands.Blanks); n >= 0 {
		return "", n, true
	}
	return "", len(line), true
}

// column returns the column at a byte offset, counted in characters from 1.
func column(line string, offset int) int {
	return utf8.RuneCountInString(line[:offset]) + 1
}

// ansiWord decodes line[from:to], the text between the quotes of a $'…' word.
func ansiWord(line string, from, to int) (string, error) {
	var out []byte
	for i := from; i < to; {
		if line[i] != '\\' {
			out = append(out, line[i])
			i++
			continue
		}
		var n int
		var err error
		if out, n, err = ansiEscape(out, line[i:]); err != nil {
			return "", fmt.Errorf("%w at column %d", err, column(line, i))
		}
		i += n
	}
	return string(out), nil
}

// ansiEscape decodes the escape at the beginning of s, which has at least two bytes. It appends the
// decoded bytes to out and returns the result, together with the length of the escape in bytes.
func ansiEscape(out []byte, s string) ([]byte, int, error) {
	if i := strings.IndexByte(`abefnrtv\'"?`, s[1]); i >= 0 {
		return append(out, "\a\b\x1b\f\n\r\t\v\\'\"?"[i]), 2, nil
	}
	switch c := s[1]; c {
	case '0', '1', '2', '3', '4', '5', '6', '7':
		n := digitsEnd(s, 1, 3, 8)
		b, err := strconv.ParseUint(s[1:n], 8, 8)
		if err != nil {
			return nil, 0, fmt.Errorf(`escape %s is above \377`, s[:n])
		}
		return append(out, byte(b)), n, nil
	case 'x', 'u', 'U':
		n := digitsEnd(s, 2, map[byte]int{'x': 2, 'u': 4, 'U': 8}[c], 16)
		v, err := strconv.ParseUint(s[2:n], 16, 32)
		switch {
		case err != nil:
			return nil, 0, fmt.Errorf(`escape \%c without hex digits`, c)
		case c == 'x':
			return append(out, byte(v)), n, nil
		case !utf8.ValidRune(rune(v)):
			return nil, 0, fmt.Errorf("escape %s is not a character", s[:n])
		}
		return utf8.AppendRune(out, rune(v)), n, nil
	}
	r, _ := utf8.DecodeRuneInString(s[1:])
	// Quote the character in the message, because it may be a control character.
	return nil, 0, fmt.Errorf(`unknown escape \%s`, strings.Trim(strconv.QuoteRune(r), "'"))
}

// digitsEnd returns the index in s after the digits that begin at index from. It counts at most
// limit digits.
func digitsEnd(s string, from, limit, base int) int {
	all := "01234567"
	if base == 16 {
		all = "0123456789abcdefABCDEF"
	}
	end := from
	for end < len(s) && end < from+limit && strings.IndexByte(all, s[end]) >= 0 {
		end++
	}
	return end
}
