package app

import (
	"path"
	"strings"

	"github.com/zksh/zksh/commands"
)

// A typedLine is a command line typed in a shell such as bash, from its beginning to the cursor.
type typedLine struct {
	words []commands.Word // complete words after the word zksh
	text  string          // word at the cursor, without quotes and escapes
	quote byte            // quotation mark that is open at the cursor, or 0 if there is none
	fixed int             // number of bytes at the beginning of text that bash keeps when it inserts a completion
}

// readTyped splits a command line into words by the rules of fish or, if fish is false, of bash and
// zsh. breaks contains the characters at which bash divides a word. bash replaces only the part of
// the word at the cursor after the last such character, or after the opening quotation mark.
func readTyped(line, breaks string, fish bool) typedLine {
	var t typedLine
	var word []byte
	begun := false
	for i := 0; i < len(line); i++ {
		c := line[i]
		escapes := c == '\\' && i+1 < len(line)
		switch {
		case t.quote == 0 && strings.IndexByte(" \t\n", c) >= 0:
			if begun {
				t.words = append(t.words, commands.Word{Text: string(word)})
			}
			word, begun, t.fixed = nil, false, 0
			continue
		case t.quote == 0 && escapes,
			t.quote == '"' && escapes && strings.IndexByte("\\\"$`", line[i+1]) >= 0,
			t.quote == '\'' && escapes && fish && strings.IndexByte(`\'`, line[i+1]) >= 0:
			i++
			word = append(word, line[i])
		case t.quote == 0 && (c == '\'' || c == '"'):
			t.quote, t.fixed = c, len(word)
		case t.quote != 0 && c == t.quote:
			t.quote, t.fixed = 0, len(word)
		default:
			word = append(word, c)
			if t.quote == 0 && strings.IndexByte(breaks, c) >= 0 {
				t.fixed = len(word)
			}
		}
		begun = true
	}
	t.text = string(word)
	for i, w := range t.words { // skip the words before zksh, such as sudo
		if path.Base(w.Text) == "zksh" {
			t.words = t.words[i+1:]
			return t
		}
	}
	if len(t.words) > 0 { // without the word zksh, the first word is an alias of zksh
		t.words = t.words[1:]
	}
	return t
}

// bashWord returns the text that bash must insert to complete the word at the cursor to word. The
// text is escaped for bash, and omits the part of the typed word that bash keeps. ok is false if
// word does not begin with that part.
func (t *typedLine) bashWord(word string) (spelled string, ok bool) {
	rest, ok := strings.CutPrefix(word, t.text[:t.fixed])
	switch t.quote {
	case '\'':
		return strings.ReplaceAll(rest, "'", `'\''`), ok
	case '"':
		return escapeWith(rest, "\\\"$`"), ok
	}
	return escapeWith(rest, " \\\"'$`&|;()<>*?[]{}#~!"), ok
}

// escapeWith inserts a backslash before each character of text that special contains.
func escapeWith(text, special string) string {
	var b strings.Builder
	for i := range len(text) {
		if strings.IndexByte(special, text[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
