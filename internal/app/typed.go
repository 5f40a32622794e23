package app

import (
	"path"
	"strings"

	"github.com/zksh/zksh/commands"
)

// typed is a line of another shell, up to the cursor.
type typed struct {
	words []commands.Word // the finished ones behind zksh
	text  string          // the word under way
	quote byte            // that is open in it; 0: none
	fixed int             // what of the text stands before the part that the shell replaces
}

// readTyped takes a line apart as bash and zsh do, or fish. The part of a word that bash
// replaces begins behind the last of the breaks, or the quote that is open.
func readTyped(line, breaks string, fish bool) typed {
	var t typed
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
	for i, w := range t.words { // what stands before it, as sudo, is not ours
		if path.Base(w.Text) == "zksh" {
			t.words = t.words[i+1:]
			return t
		}
	}
	if len(t.words) > 0 { // an alias
		t.words = t.words[1:]
	}
	return t
}

// bashWord is what bash is to put in the place of the part that it replaces. ok is false
// where the word does not begin with what stays.
func (t *typed) bashWord(word string) (spelled string, ok bool) {
	rest, ok := strings.CutPrefix(word, t.text[:t.fixed])
	switch t.quote {
	case '\'':
		return strings.ReplaceAll(rest, "'", `'\''`), ok
	case '"':
		return escaped(rest, "\\\"$`"), ok
	}
	return escaped(rest, " \\\"'$`&|;()<>*?[]{}#~!"), ok
}

// escaped has a backslash before these characters.
func escaped(text, special string) string {
	var b strings.Builder
	for i := range len(text) {
		if strings.IndexByte(special, text[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
