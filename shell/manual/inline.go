package manual

import "strings"

// Markers placed around bold text during layout. Their width is 0, so they do not affect wrapping.
const (
	boldOn  = "\x0e"
	boldOff = "\x0f"
)

// inline converts the Markdown text of a block to plain text, with markers around bold text.
type inline struct {
	markBold  bool                      // whether to put markers around bold text and code
	codeQuote string                    // quote put around code if markBold is false
	refer     func(topic string) string // returns the help command for a topic; if nil, only the text of a link remains
}

// punctuation contains the characters that a backslash can escape.
const punctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

// convert converts Markdown source to plain text, and joins its lines into one.
func (in inline) convert(source string) string {
	var b strings.Builder
	for source != "" {
		n := in.convertElement(&b, source)
		source = source[n:]
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// convertElement converts the first element of source: a character, a code span, emphasis, or a
// link. It writes the result to b, and returns the length of the element in bytes.
func (in inline) convertElement(b *strings.Builder, source string) int {
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
			b.WriteString(in.convertLink(in.convert(text), destination, strings.HasSuffix(b.String(), "(")))
			return n
		}
	}
	b.WriteByte(source[0])
	return 1
}

// codeSpan returns the content of the code span at the beginning of source, and the length of the
// span in bytes, including its backquotes. n is 0 if there is no code span.
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

// emphasis converts the bold or italic text at the beginning of source, and writes the result to
// b. It returns the length of the text in bytes, including the asterisks, or 0 if there is none.
func (in inline) emphasis(b *strings.Builder, source string) int {
	mark := "*"
	if strings.HasPrefix(source, "**") {
		mark = "**"
	}
	end := len(mark)
	for end < len(source) && (end == len(mark) || !strings.HasPrefix(source[end:], mark)) {
		end += elementLength(source[end:])
	}
	inner := ""
	if end < len(source) {
		inner = source[len(mark):end]
	}
	if inner == "" || strings.TrimSpace(inner) != inner {
		return 0
	}
	text := in.convert(inner)
	if in.markBold && mark == "**" {
		// Remove the markers around code inside the text, because they would end the bold text.
		text = boldOn + strings.NewReplacer(boldOn, "", boldOff, "").Replace(text) + boldOff
	}
	b.WriteString(text)
	return end + len(mark)
}

// elementLength returns the length in bytes of the code span, escape or byte at the beginning of
// source.
func elementLength(source string) int {
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

// linkParts returns the text and the destination of the link at the beginning of source, and the
// length of the link in bytes. n is 0 if there is no link.
func linkParts(source string) (text, destination string, n int) {
	end := 1
	for end < len(source) && source[end] != ']' {
		end += elementLength(source[end:])
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
	if in.markBold {
		return boldOn + text + boldOff
	}
	return in.codeQuote + text + in.codeQuote
}

// convertLink converts a link to text. If the link leads to another page, the result includes the
// help command that prints the page. If the link is in parentheses and its text is only the name of
// the page, the result is the help command alone.
func (in inline) convertLink(text, destination string, inParentheses bool) string {
	file, _, _ := strings.Cut(destination, "#")
	topic, page := strings.CutSuffix(file, ".md")
	switch {
	case in.refer == nil || !page || strings.Contains(topic, "/"):
		return text
	case inParentheses && strings.EqualFold(text, topic):
		return in.asCode(in.refer(topic))
	}
	return text + " (" + in.asCode(in.refer(topic)) + ")"
}
