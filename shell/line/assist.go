//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	prompt "github.com/c-bata/go-prompt"
	"github.com/mattn/go-runewidth"

	"github.com/zksh/zksh/history"
	"github.com/zksh/zksh/internal/render"
)

// A completion holds the current proposals for the word before the cursor, and the state of the
// menu that shows them.
type completion struct {
	before, after string // text before and after the cursor when the proposals were computed
	proposals     Proposals
	menu          []prompt.Suggest // entries of the menu, or empty if the menu is not shown
	selected      int              // index of the selected entry, or -1 if none is selected
}

// replaceWord returns the line with word in place of the last word before the cursor, and the
// position of the cursor after word.
func (o *completion) replaceWord(word string) (text string, cursor int) {
	head := o.before[:o.proposals.From] + word
	return head + o.after, utf8.RuneCountInString(head)
}

// suggest returns the entries of the menu for the line in d. go-prompt calls it after it has
// handled a key and before it draws the line. go-prompt also calls it with an empty document to
// clear the menu. suggest ignores these calls.
func (e *promptEditor) suggest(d prompt.Document) []prompt.Suggest {
	// a call to clear the menu: Escape is never passed on as a key
	if d.Text == "" && d.LastKeyStroke() == prompt.Escape {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.busy = false
	if e.reading == nil { // the terminal has been restored
		return nil
	}
	e.before = d.TextBeforeCursor()
	switch d.LastKeyStroke() {
	case prompt.Tab:
		e.completion.step(1)
	case prompt.BackTab:
		e.completion.step(-1)
	default:
		e.updateProposals(d.TextAfterCursor())
	}
	e.view = e.currentView(d)
	return e.completion.menu
}

// selectedText returns the line with the selected proposal inserted, and the position of the
// cursor.
func (o *completion) selectedText() (text string, cursor int) {
	return o.replaceWord(o.proposals.List[o.selected].Text)
}

// updateProposals computes the proposals for the current line, and the entries of the menu. after
// is the text after the cursor.
func (e *promptEditor) updateProposals(after string) {
	e.completion = completion{before: e.before, after: after, selected: -1}
	if e.before == "" || e.reading.unassisted() || e.search != nil || e.assistant.Complete == nil {
		return
	}
	e.completion.proposals = e.assistant.Complete(e.before)
	if e.tabPending && !e.completion.proposals.Pending {
		e.tabPending, e.heldKey = false, keyTab
	}
	if !e.roomForMenu() || !slices.ContainsFunc(e.completion.proposals.List, Proposal.shows) {
		return
	}
	for _, p := range e.completion.proposals.List {
		e.completion.menu = append(e.completion.menu, prompt.Suggest{Text: p.Label, Description: p.About})
	}
}

// shows reports whether the label of a proposal occupies any columns. go-prompt panics on a menu
// without width, for example if all names consist only of combining characters.
func (p Proposal) shows() bool { return runewidth.StringWidth(p.Label) > 0 }

// step moves the selection by one entry, as go-prompt does for Tab and Shift-Tab. After the last
// entry, and before the first, no entry is selected. While an entry is selected, the menu must not
// change, because go-prompt panics if the menu shrinks.
func (o *completion) step(delta int) {
	places := len(o.menu) + 1
	o.selected = (o.selected+1+delta+places)%places - 1
}

// currentView returns a view of the line as it should be drawn.
func (e *promptEditor) currentView(d prompt.Document) view {
	v := e.reading.view(d.Text, utf8.RuneCountInString(e.before))
	switch {
	case e.completion.selected >= 0:
		v.text, v.cursor = e.completion.selectedText()
	case e.search != nil:
		v.prompt = e.search.prompt()
	default:
		v.suggestion = e.suggestion(d.Text)
	}
	if e.reading.secret {
		v.text, v.cursor = "", 0
	}
	e.paint(&v)
	if v.suggestion != "" && !e.out.fits(v) {
		v.suggestion = ""
	}
	e.view.prompt = v.prompt // menuColumn depends on the prompt
	v.menu = e.menuColumn()
	return v
}

// paint sets the styles of a view.
func (e *promptEditor) paint(v *view) {
	if v.command && e.out.color != nil && e.assistant.Paint != nil {
		v.styles = stylesOf(v.text, e.assistant.Paint(v.text))
	}
}

// suggestion returns the text to show behind the cursor: what Assistant.Suggest returns, or else the
// rest of the only proposal. It returns an empty string if the cursor is not at the end of the line.
// Without colors, a suggestion would look like typed text, so there is none.
func (e *promptEditor) suggestion(text string) string {
	if e.assistant.Suggest == nil || e.out.color == nil || e.reading.unassisted() || e.walk.active || text == "" ||
		e.before != text {
		return ""
	}
	if rest := e.assistant.Suggest(text); rest != "" {
		return rest
	}
	if p := &e.completion.proposals; len(p.List) == 1 {
		if rest, ok := strings.CutPrefix(p.List[0].Text, text[p.From:]); ok {
			return rest
		}
	}
	return ""
}

// acceptOr inserts the first characters of the suggestion. part returns their number. If there is no
// suggestion, it moves the cursor n characters to the right.
func (e *promptEditor) acceptOr(b *prompt.Buffer, part func(string) int, n int) {
	if rest := []rune(e.view.suggestion); len(rest) > 0 {
		b.InsertText(string(rest[:part(e.view.suggestion)]), false, true)
		return
	}
	b.CursorRight(n)
}

// accept replaces the line with the result of selectedText. It thereby corrects the text that
// go-prompt has inserted for the selected proposal.
func (e *promptEditor) accept(b *prompt.Buffer) {
	if e.completion.selected >= 0 {
		text, cursor := e.completion.selectedText()
		setLine(b, text, cursor)
	}
}

// dismiss restores the line as it was before go-prompt inserted the selected proposal.
func (e *promptEditor) dismiss(b *prompt.Buffer) {
	setLine(b, e.completion.before+e.completion.after, utf8.RuneCountInString(e.completion.before))
}

// complete inserts the only proposal, or the common prefix of all proposals.
func (e *promptEditor) complete(b *prompt.Buffer) {
	p := &e.completion.proposals
	word, last := p.CommonPrefix, false
	if len(p.List) == 1 {
		word, last = p.List[0].Text, p.List[0].Complete && e.completion.after == ""
	}
	if last {
		word += " "
	}
	text, cursor := e.completion.replaceWord(word)
	setLine(b, text, cursor)
}

// Space that the menu of completions needs, in columns and rows.
const (
	// minimum space to the right of the prompt; with less, the menu is placed as if there were no
	// prompt
	menuColumns    = 40
	minMenuColumns = 12 // minimum number of columns for the menu
	minRows        = 8  // minimum number of rows of the window for a menu
)

// menuPrefix returns the text that go-prompt should treat as the prompt when it computes the
// position of the menu.
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

// menuColumn returns the column in which go-prompt assumes the cursor to be. Like go-prompt, it
// counts a tab as no column. With any other column, the menu could be too wide for its row.
func (e *promptEditor) menuColumn() int {
	width := max(e.out.width, minColumns)
	return (runewidth.StringWidth(e.layoutPrefix()) + runewidth.StringWidth(e.before)) % width
}

// roomForMenu reports whether the window is large enough for a menu.
func (e *promptEditor) roomForMenu() bool {
	columns, rows := e.tty.size()
	return rows >= minRows && columns-runewidth.StringWidth(e.layoutPrefix()) > minMenuColumns && columns >= minColumns
}

// A walk is a series of steps through earlier lines with the arrow keys.
type walk struct {
	active bool
	index  int    // number of the line shown; equal to Recall.Len() for the line being typed
	prefix string // text that was typed before the walk; all lines in the walk begin with it
}

// older replaces the line with the nearest earlier line that begins with the same prefix. It begins
// a walk if none is active. The Up key calls it.
func (e *promptEditor) older(b *prompt.Buffer) {
	if e.reading.unassisted() {
		return
	}
	if !e.walk.active {
		e.walk = walk{true, e.assistant.Recall.Len(), b.Text()}
	}
	if line, at, ok := e.assistant.Recall.Older(e.walk.index, e.walk.prefix, e.recallable); ok {
		e.walk.index = at
		setLine(b, line, utf8.RuneCountInString(line))
	}
}

func (e *promptEditor) recallable(entry history.Entry) bool {
	return e.assistant.Recallable == nil || e.assistant.Recallable(entry)
}

// newer replaces the line with the nearest later line of the walk. After the last one, it shows the
// text that the user had typed before the walk. The Down key calls it.
func (e *promptEditor) newer(b *prompt.Buffer) {
	if !e.walk.active {
		return
	}
	line, at, ok := e.assistant.Recall.Newer(e.walk.index, e.walk.prefix, e.recallable)
	if !ok {
		line, at = e.walk.prefix, e.assistant.Recall.Len()
	}
	e.walk.index = at
	setLine(b, line, utf8.RuneCountInString(line))
}

// A search is an incremental search through earlier lines.
type search struct {
	recall *history.Recall
	query  string
	index  int    // number of the line found; the next search begins before it
	line   string // line that was found, or the text that was typed if none has been found
	cursor int
	failed bool // whether no line contains the query

	saved view // line as it was before the search
}

// maxPlace is the maximum width of a place in the prompt of a search, in terminal columns.
const maxPlace = 24

// prompt returns the prompt to show during the search. It contains where and when the line was
// typed that was found.
func (s *search) prompt() Prompt {
	if s.failed {
		return Prompt{Text: "(not found: " + s.query + ") ", Alert: true}
	}
	text := "(search: " + s.query
	if s.query != "" && s.index < s.recall.Len() {
		e := s.recall.At(s.index)
		if e.Place != "" {
			text += "; " + render.CutMiddle(render.Safe(e.Place), maxPlace, maxPlace/2)
		}
		if e.Time != 0 {
			text += "; " + time.Unix(e.Time, 0).Format("2006-01-02 15:04")
		}
	}
	return Prompt{Text: text + ") "}
}

// find searches for the nearest line before number i that contains the query.
func (s *search) find(i int) {
	if s.query == "" {
		return
	}
	line, at, ok := s.recall.Search(i, s.query)
	s.failed = !ok
	if ok {
		s.line, s.index = line, at
		s.cursor = utf8.RuneCountInString(line)
	}
}

// pressInSearch handles a key during a search. Text changes the query. A key without a meaning in a
// search ends the search, and then has its usual effect. pressInSearch returns an order that makes
// go-prompt call showFound.
func (e *promptEditor) pressInSearch(key string, do *action) (order string) {
	s := e.search
	switch do {
	case doSearch:
		s.find(s.index)
	case doErase:
		_, n := utf8.DecodeLastRuneInString(s.query)
		s.query, s.failed = s.query[:len(s.query)-n], false
		s.find(s.recall.Len())
	case doEscape, doInterrupt:
		s.line, s.cursor = s.saved.text, s.saved.cursor
		e.found, e.search = s, nil
	case nil:
		if isControl(key[0]) {
			return ""
		}
		s.query += key
		s.find(s.recall.Len())
	default:
		e.heldKey = key
		e.found, e.search = s, nil
	}
	return doSearch.order
}

// showFound puts the result of the search into go-prompt's buffer, in place of the current text.
func (e *promptEditor) showFound(b *prompt.Buffer) {
	s := e.search
	if s == nil {
		s, e.found = e.found, nil
	}
	setLine(b, s.line, s.cursor)
}
