//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	prompt "github.com/c-bata/go-prompt"
)

// Keys that move the selection in the menu of completions. go-prompt handles them itself.
const (
	keyTab     = "\t"
	keyBackTab = "\x1b[Z"
)

// An action is the effect of a key. There are two kinds of actions:
//
//   - An edit changes the line. Each edit has an order, which is a byte sequence. When go-prompt
//     reads the order, it runs the edit.
//   - All other actions are performed by promptEditor.press.
//
// A key without an action is text, or has no effect.
type action struct {
	order string // byte sequence that makes go-prompt run edit; no key of a terminal sends it
	edit  func(e *promptEditor, b *prompt.Buffer)
	cuts  bool // whether the edit cuts text, which Ctrl-Y can insert again
}

// actions lists all actions that are edits. The edits run during go-prompt's Input, with the mutex
// of the promptEditor held.
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
	doHome         = edits(func(_ *promptEditor, b *prompt.Buffer) { b.CursorLeft(count(before(b))) })
	doEnd          = edits(func(e *promptEditor, b *prompt.Buffer) { e.acceptOr(b, count, count(after(b))) })
	doLeft         = edits(func(_ *promptEditor, b *prompt.Buffer) { b.CursorLeft(1) })
	doRight        = edits(func(e *promptEditor, b *prompt.Buffer) { e.acceptOr(b, count, 1) })
	doWordLeft     = edits(func(_ *promptEditor, b *prompt.Buffer) { b.CursorLeft(lastWord(before(b), notInWord)) })
	doWordRight    = edits(func(e *promptEditor, b *prompt.Buffer) { e.acceptOr(b, firstWord, firstWord(after(b))) })
	doErase        = edits(func(_ *promptEditor, b *prompt.Buffer) { b.DeleteBeforeCursor(1) })
	doDelete       = edits(func(_ *promptEditor, b *prompt.Buffer) { b.Delete(min(1, count(after(b)))) })
	doCutToSpace   = cuts(func(e *promptEditor, b *prompt.Buffer) { e.cut.left(b, lastWord(before(b), unicode.IsSpace)) })
	doCutWordLeft  = cuts(func(e *promptEditor, b *prompt.Buffer) { e.cut.left(b, lastWord(before(b), notInWord)) })
	doCutWordRight = cuts(func(e *promptEditor, b *prompt.Buffer) { e.cut.right(b, firstWord(after(b))) })
	doCutToHome    = cuts(func(e *promptEditor, b *prompt.Buffer) { e.cut.left(b, count(before(b))) })
	doCutToEnd     = cuts(func(e *promptEditor, b *prompt.Buffer) { e.cut.right(b, count(after(b))) })
	doYank         = edits(func(e *promptEditor, b *prompt.Buffer) { b.InsertText(e.cut.text, false, true) })
	doInsertTab    = edits(func(_ *promptEditor, b *prompt.Buffer) { b.InsertText("\t", false, true) })
	doClear        = edits(func(e *promptEditor, _ *prompt.Buffer) { e.out.clear() })
	doSuspend      = edits(func(e *promptEditor, _ *prompt.Buffer) {
		if err := e.suspend(); err != nil {
			e.exit = &exit{err: err}
		} else if e.exit == nil { // the size of the window may have changed while zksh was stopped
			e.exit = &exit{resize: true}
		}
	})
	doInterrupt = edits((*promptEditor).dropLine)
	doOlder     = edits((*promptEditor).older)
	doNewer     = edits((*promptEditor).newer)
	doSearch    = edits((*promptEditor).showFound)

	// The promptEditor itself requests these actions; no key triggers them.
	doContinue = edits((*promptEditor).continueLine)
	doComplete = edits((*promptEditor).complete)
	doAccept   = edits((*promptEditor).accept)
	doDismiss  = edits((*promptEditor).dismiss)

	// The actions in this list are not edits, so promptEditor.press performs them. doReject rejects
	// a line that the terminal has truncated.
	doEnter, doEndOfInput, doTab, doBackTab = &action{}, &action{}, &action{}, &action{}
	doEscape, doReject                      = &action{}, &action{}
)

