package app

import (
	"path"
	"strings"

	"github.com/zksh/zksh/commands"
)

// A typedLine is a line of another shell, up to the cursor.
type typedLine struct {
	words []commands.Word // complete words after zksh
	text  string          // word at the cursor, without quotes and escapes
	quote byte            // quotation mark that is open at the cursor; 0: none
	fixed int             // number of bytes of text before the part that the shell replaces
}

// readTyped splits a line as bash and zsh do, or as fish does. bash replaces only part of the word
// at the cursor: the part after the last of the breaks, or after the open quotation mark.
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
	for i, w := range t.words { // skip words before zksh, such as sudo
		if path.Base(w.Text) == "zksh" {
			t.words = t.words[i+1:]
			return t
		}
	}
	if len(t.words) > 0 { // the first word is an alias of zksh
		t.words = t.words[1:]
	}
	return t
}

// bashWord returns the spelling of a completion that replaces the end of the word at the cursor in
// bash. ok is false if the completion does not begin with the part of the word that stays.
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

// escapeWith inserts a backslash before each special character.
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
