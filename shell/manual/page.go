// Package manual is zksh's manual: Markdown pages, one for each topic, which it lays out for
// a terminal or as roff.
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

// A Page is the manual's page on one topic.
type Page struct {
	Topic    string // the name that help knows the page by
	Title    string
	Summary  string // the first sentence, without its full stop
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

// Find returns the page on a topic, or nil.
func Find(topic string) *Page {
	for _, p := range Pages() {
		if p.Topic == topic {
			return p
		}
	}
	return nil
}

// About returns the pages that have a word beginning with this one in their topic, title or
// headings, and, apart from these, those that have one in their text.
func About(word string) (found, mentioned []*Page) {
	for _, p := range Pages() {
		switch {
		case has(word, p.Topic+" "+p.Title+" "+strings.Join(p.headings, " ")):
			found = append(found, p)
		case len(word) > 3 && has(word, p.Text(Layout{})):
			mentioned = append(mentioned, p)
		}
	}
	return found, mentioned
}

// has reports whether a text has a word that begins with this one, in any case.
func has(word, text string) bool {
	for w := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if strings.HasPrefix(w, strings.ToLower(word)) {
			return true
		}
	}
	return false
}

// parse reads a page. Its comments mark generated parts and are not shown.
func parse(topic string, source []byte) *Page {
	p := &Page{Topic: topic}
	plain := inline{}
	for _, b := range readBlocks(strings.Split(string(source), "\n")) {
		switch {
		case b.kind == heading && b.level == 1:
			p.Title = plain.text(b.text)
			continue
		case b.kind == heading:
			p.headings = append(p.headings, plain.text(b.text))
		case b.kind == paragraph && p.Summary == "":
			p.Summary, _, _ = strings.Cut(plain.text(b.text)+" ", ". ")
			p.Summary = strings.TrimSpace(p.Summary)
		}
		p.blocks = append(p.blocks, b)
	}
	return p
}