// keyActions maps each key to its action.
var keyActions = map[string]*action{
	"\x01": doHome, "\x1b[H": doHome, "\x1bOH": doHome, "\x1b[1~": doHome, "\x1b[7~": doHome,
	"\x05": doEnd, "\x1b[F": doEnd, "\x1bOF": doEnd, "\x1b[4~": doEnd, "\x1b[8~": doEnd,
	"\x02": doLeft, "\x1b[D": doLeft, "\x1bOD": doLeft,
	"\x06": doRight, "\x1b[C": doRight, "\x1bOC": doRight,
	"\x1bb": doWordLeft, "\x1b[1;5D": doWordLeft, "\x1b[1;3D": doWordLeft, "\x1b[5D": doWordLeft, "\x1bOd": doWordLeft,
	"\x1bf": doWordRight, "\x1b[1;5C": doWordRight, "\x1b[1;3C": doWordRight, "\x1b[5C": doWordRight, "\x1bOc": doWordRight,
	"\x08": doErase, "\x7f": doErase,
	"\x1b[3~": doDelete,
	"\x17":    doCutToSpace, "\x1b\x7f": doCutWordLeft, "\x1b\x08": doCutWordLeft, "\x1bd": doCutWordRight,
	"\x15": doCutToHome, "\x0b": doCutToEnd, "\x19": doYank, pastedTab: doInsertTab,
	"\x0c": doClear, "\x1a": doSuspend,
	"\x10": doOlder, "\x1b[A": doOlder, "\x1bOA": doOlder,
	"\x0e": doNewer, "\x1b[B": doNewer, "\x1bOB": doNewer,
	"\x12": doSearch,
	"\r":   doEnter, keyInterrupt: doInterrupt, "\x04": doEndOfInput,
	keyTab: doTab, keyBackTab: doBackTab,
	"\x1b": doEscape, "\x07": doEscape,
	truncatedMark: doReject,
}

// bindings returns the key bindings for go-prompt. Each binding maps the order of an action to the
// edit that the action performs.
func (e *promptEditor) bindings() []prompt.ASCIICodeBind {
	var all []prompt.ASCIICodeBind
	for _, a := range actions {
		all = append(all, prompt.ASCIICodeBind{ASCIICode: []byte(a.order), Fn: func(b *prompt.Buffer) {
			e.mu.Lock()
			defer e.mu.Unlock()
			a.edit(e, b)
			e.cut.appending = a.cuts
		}})
	}
	return all
}

// press handles a key. It returns an order for go-prompt, which is a byte sequence, or an empty
// string if go-prompt has nothing to do. go-prompt is idle during the call, so its state includes
// the effect of the previous key.
func (e *promptEditor) press(key string) (order string) {
	do := keyActions[key]
	e.tabPending = false
	switch {
	case e.search != nil:
		return e.pressInSearch(key, do)
	case e.completion.selected >= 0:
		return e.pressInMenu(key, do)
	case do == nil && isControl(key[0]):
		return ""
	case do != doOlder && do != doNewer:
		e.walk = walk{}
	}
	switch do {
	case nil: // a key without an action is text
		e.cut.appending = false
		return key
	case doEscape, doBackTab:
		return ""
	case doTab:
		return e.tab()
	case doReject:
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
		return keyRedraw
	case doInterrupt:
		e.tooLong = false
		if e.reading.asking {
			e.exit = &exit{err: ErrInterrupted}
			return keyRedraw
		}
	case doSearch:
		if e.reading.unassisted() {
			return ""
		}
		e.search = &search{recall: e.assistant.Recall, line: e.view.text, cursor: e.view.cursor, saved: e.view}
	}
	return do.order
}

// enter ends the line, or continues it on the next one if a quote is open. If Ctrl-C was typed
// after Enter, for example to stop a paste, it also interrupts this line.
func (e *promptEditor) enter() (order string) {
	e.addTyped(e.tty.readTyped())
	switch {
	case e.keys.cutAtInterrupt():
		e.exit = &exit{err: ErrInterrupted}
	case e.tooLong:
		e.exit = &exit{err: ErrTooLong}
	case !e.reading.asking && e.assistant.Open(e.reading.open, e.view.text) != "":
		return doContinue.order
	default:
		e.exit = &exit{key: true}
	}
	return keyRedraw
}

