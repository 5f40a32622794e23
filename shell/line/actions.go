//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	prompt "github.com/c-bata/go-prompt"
)

// The keys of the menu, which go-prompt knows, too.
const (
	keyTab     = "\t"
	keyBackTab = "\x1b[Z"
)

// action is what a key does: an edit of the line, which go-prompt carries out when it
// is given the order, or what press does itself. Nil is text, or a key without a
// meaning.
type action struct {
	order string // no key has it
	edit  func(e *promptEditor, b *prompt.Buffer)
	cuts  bool
}

// actions are all of them. The edits run in Input, with mu held.
var actions []*action

func edits(edit func(e *promptEditor, b *prompt.Buffer)) *action {
	actions = append(actions, &action{order: string([]byte{0, byte(len(actions) + 1)}), edit: edit})
	return actions[len(actions)-1]
}

func cuts(edit func(e *promptEditor, b *prompt.Buffer)) *action {
	a := edits(edit)
	a.cuts = true
	return a
}

var (
	doHome      = edits(func(_ *promptEditor, b *prompt.Buffer) { b.CursorLeft(count(before(b))) })
	doEnd       = edits(func(_ *promptEditor, b *prompt.Buffer) { b.CursorRight(count(after(b))) })
	doLeft      = edits(func(_ *promptEditor, b *prompt.Buffer) { b.CursorLeft(1) })
	doRight     = edits(func(_ *promptEditor, b *prompt.Buffer) { b.CursorRight(1) })
	doWordLeft  = edits(func(_ *promptEditor, b *prompt.Buffer) { b.CursorLeft(lastWord(before(b), notInWord)) })
	doWordRight = edits(func(_ *promptEditor, b *prompt.Buffer) { b.CursorRight(firstWord(after(b))) })
	doErase     = edits(func(_ *promptEditor, b *prompt.Buffer) { b.DeleteBeforeCursor(1) })
	doDelete    = edits(func(_ *promptEditor, b *prompt.Buffer) { b.Delete(min(1, count(after(b)))) })
	doCutBlank  = cuts(func(e *promptEditor, b *prompt.Buffer) { e.cut.left(b, lastWord(before(b), unicode.IsSpace)) })
	doCutLeft   = cuts(func(e *promptEditor, b *prompt.Buffer) { e.cut.left(b, lastWord(before(b), notInWord)) })
	doCutRight  = cuts(func(e *promptEditor, b *prompt.Buffer) { e.cut.right(b, firstWord(after(b))) })
	doCutToHome = cuts(func(e *promptEditor, b *prompt.Buffer) { e.cut.left(b, count(before(b))) })
	doCutToEnd  = cuts(func(e *promptEditor, b *prompt.Buffer) { e.cut.right(b, count(after(b))) })
	doYank      = edits(func(e *promptEditor, b *prompt.Buffer) { b.InsertText(e.cut.text, false, true) })
	doInsertTab = edits(func(_ *promptEditor, b *prompt.Buffer) { b.InsertText("\t", false, true) })
	doClear     = edits(func(e *promptEditor, _ *prompt.Buffer) { e.out.clear() })
	doSuspend   = edits(func(e *promptEditor, _ *prompt.Buffer) {
		if err := e.suspend(); err != nil {
			e.exit = &exit{err: err}
		} else if e.exit == nil { // the window may have changed meanwhile
			e.exit = &exit{resize: true}
		}
	})
	doInterrupt = edits((*promptEditor).drop)
	doOlder     = edits((*promptEditor).older)
	doNewer     = edits((*promptEditor).newer)
	doSearch    = edits((*promptEditor).showFound)

	// These are bound to no key.
	doContinue = edits((*promptEditor).goOn)
	doComplete = edits((*promptEditor).complete)
	doAccept   = edits((*promptEditor).accept)
	doDismiss  = edits((*promptEditor).dismiss)

	// These press carries out; the last one refuses the line, which the terminal has cut.
	doEnter, doEndOfInput, doTab, doBackTab = &action{}, &action{}, &action{}, &action{}
	doEscape, doRefuse                      = &action{}, &action{}
)

