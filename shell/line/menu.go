//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"slices"
	"unicode/utf8"

	prompt "github.com/c-bata/go-prompt"
	"github.com/mattn/go-runewidth"
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
		e.offer.next()
	case prompt.BackTab:
		e.offer.previous()
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

// shows tells whether a proposal is anything to see. go-prompt panics over a menu
// without width, as of names that are combining characters only.
func (p Proposal) shows() bool { return runewidth.StringWidth(p.Label) > 0 }

// next does what go-prompt's menu does at Tab. While something is selected the
// menu must stay as it is: go-prompt panics over one that shrinks.
func (o *offer) next() {
	if o.selected++; o.selected >= len(o.menu) {
		o.selected = -1
	}
}

// previous does what go-prompt's menu does at Shift-Tab.
func (o *offer) previous() {
	if o.selected--; o.selected < -1 {
		o.selected = len(o.menu) - 1
	}
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
