//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"unicode/utf8"

	prompt "github.com/c-bata/go-prompt"

	"github.com/zksh/zksh/history"
)

// walk is a walk through earlier lines with the arrow keys.
type walk struct {
	begun  bool
	at     int    // the line that is shown; Recall's Len stands for the one being typed
	prefix string // what was typed, with which all the lines begin
}

// older goes to the earlier line before the one shown, and begins a walk if need be.
func (e *promptEditor) older(b *prompt.Buffer) {
	if e.reading.bare() {
		return
	}
	if !e.walk.begun {
		e.walk = walk{true, e.help.Recall.Len(), b.Text()}
	}
	if line, at, ok := e.help.Recall.Older(e.walk.at, e.walk.prefix); ok {
		e.walk.at = at
		setLine(b, line, utf8.RuneCountInString(line))
	}
}

// newer goes back, at last to what was typed.
func (e *promptEditor) newer(b *prompt.Buffer) {
	if !e.walk.begun {
		return
	}
	line, at, ok := e.help.Recall.Newer(e.walk.at, e.walk.prefix)
	if !ok {
		line, at = e.walk.prefix, e.help.Recall.Len()
	}
	e.walk.at = at
	setLine(b, line, utf8.RuneCountInString(line))
}

// search is a search through earlier lines, as it is typed.
type search struct {
	recall *history.Recall
	query  string
	at     int    // the number of the line found; the search goes on before it
	line   string // the line itself; what was typed while none is found
	cursor int
	failed bool

	saved view // what was there before
}

// prompt is shown in place of the prompt.
func (s *search) prompt() Prompt {
	text := "(search: " + s.query + ") "
	if s.failed {
		text = "(not found: " + s.query + ") "
	}
	return Prompt{Text: text, Alert: s.failed}
}

// look finds the nearest line before line i that has the query.
func (s *search) look(i int) {
	if s.query == "" {
		return
	}
	line, at, ok := s.recall.Search(i, s.query)
	s.failed = !ok
	if ok {
		s.line, s.at = line, at
		s.cursor = utf8.RuneCountInString(line)
	}
}

// pressInSearch changes the query. A key that means nothing to a search ends it
// and then does what it always does.
func (e *promptEditor) pressInSearch(key string, do action) (order string) {
	s := e.search
	switch do {
	case doSearch:
		s.look(s.at)
	case doErase:
		_, n := utf8.DecodeLastRuneInString(s.query)
		s.query, s.failed = s.query[:len(s.query)-n], false
		s.look(s.recall.Len())
	case doEscape, doInterrupt:
		s.line, s.cursor = s.saved.text, s.saved.cursor
		e.finishSearch()
	case noAction:
		if isControl(key[0]) {
			return ""
		}
		s.query += key
		s.look(s.recall.Len())
	default:
		e.held = key
		e.finishSearch()
	}
	return doSearch.order()
}

// finishSearch keeps the line; showFound has still to show it.
func (e *promptEditor) finishSearch() {
	e.found, e.search = e.search, nil
}

// showFound puts what was found into the line.
func (e *promptEditor) showFound(b *prompt.Buffer) {
	s := e.search
	if s == nil {
		s, e.found = e.found, nil
	}
	setLine(b, s.line, s.cursor)
}