// continueLine shows the line as finished and begins the next one, which continues it. If further
// lines of a paste have arrived and also leave a quote open, continueLine handles them itself,
// because go-prompt would take about 20 ms for each of them.
func (e *promptEditor) continueLine(b *prompt.Buffer) {
	r := e.reading
	line, ok := b.Text(), true
	setLine(b, "", 0)
	for rest := e.keys; ok; {
		e.keys = rest
		e.messages.WriteString(e.out.colored(r.shownPrompt()) + visible(line) + "\n")
		r.above, r.open = append(r.above, line), e.assistant.Open(r.open, line)
		line, rest, ok = e.keys.pastedLine()
		ok = ok && e.assistant.Open(r.open, line) != ""
	}
}

// dropLine discards the line that is being typed, and begins a new one below it.
func (e *promptEditor) dropLine(b *prompt.Buffer) {
	e.out.endLine()
	setLine(b, "", 0)
	e.reading.above, e.reading.open = nil, ""
}

// tab inserts the only proposal or the common prefix of all proposals. If there is neither, it
// selects the next entry of the menu. If the proposals are still pending, the Tab takes effect
// when they arrive.
func (e *promptEditor) tab() (order string) {
	switch p := &e.completion.proposals; {
	case len(p.List) == 1 || p.CommonPrefix != "":
		return doComplete.order
	case len(p.List) == 0:
		e.tabPending = p.Pending
		return ""
	case len(e.completion.menu) == 0:
		return ""
	}
	return keyTab
}

// pressInMenu handles a key while a menu entry is selected. The arrow and Tab keys move the
// selection, and Escape cancels the selection. Any other key first accepts the entry, and then has
// its usual effect.
func (e *promptEditor) pressInMenu(key string, do *action) (order string) {
	switch do {
	case doTab, doNewer:
		return keyTab
	case doBackTab, doOlder:
		return keyBackTab
	case doEscape:
		return doDismiss.order
	}
	e.heldKey = key
	return doAccept.order
}

// cut holds the text that was cut last, so that Ctrl-Y can insert it again.
type cut struct {
	text      string
	appending bool // whether the last action was a cut, so that the next cut adds to text instead of replacing it
}

// left cuts the n characters before the cursor. The texts of consecutive cuts are joined in the
// order in which they were on the line.
func (c *cut) left(b *prompt.Buffer, n int) {
	text := b.DeleteBeforeCursor(n)
	if !c.appending {
		c.text = ""
	}
	c.text = text + c.text
}

// right cuts the n characters after the cursor.
func (c *cut) right(b *prompt.Buffer, n int) {
	text := string([]rune(after(b))[:n])
	b.Delete(n)
	if !c.appending {
		c.text = ""
	}
	c.text += text
}

// The function before returns the text before the cursor of go-prompt's buffer, and the function
// after returns the text after it. count returns the length of a text in characters, because
// go-prompt counts characters.
func before(b *prompt.Buffer) string { return b.Document().TextBeforeCursor() }
func after(b *prompt.Buffer) string  { return b.Document().TextAfterCursor() }
func count(s string) int             { return utf8.RuneCountInString(s) }

// notInWord reports whether the character r separates words for the keys that move the cursor by
// words. A slash does, so a path consists of several words.
func notInWord(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// lastWord returns the length, in characters, of the last word of s together with the separators
// after it.
func lastWord(s string, separator func(rune) bool) int {
	head := strings.TrimRightFunc(s, separator)
	head = strings.TrimRightFunc(head, func(r rune) bool { return !separator(r) })
	return count(s) - count(head)
}

// firstWord returns the length, in characters, of the first word of s together with the separators
// before it.
func firstWord(s string) int {
	rest := strings.TrimLeftFunc(s, notInWord)
	rest = strings.TrimLeftFunc(rest, func(r rune) bool { return !notInWord(r) })
	return count(s) - count(rest)
}
