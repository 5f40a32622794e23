package manual

import "strings"

// Marks around bold text while it is laid out. They take no column of a terminal.
const (
	boldOn  = "\x0e"
	boldOff = "\x0f"
)

// inline makes one line of the text of a block.
type inline struct {
	bold  bool                      // mark what is bold, and code, as bold
	code  string                    // stands around code that is not bold
	refer func(topic string) string // words that lead to the page of a topic; nil: links are their text alone
}

// punctuation is the set of characters that lose their meaning after a backslash.
const punctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

// text returns the text that a source stands for.
func (in inline) text(source string) string {
	var b strings.Builder
	for source != "" {
		n := in.part(&b, source)
		source = source[n:]
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// part writes what the first characters of a source stand for, and returns how many bytes
// these are.
func (in inline) part(b *strings.Builder, source string) int {
	switch source[0] {
	case '\\':
		if len(source) > 1 && strings.IndexByte(punctuation, source[1]) >= 0 {
			b.WriteByte(source[1])
			return 2
		}
	case '`':
		if text, n := codeSpan(source); n > 0 {
			b.WriteString(in.asCode(text))
			return n
		}
		n := len(source) - len(strings.TrimLeft(source, "`"))
		b.WriteString(source[:n])
		return n
	case '*':
		if n := in.emphasis(b, source); n > 0 {
			return n
		}
	case '[':
		if text, destination, n := linkParts(source); n > 0 {
			b.WriteString(in.link(in.text(text), destination, strings.HasSuffix(b.String(), "(")))
			return n
		}
	}
	b.WriteByte(source[0])
	return 1
}

// codeSpan returns the code that a source begins with, and the length of all of it; 0: there
// is none.
func codeSpan(source string) (text string, n int) {
	rest := strings.TrimLeft(source, "`")
	mark := source[:len(source)-len(rest)]
	for at := 0; ; {
		i := strings.Index(rest[at:], mark)
		if i < 0 {
			return "", 0
		}
		at += i
		end := at + len(rest[at:]) - len(strings.TrimLeft(rest[at:], "`"))
		if end-at == len(mark) {
			return rest[:at], len(mark) + end
		}
		at = end
	}
}

// emphasis writes bold or slanted text, and returns its length; 0: there is none.
func (in inline) emphasis(b *strings.Builder, source string) int {
	mark := "*"
	if strings.HasPrefix(source, "**") {
		mark = "**"
	}
	end := len(mark)
	for end < len(source) && (end == len(mark) || !strings.HasPrefix(source[end:], mark)) {
		end += skipped(source[end:])
	}
	inner := ""
	if end < len(source) {
		inner = source[len(mark):end]
	}
	if inner == "" || strings.TrimSpace(inner) != inner {
		return 0
	}
	text := in.text(inner)
	if in.bold && mark == "**" {
		// Code in bold text ends neither.
		text = boldOn + strings.NewReplacer(boldOn, "", boldOff, "").Replace(text) + boldOff
	}
	b.WriteString(text)
	return end + len(mark)
}

// skipped returns the length of the code, the escape or the character that a source begins with.
func skipped(source string) int {
	if source[0] == '`' {
		if _, n := codeSpan(source); n > 0 {
			return n
		}
	}
	if source[0] == '\\' && len(source) > 1 {
		return 2
	}
	return 1
}

// linkParts returns the text and the destination of the link that a source begins with, and
// the length of all of it; 0: there is none.
func linkParts(source string) (text, destination string, n int) {
	end := 1
	for end < len(source) && source[end] != ']' {
		end += skipped(source[end:])
	}
	if end >= len(source) || !strings.HasPrefix(source[end:], "](") {
		return "", "", 0
	}
	destination, _, found := strings.Cut(source[end+2:], ")")
	if !found || strings.ContainsAny(destination, " \n") {
		return "", "", 0
	}
	return source[1:end], destination, end + 2 + len(destination) + 1
}

func (in inline) asCode(text string) string {
	if in.bold {
		return boldOn + text + boldOff
	}
	return in.code + text + in.code
}

// link returns the text of a link. To that of another page it adds the line that prints the page.
// In brackets, which only have the name of the page, it returns that line alone.
func (in inline) link(text, destination string, bracket bool) string {
	file, _, _ := strings.Cut(destination, "#")
	topic, page := strings.CutSuffix(file, ".md")
	switch {
	case in.refer == nil || !page || strings.Contains(topic, "/"):
		return text
	case bracket && strings.EqualFold(text, topic):
		return in.asCode(in.refer(topic))
	}
	return text + " (" + in.asCode(in.refer(topic)) + ")"
}
