package shell

import (
	"strings"
	"unicode/utf8"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/shell/syntax"
)

// begin is what all of them begin with.
func (c choices) begin() string {
	if len(c.list) == 0 {
		return ""
	}
	begin := c.list[0].word
	for _, x := range c.list[1:] {
		begin = commonPrefix(begin, x.word)
	}
	if c.last != "" {
		begin = commonPrefix(begin, c.last)
	}
	return begin
}

// commonPrefix is what two words begin with, in whole characters.
func commonPrefix(a, b string) string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	for n > 0 && n < len(a) && !utf8.RuneStart(a[n]) {
		n--
	}
	return a[:n]
}

// partial is a line that is being typed, up to the cursor.
type partial struct {
	words []commands.Word // those that are finished
	from  int             // where the word under way begins, in bytes
	text  string          // what it says so far
	quote string          // how it is quoted: nothing, ", ' or $'
	flag  bool            // it is a flag, and spelled as it is

	closed bool // its closing quote is there, and nothing behind that
}

// partialLine takes the text before the cursor apart as split would, but for the
// word that is not finished. ok is false where nothing can be told, as after half
// an escape. A quoted word that is followed by more goes on: so a name can be
// added to a path that was completed in quotes.
func partialLine(line string) (p partial, ok bool) {
	for {
		rest := strings.TrimLeft(line[p.from:], commands.Blanks)
		p.from = len(line) - len(rest)
		word := firstRaw(rest)
		if len(word) == len(rest) {
			break
		}
		done, err := syntax.Split(word)
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
	_, quoted, _ := syntax.Token(line)
	if n := strings.IndexAny(line[quoted:], commands.Blanks); n >= 0 {
		return line[:quoted+n]
	}
	return line
}

// decode reads the word under way.
func (p *partial) decode(raw string) bool {
	quote, n, closed := syntax.Token(raw)
	p.quote = quote
	switch {
	case quote == "":
		p.text = raw
	case closed:
		p.closed = n == len(raw)
		word, err := syntax.Split(raw[:n])
		if err != nil {
			return false
		}
		p.text = word[0].Text + raw[n:]
	case quote == "$'":
		word, err := syntax.Split(raw + "'")
		if err != nil {
			return false
		}
		p.text = word[0].Text
	default:
		p.text = raw[1:]
	}
	return true
}

// spell writes a word the way the one under way is quoted, if that is possible.
func (p *partial) spell(word string) string {
	switch {
	case p.flag:
		return word
	case p.quote == "":
		return commands.Quote(word)
	case p.quote != "$'" && commands.Printable(word) && !strings.Contains(word, p.quote):
		return p.quote + word + p.quote
	}
	return commands.Escape(word)
}

// spellOpen writes what a word begins with, so that it can go on.
func (p *partial) spellOpen(begin string) string {
	word := p.spell(begin)
	if quote, n, _ := syntax.Token(word); quote != "" {
		return word[:n-1]
	}
	return word
}
