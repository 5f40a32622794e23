// Package manual contains the manual of zksh: one Markdown page for each topic, embedded in the
// program.
//
// Pages returns all pages, Find returns the page on a topic, and About searches the pages for a
// word. Page.Text lays a page out as text for a terminal, and Page.Roff formats it as part of a
// man page. readBlocks parses the blocks of a page, and the type inline parses the text within a
// block.
//
// This package is part of the program zksh and may change at any time.
package manual

import (
	"embed"
	"fmt"
	"strings"
	"sync"
	"unicode"
)

//go:embed *.md
var files embed.FS

// A Page is a page of the manual.
type Page struct {
	Topic    string // name of the page, as an argument of the help command
	Title    string
	Summary  string // first sentence of the text, without the full stop
	headings []string
	blocks   []block
}

// Pages returns all pages, sorted by topic.
func Pages() []*Page { return pages() }

var pages = sync.OnceValue(func() (list []*Page) {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(fmt.Sprintf("the manual is not embedded: %v", err))
	}
	for _, e := range entries {
		source, err := files.ReadFile(e.Name())
		if err != nil {
			panic(fmt.Sprintf("the manual is not embedded: %v", err))
		}
		list = append(list, parse(strings.TrimSuffix(e.Name(), ".md"), source))
	}
	return list
})

// Find returns the page on a topic, or nil if there is none.
func Find(topic string) *Page {
	for _, p := range Pages() {
		if p.Topic == topic {
			return p
		}
	}
	return nil
}

// About searches the pages for a word, and also finds longer words that begin with it. found
// contains the pages with the word in their topic, title or headings. mentioned contains the other
// pages with the word in their text. About searches the text only for words of more than three
// bytes.
func About(word string) (found, mentioned []*Page) {
	for _, p := range Pages() {
		switch {
		case hasWord(word, p.Topic+" "+p.Title+" "+strings.Join(p.headings, " ")):
			found = append(found, p)
		case len(word) > 3 && hasWord(word, p.Text(Layout{})):
			mentioned = append(mentioned, p)
		}
	}
	return found, mentioned
}

// hasWord reports whether a text contains word, or a longer word that begins with it. It ignores
// case.
func hasWord(word, text string) bool {
	for w := range strings.FieldsFuncSeq(strings.ToLower(text),
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if strings.HasPrefix(w, strings.ToLower(word)) {
			return true
		}
	}
	return false
}

// parse parses the source of a page. Comments in the source mark generated parts, and are not
// shown.
func parse(topic string, source []byte) *Page {
	p := &Page{Topic: topic}
	plain := inline{}
	for _, b := range readBlocks(strings.Split(string(source), "\n")) {
		switch {
		case b.kind == heading && b.level == 1:
			p.Title = plain.convert(b.text)
			continue
		case b.kind == heading:
			p.headings = append(p.headings, plain.convert(b.text))
		case b.kind == paragraph && p.Summary == "":
			p.Summary, _, _ = strings.Cut(plain.convert(b.text)+" ", ". ")
			p.Summary = strings.TrimSpace(p.Summary)
		}
		p.blocks = append(p.blocks, b)
	}
	return p
}
