package secure

import (
	"errors"
	"fmt"
	"strings"
)

// readJAAS reads the login module from a section of a JAAS file:
//
//	Client {
//	  org.apache.zookeeper.server.auth.DigestLoginModule required
//	  username="bob"
//	  password="secret";
//	};
//
// Errors never quote the file, except for names of sections and modules.
func readJAAS(text, section string) (*module, error) {
	tokens, err := jaasTokens(text)
	if err != nil {
		return nil, err
	}
	var names []string
	for len(tokens) > 0 {
		name := tokens[0]
		if len(tokens) < 2 || name.mark || !tokens[1].isMark("{") {
			return nil, fmt.Errorf("line %d: expected a section of the form "+
				"NAME { MODULE FLAG OPTION=VALUE …; };", name.line)
		}
		names = append(names, name.text)
		modules, rest, err := jaasSection(tokens[2:], name.line)
		if err != nil {
			return nil, err
		}
		if name.text == section {
			return firstModule(modules, section)
		}
		tokens = rest
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("there is no section %s, and no other section", section)
	}
	return nil, fmt.Errorf("there is no section %s, only %s; to use section %s, set zookeeper.sasl.clientconfig=%[3]s"+
		" in a client configuration; to connect without SASL, set zookeeper.sasl.client=false there",
		section, strings.Join(names, ", "), names[0])
}

// A module is one login module in a section of a JAAS file.
type module struct {
	class   string
	options map[string]string
}

// jaasSection reads the modules of the section that begins on the given line, and returns the
// tokens after it.
func jaasSection(tokens []token, line int) (modules []module, rest []token, err error) {
	bad := func(t token) error {
		return fmt.Errorf("line %d: the section that begins on line %d must have the form "+
			"NAME { MODULE FLAG OPTION=VALUE …; };", t.line, line)
	}
	for {
		switch {
		case len(tokens) == 0:
			return nil, nil, fmt.Errorf("the section that begins on line %d has no closing }", line)
		case tokens[0].isMark("}"):
			tokens = tokens[1:]
			if len(tokens) > 0 && tokens[0].isMark(";") {
				tokens = tokens[1:]
			}
			return modules, tokens, nil
		case len(tokens) < 3 || tokens[0].mark || tokens[1].mark: // a module starts with a class and a flag
			return nil, nil, bad(tokens[0])
		}
		m := module{class: tokens[0].text, options: map[string]string{}}
		tokens = tokens[2:]
		for len(tokens) > 0 && !tokens[0].isMark(";") {
			if len(tokens) < 4 || tokens[0].mark || !tokens[1].isMark("=") || tokens[2].mark {
				return nil, nil, bad(tokens[0])
			}
			m.options[tokens[0].text] = tokens[2].text
			tokens = tokens[3:]
		}
		if len(tokens) > 0 {
			tokens = tokens[1:]
		}
		modules = append(modules, m)
	}
}

// firstModule returns the first module of a section, if zksh supports it.
func firstModule(modules []module, section string) (*module, error) {
	if len(modules) == 0 {
		return nil, fmt.Errorf("section %s has no login module", section)
	}
	m := &modules[0]
	switch {
	case m.isKerberos() && !m.is("useKeyTab") && !m.is("useTicketCache"):
		return nil, fmt.Errorf("section %s sets neither useKeyTab=true nor useTicketCache=true, "+
			"so there is no way to get a Kerberos ticket", section)
	case m.isKerberos():
	case !strings.HasSuffix(m.class, "DigestLoginModule"):
		return nil, fmt.Errorf("section %s uses the login module %q, but zksh supports only ZooKeeper's "+
			"DigestLoginModule and Java's Krb5LoginModule", section, m.class)
	case m.options["username"] == "":
		return nil, fmt.Errorf("section %s has no username", section)
	}
	return m, nil
}

// hasPassword reports whether any section of a JAAS file contains a password: that of a client, or
// those of the users of a server.
func hasPassword(text string) bool {
	tokens, _ := jaasTokens(text) // readJAAS has reported the error
	for i := range len(tokens) - 2 {
		name, value := tokens[i], tokens[i+2]
		if tokens[i+1].isMark("=") && (name.text == "password" || strings.HasPrefix(name.text, "user_")) &&
			!value.mark && value.text != "" {
			return true
		}
	}
	return false
}

// A token is a word, or one of the punctuation marks { } ; =.
type token struct {
	text string
	line int
	mark bool
}

func (t token) isMark(mark string) bool { return t.mark && t.text == mark }

var errQuote = errors.New("a quotation mark is not closed")

const jaasMarks = "{};="

// jaasTokens splits a JAAS file into tokens, as Java does. It supports comments in the style of C,
// C++ and shells, and quoted words that contain escapes.
func jaasTokens(text string) (tokens []token, err error) {
	line := 1
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '\n':
			line++
			i++
		case c <= ' ':
			i++
		case c == '#', strings.HasPrefix(text[i:], "//"):
			if n := strings.IndexByte(text[i:], '\n'); n >= 0 {
				i += n
			} else {
				i = len(text)
			}
		case strings.HasPrefix(text[i:], "/*"):
			n := strings.Index(text[i+2:], "*/")
			if n < 0 {
				return nil, fmt.Errorf("line %d: the comment is not closed", line)
			}
			line += strings.Count(text[i:i+2+n], "\n")
			i += 2 + n + 2
		case strings.IndexByte(jaasMarks, c) >= 0:
			tokens = append(tokens, token{string(c), line, true})
			i++
		case c == '"' || c == '\'':
			word, n, ok := quotedWord(text[i:])
			if !ok {
				return nil, fmt.Errorf("line %d: %w", line, errQuote)
			}
			tokens = append(tokens, token{text: word, line: line})
			i += n
		default:
			n := strings.IndexAny(text[i:], jaasMarks+" \t\r\n\"'")
			if n < 0 {
				n = len(text) - i
			}
			tokens = append(tokens, token{text: text[i : i+n], line: line})
			i += n
		}
	}
	return tokens, nil
}

// jaasEscapes maps the letters that have a special meaning after a backslash in a quoted word.
var jaasEscapes = map[byte]rune{'t': '\t', 'n': '\n', 'r': '\r', 'f': '\f'}

// quotedWord reads a quoted word, which must end on the same line. size is the length of the word
// in bytes, including both quotation marks.
func quotedWord(s string) (word string, size int, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s) && s[i] != '\n'; i++ {
		switch {
		case s[i] == s[0]:
			return b.String(), i + 1, true
		case s[i] == '\\' && i+1 < len(s) && s[i+1] != '\n':
			i++
			if r, known := jaasEscapes[s[i]]; known {
				b.WriteRune(r)
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return "", 0, false
}
