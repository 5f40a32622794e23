package shell

import (
	"strings"

	"github.com/zksh/zksh/commands"
)

// partial is a line that is being typed, up to the cursor.
type partial struct {
	words []commands.Word // those that are finished
	from  int             // where the word under way begins, in bytes
	text  string          // what it says so far
	quote string          // how it is quoted: nothing, ", ' or $'
}

// partialLine takes the text before the cursor apart as split would, but for the
// word that is not finished. ok is false where nothing can be told, as after half
// an escape. A quoted word that is followed by more goes on: so a name can be
// added to a path that was completed in quotes.
func partialLine(line string) (p partial, ok bool) {
	for {
		rest := strings.TrimLeft(line[p.from:], blanks)
		p.from = len(line) - len(rest)
		word := firstRaw(rest)
		if len(word) == len(rest) {
			break
		}
		done, err := split(word)
		if err != nil {
			return p, false
		}
		p.words = append(p.words, done...)
		p.from += len(word)
	}
	return p, p.decode(line[p.from:])
}

// firstRaw is the first word of a line as it was typed, with all that adheres to
// its closing quote.
func firstRaw(line string) string {
	_, quoted := quotedLength(line)
	if n := strings.IndexAny(line[quoted:], blanks); n >= 0 {
		return line[:quoted+n]
	}
	return line
}

// quotedLength is the quote a line begins with, and the length up to its end.
func quotedLength(line string) (quote string, length int) {
	switch {
	case strings.HasPrefix(line, "$'"):
		for i := len("$'"); i < len(line); i++ {
			switch line[i] {
			case '\\':
				i++
			case '\'':
				return "$'", i + 1
			}
		}
		return "$'", len(line)
	case line != "" && (line[0] == '"' || line[0] == '\''):
		if n := strings.IndexByte(line[1:], line[0]); n >= 0 {
			return line[:1], n + 2
		}
		return line[:1], len(line)
	}
	return "", 0
}

// decode reads the word under way.
func (p *partial) decode(raw string) bool {
	quote, n := quotedLength(raw)
	p.quote = quote
	closed := n > len(quote) && raw[n-1] == closing(quote)
	switch {
	case quote == "":
		p.text = raw
	case closed && n == len(raw): // finished, and nothing adheres to it
		return false
	case closed:
		word, err := split(raw[:n])
		if err != nil {
			return false
		}
		p.text = word[0].Text + raw[n:]
	case quote == "$'":
		word, err := split(raw + "'")
		if err != nil || len(word) != 1 {
			return false
		}
		p.text = word[0].Text
	default:
		p.text = raw[1:]
	}
	return true
}

func closing(quote string) byte {
	if quote == "" {
		return 0
	}
	return quote[len(quote)-1]
}

// spell writes a word the way the one under way is quoted, if that is possible.
func (p *partial) spell(word string) string {
	switch {
	case p.quote == "":
		return quote(word)
	case p.quote != "$'" && printable(word) && !strings.Contains(word, p.quote):
		return p.quote + word + p.quote
	}
	return ansiQuote(word)
}