// bound says what each key does.
var bound = map[string]*action{
	"\x01": doHome, "\x1b[H": doHome, "\x1bOH": doHome, "\x1b[1~": doHome, "\x1b[7~": doHome,
	"\x05": doEnd, "\x1b[F": doEnd, "\x1bOF": doEnd, "\x1b[4~": doEnd, "\x1b[8~": doEnd,
	"\x02": doLeft, "\x1b[D": doLeft, "\x1bOD": doLeft,
	"\x06": doRight, "\x1b[C": doRight, "\x1bOC": doRight,
	"\x1bb": doWordLeft, "\x1b[1;5D": doWordLeft, "\x1b[1;3D": doWordLeft, "\x1b[5D": doWordLeft, "\x1bOd": doWordLeft,
	"\x1bf": doWordRight, "\x1b[1;5C": doWordRight, "\x1b[1;3C": doWordRight, "\x1b[5C": doWordRight, "\x1bOc": doWordRight,
	"\x08": doErase, "\x7f": doErase,
	"\x1b[3~": doDelete,
	"\x17":    doCutBlank, "\x1b\x7f": doCutLeft, "\x1b\x08": doCutLeft, "\x1bd": doCutRight,
	"\x15": doCutToHome, "\x0b": doCutToEnd, "\x19": doYank, pastedTab: doInsertTab,
	"\x0c": doClear, "\x1a": doSuspend,
	"\x10": doOlder, "\x1b[A": doOlder, "\x1bOA": doOlder,
	"\x0e": doNewer, "\x1b[B": doNewer, "\x1bOB": doNewer,
	"\x12": doSearch,
	"\r":   doEnter, keyInterrupt: doInterrupt, "\x04": doEndOfInput,
	keyTab: doTab, keyBackTab: doBackTab,
	"\x1b": doEscape, "\x07": doEscape,
	cutMark: doRefuse,
}

// bindings have go-prompt carry out an edit for its order.
func (e *promptEditor) bindings() []prompt.ASCIICodeBind {
	var all []prompt.ASCIICodeBind
	for _, a := range actions {
		all = append(all, prompt.ASCIICodeBind{ASCIICode: []byte(a.order), Fn: func(b *prompt.Buffer) {
			e.mu.Lock()
			defer e.mu.Unlock()
			a.edit(e, b)
			e.cut.going = a.cuts
		}})
	}
	return all
}

// press gives a key its meaning: an order for go-prompt, or "" for nothing.
// go-prompt is idle meanwhile, so the state is that after the key before.
func (e *promptEditor) press(key string) (order string) {
	do := bound[key]
	e.tabbed = false
	switch {
	case e.search != nil:
		return e.pressInSearch(key, do)
	case e.offer.selected >= 0:
		return e.pressInMenu(key, do)
	case do == nil && isControl(key[0]):
		return ""
	case do != doOlder && do != doNewer:
		e.walk = walk{}
	}
	switch do {
	case nil: // text
		e.cut.going = false
		return key
	case doEscape, doBackTab:
		return ""
	case doTab:
		return e.tab()
	case doRefuse:
		e.tooLong = true
		return ""
	case doEnter:
		return e.enter()
	case doEndOfInput:
		switch {
		case e.view.text != "":
			return doDelete.order
		case e.reading.open != "":
			return doInterrupt.order
		}
		e.exit = &exit{err: io.EOF}
		return nothing
	case doInterrupt:
		e.tooLong = false
		if e.reading.asking {
			e.exit = &exit{err: ErrInterrupted}
			return nothing
		}
	case doSearch:
		if e.reading.bare() {
			return ""
		}
		e.search = &search{recall: e.help.Recall, line: e.view.text, cursor: e.view.cursor, saved: e.view}
	}
	return do.order
}

