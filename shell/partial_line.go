package shell

import (
	"strings"
	"unicode/utf8"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/shell/syntax"
)

// commonPrefix returns the longest common prefix of all choices.
func (c choices) commonPrefix() string {
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

// commonPrefix returns the longest common prefix of two words. It does not split a character.
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

// A partial is the part of a command line before the cursor. Its last word is still being typed.
type partial struct {
	words  []commands.Word // words before the last word
	from   int             // byte offset of the last word
	text   string          // last word, without its quotes
	quote  string          // opening quote of the last word (", ' or $'), or empty if it is unquoted
	isFlag bool            // whether the last word is a flag, which must not be quoted

	closed bool // whether the last word ends with its closing quote
}

// parsePartial splits the text before the cursor into words. ok is false if the last word cannot
// be decoded, for example because it ends inside an escape. Unlike syntax.Split, parsePartial
// accepts text directly after a closing quote as part of the word, so that the user can extend a
// path that was completed in quotes.
func parsePartial(line string) (p partial, ok bool) {
	for {
		rest := strings.TrimLeft(line[p.from:], commands.Blanks)
		p.from = len(line) - len(rest)
		word := firstRawWord(rest)
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

// firstRawWord returns the first word of a line as it was typed, including its quotes and any text
// directly after the closing quote.
func firstRawWord(line string) string {
	_, quoted, _ := syntax.Token(line)
	if n := strings.IndexAny(line[quoted:], commands.Blanks); n >= 0 {
		return line[:quoted+n]
	}
	return line
}

// decode sets the fields that describe the last word, and reports whether it could decode the word.
// raw is the word as it was typed.
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

// spell returns word, quoted if necessary. If possible, it uses the kind of quote that the user has
// typed.
func (p *partial) spell(word string) string {
	switch {
	case p.isFlag:
		return word
	case p.quote == "":
		return commands.Quote(word)
	case p.quote != "$'" && commands.Printable(word) && !strings.Contains(word, p.quote):
		return p.quote + word + p.quote
	}
	return commands.Escape(word)
}

// spellOpen returns the beginning of a word, with an opening quote if the word needs one. It omits
// the closing quote, so that the user can continue to type.
func (p *partial) spellOpen(begin string) string {
	word := p.spell(begin)
	if quote, n, _ := syntax.Token(word); quote != "" {
		return word[:n-1]
	}
	return word
}
