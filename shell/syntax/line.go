package syntax

import (
	"strings"

	"github.com/zksh/zksh/commands"
)

// BlankOrComment reports whether a line is blank or a comment, and therefore contains no command.
func BlankOrComment(line string) bool {
	line = strings.TrimLeft(line, " \t\n\v\f\r")
	return line == "" || line[0] == '#'
}

// OpenQuote returns the quote that is open at the end of a line: ", ' or $', or an empty string if
// no quote is open. before is the quote that is open at the beginning of the line, or an empty
// string.
func OpenQuote(before, line string) string {
	if before == "" && (!strings.ContainsAny(line, `"'`) || BlankOrComment(line)) {
		return ""
	}
	command, _, _ := CutRedirection(before + line)
	for rest := command; rest != ""; rest = strings.TrimLeft(rest, commands.Blanks) {
		quote, n, closed := Token(rest)
		if !closed {
			return quote
		}
		rest = rest[n:]
	}
	return ""
}

// OnOneLine escapes line breaks, which a line contains only inside quotes. The result has the same
// words, but no line breaks.
func OnOneLine(line string) string {
	if !strings.Contains(line, "\n") {
		return line
	}
	var b strings.Builder
	for line != "" {
		quote, n, _ := Token(line)
		switch word := line[:n]; {
		case n == 0: // a space
			n = 1
			b.WriteByte(line[0])
		case quote == "$'":
			b.WriteString(breakEscaper.Replace(word))
		case strings.Contains(word, "\n"):
			b.WriteString(commands.Escape(word[1 : n-1]))
		default:
			b.WriteString(word)
		}
		line = line[n:]
	}
	return b.String()
}

// breakEscaper escapes the line breaks in a $'…' word. A backslash before a line break is an
// unknown escape and must remain one, so that the line is still rejected. Therefore breakEscaper
// replaces that line break with a space.
var breakEscaper = strings.NewReplacer(`\\`, `\\`, "\\\n", `\ `, "\n", `\n`)

// CutRedirection cuts a line at the first unquoted |, > or >> that is a separate word. It returns
// the command before that word, the word itself as mark, and the rest of the line. It does not
// split the text after a | into words, because that text is a command line for sh. If there is no
// such word, command is the entire line and mark is empty.
func CutRedirection(line string) (command, mark, rest string) {
	for i := 0; ; {
		at := len(line) - len(strings.TrimLeft(line[i:], commands.Blanks))
		apart := at > i || at == 0
		if at == len(line) {
			return line, "", ""
		}
		_, n, closed := Token(line[at:])
		word := line[at : at+n]
		switch {
		case !closed:
			return line, "", ""
		case apart && IsRedirection(commands.Word{Text: word}):
			return line[:at], word, line[at+n:]
		}
		i = at + n
	}
}

// IsRedirection reports whether a word is one of the operators |, > and >>, and is unquoted.
func IsRedirection(w commands.Word) bool {
	return !w.Quoted && (w.Text == "|" || w.Text == ">" || w.Text == ">>")
}