// enter ends the line, or goes on to the next one if this one leaves something open.
// A Ctrl-C behind it stops a paste, and this line with it.
func (e *promptEditor) enter() (order string) {
	e.take(e.tty.ready())
	switch {
	case e.keys.interrupted():
		e.exit = &exit{err: ErrInterrupted}
	case e.tooLong:
		e.exit = &exit{err: ErrTooLong}
	case !e.reading.asking && e.help.Open(e.reading.open, e.view.text) != "":
		return doContinue.order
	default:
		e.exit = &exit{key: true}
	}
	return nothing
}

// goOn leaves the line above the next one, which belongs to it. Of a paste it takes
// at once the lines that are there and go on, too: go-prompt takes some 20 ms for each.
func (e *promptEditor) goOn(b *prompt.Buffer) {
	r := e.reading
	line, ok := b.Text(), true
	setLine(b, "", 0)
	for rest := e.keys; ok; {
		e.keys = rest
		e.messages.WriteString(e.out.dressed(r.shownPrompt()) + visible(line) + "\n")
		r.above, r.open = append(r.above, line), e.help.Open(r.open, line)
		line, rest, ok = e.keys.pastedLine()
		ok = ok && e.help.Open(r.open, line) != ""
	}
}

// drop begins a new line below.
func (e *promptEditor) drop(b *prompt.Buffer) {
	e.out.endLine()
	setLine(b, "", 0)
	e.reading.above, e.reading.open = nil, ""
}

// tab completes what can be only one thing, or what all begin with, and else goes to
// the menu. Before there is an answer it is put off until then.
func (e *promptEditor) tab() (order string) {
	switch p := &e.offer.proposals; {
	case len(p.List) == 1 || p.Begin != "":
		return doComplete.order
	case len(p.List) == 0:
		e.tabbed = p.Pending
		return ""
	case len(e.offer.menu) == 0:
		return ""
	}
	return keyTab
}

// pressInMenu moves what is selected; any other key accepts it first.
func (e *promptEditor) pressInMenu(key string, do *action) (order string) {
	switch do {
	case doTab, doNewer:
		return keyTab
	case doBackTab, doOlder:
		return keyBackTab
	case doEscape:
		return doDismiss.order
	}
	e.held = key
	return doAccept.order
}

// cut is what was cut last.
type cut struct {
	text  string
	going bool // the last action cut something: the next cut adds to it
}

// left cuts the n characters before the cursor. What is cut one after the other is
// put back in one piece, in the order in which it stood.
func (c *cut) left(b *prompt.Buffer, n int) {
	text := b.DeleteBeforeCursor(n)
	if !c.going {
		c.text = ""
	}
	c.text = text + c.text
}

// right cuts the n characters behind the cursor.
func (c *cut) right(b *prompt.Buffer, n int) {
	text := string([]rune(after(b))[:n])
	b.Delete(n)
	if !c.going {
		c.text = ""
	}
	c.text += text
}

// What stands around the cursor of go-prompt's buffer, and a text's length in
// characters, in which go-prompt counts.
func before(b *prompt.Buffer) string { return b.Document().TextBeforeCursor() }
func after(b *prompt.Buffer) string  { return b.Document().TextAfterCursor() }
func count(s string) int             { return utf8.RuneCountInString(s) }

// notInWord tells what separates words for moving: so a path has several.
func notInWord(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// lastWord is the length of the last word of s and what follows it, in characters.
func lastWord(s string, separator func(rune) bool) int {
	head := strings.TrimRightFunc(s, separator)
	head = strings.TrimRightFunc(head, func(r rune) bool { return !separator(r) })
	return count(s) - count(head)
}

// firstWord is the length of the first word of s and what precedes it, in characters.
func firstWord(s string) int {
	rest := strings.TrimLeftFunc(s, notInWord)
	rest = strings.TrimLeftFunc(rest, func(r rune) bool { return !notInWord(r) })
	return count(s) - count(rest)
}
