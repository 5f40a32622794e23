//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"slices"
	"unicode/utf8"

	prompt "github.com/c-bata/go-prompt"
	"github.com/mattn/go-runewidth"

	"github.com/zksh/zksh/history"
)

// offer is what can be completed, and which of it the menu has selected.
type offer struct {
	before, after string // the text around the cursor that it is for
	proposals     Proposals
	menu          []prompt.Suggest
	selected      int // -1: none
}

// with is the text with another word in place of the last one, and the cursor behind
// it.
func (o *offer) with(word string) (text string, cursor int) {
	head := o.before[:o.proposals.From] + word
	return head + o.after, utf8.RuneCountInString(head)
}

// suggest is go-prompt's completer. go-prompt calls it with an empty document to
// clear its menu, which tells nothing, and with the line after each key, before it
// draws: then the key has been worked off.
func (e *promptEditor) suggest(d prompt.Document) []prompt.Suggest {
	if d.Text == "" && d.LastKeyStroke() == prompt.Escape { // which is never passed on
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.busy = false
	if e.reading == nil { // the terminal was given back
		return nil
	}
	e.before = d.TextBeforeCursor()
	switch d.LastKeyStroke() {
	case prompt.Tab:
		e.offer.step(1)
	case prompt.BackTab:
		e.offer.step(-1)
	default:
		e.renew(d.TextAfterCursor())
	}
	e.view = e.present(d)
	return e.offer.menu
}

// chosen is the text with what the menu has selected.
func (o *offer) chosen() (text string, cursor int) { return o.with(o.proposals.List[o.selected].Text) }

// renew asks what can be completed now.
func (e *promptEditor) renew(after string) {
	e.offer = offer{before: e.before, after: after, selected: -1}
	if e.before == "" || e.reading.bare() || e.search != nil || e.help.Complete == nil {
		return
	}
	e.offer.proposals = e.help.Complete(e.before)
	if e.tabbed && !e.offer.proposals.Pending {
		e.tabbed, e.held = false, keyTab
	}
	if !e.roomForMenu() || !slices.ContainsFunc(e.offer.proposals.List, Proposal.shows) {
		return
	}
	for _, p := range e.offer.proposals.List {
		e.offer.menu = append(e.offer.menu, prompt.Suggest{Text: p.Label, Description: p.About})
	}
}

// shows reports whether a proposal is anything to see. go-prompt panics over a menu
// without width, as of names that are combining characters only.
func (p Proposal) shows() bool { return runewidth.StringWidth(p.Label) > 0 }

// step does what go-prompt's menu does at Tab and Shift-Tab: behind the last one, and
// before the first, none is selected. While something is selected the menu must stay
// as it is: go-prompt panics over one that shrinks.
func (o *offer) step(by int) {
	places := len(o.menu) + 1
	o.selected = (o.selected+1+by+places)%places - 1
}

// present is what is to be drawn.
func (e *promptEditor) present(d prompt.Document) view {
	v := view{prompt: e.reading.shownPrompt(), text: d.Text, cursor: utf8.RuneCountInString(e.before)}
	switch {
	case e.offer.selected >= 0:
		v.text, v.cursor = e.offer.chosen()
	case e.search != nil:
		v.prompt = e.search.prompt()
	}
	if e.reading.unseen {
		v.text, v.cursor = "", 0
	}
	e.view.prompt = v.prompt // the menu's place depends on it
	v.menu = e.menuColumn()
	return v
}

// accept takes over what the menu has selected. go-prompt has just done so too, in
// its own way.
func (e *promptEditor) accept(b *prompt.Buffer) {
	if e.offer.selected >= 0 {
		text, cursor := e.offer.chosen()
		setLine(b, text, cursor)
	}
}

// dismiss takes back what go-prompt has accepted.
func (e *promptEditor) dismiss(b *prompt.Buffer) {
	setLine(b, e.offer.before+e.offer.after, utf8.RuneCountInString(e.offer.before))
}

// complete takes over the only proposal there is, or what all of them begin with.
func (e *promptEditor) complete(b *prompt.Buffer) {
	p := &e.offer.proposals
	word, last := p.Begin, false
	if len(p.List) == 1 {
		word, last = p.List[0].Text, p.List[0].Last && e.offer.after == ""
	}
	if last {
		word += " "
	}
	text, cursor := e.offer.with(word)
	setLine(b, text, cursor)
}

// The room a menu needs.
const (
	menuColumns = 40 // beside the prompt; below it if there is less
	leastMenu   = 12
	leastRows   = 8
)

// menuPrefix is what go-prompt takes for the prompt when it places the menu.
func (e *promptEditor) menuPrefix() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.layoutPrefix()
}

func (e *promptEditor) layoutPrefix() string {
	text := visible(e.view.prompt.Text)
	if e.out.width-runewidth.StringWidth(text) < menuColumns {
		return ""
	}
	return text
}

// menuColumn is the column go-prompt takes the cursor to be in.
func (e *promptEditor) menuColumn() int {
	width := max(e.out.width, leastColumns)
	return (runewidth.StringWidth(e.layoutPrefix()) + runewidth.StringWidth(visible(e.before))) % width
}

// roomForMenu is false in a window too small for it.
func (e *promptEditor) roomForMenu() bool {
	columns, rows := e.tty.size()
	return rows >= leastRows && columns-runewidth.StringWidth(e.layoutPrefix()) > leastMenu && columns >= leastColumns
}

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
// and then does what it always does; showFound has still to show the line.
func (e *promptEditor) pressInSearch(key string, do *action) (order string) {
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
		e.found, e.search = s, nil
	case nil:
		if isControl(key[0]) {
			return ""
		}
		s.query += key
		s.look(s.recall.Len())
	default:
		e.held = key
		e.found, e.search = s, nil
	}
	return doSearch.order
}

// showFound puts what was found into the line.
func (e *promptEditor) showFound(b *prompt.Buffer) {
	s := e.search
	if s == nil {
		s, e.found = e.found, nil
	}
	setLine(b, s.line, s.cursor)
}
