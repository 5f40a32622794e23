package syntax

import (
	"strings"

	"github.com/zksh/zksh/commands"
)

// BlankOrComment reports whether a line has no command.
func BlankOrComment(line string) bool {
	line = strings.TrimLeft(line, " \t\n\v\f\r")
	return line == "" || line[0] == '#'
}

// OpenQuote returns the quote that is open at the end of a line: ", ' or $', or "". The line
// begins inside of the quote that was open before it.
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

// OnOneLine writes a line whose quotes hold line breaks as one without any that has
// the same words.
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
			b.WriteString(ansiBreaks.Replace(word))
		case strings.Contains(word, "\n"):
			b.WriteString(commands.Escape(word[1 : n-1]))
		default:
			b.WriteString(word)
		}
		line = line[n:]
	}
	return b.String()
}

// ansiBreaks escapes the line breaks of a $'…' word. A backslash before one means
// nothing, and still does before a space.
var ansiBreaks = strings.NewReplacer(`\\`, `\\`, "\\\n", `\ `, "\n", `\n`)

// CutRedirection cuts a line before the first |, > or >> that is a word of its own and not
// quoted. The rest after a | is for sh to split.
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

// IsRedirection reports whether a word is an unquoted |, > or >>.
func IsRedirection(w commands.Word) bool {
	return !w.Quoted && (w.Text == "|" || w.Text == ">" || w.Text == ">>")
}
