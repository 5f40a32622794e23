//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"cmp"
	"errors"
	"strings"

	prompt "github.com/c-bata/go-prompt"
)

// promptKeys is what go-prompt takes keys from.
type promptKeys struct{ e *promptEditor }

// Setup is called when Input begins.
func (k promptKeys) Setup() error {
	err := k.e.tty.raw()
	k.e.mu.Lock()
	defer k.e.mu.Unlock()
	k.e.busy = false
	if err != nil {
		k.e.exit = &exit{err: cmp.Or(again(err), err)}
		return err
	}
	if !k.e.tookAhead {
		k.e.takeAhead()
	}
	k.e.tookAhead = false
	return nil
}

// TearDown is called when Input ends, also by a panic.
func (k promptKeys) TearDown() error { return k.e.tty.restore() }

// Sizes that go-prompt cannot do with: it clears a screen it thinks too small, and
// it knows no other use for the number of rows.
const (
	leastColumns = 20
	manyRows     = 1<<16 - 1
)

// GetWinSize is called when Input begins.
func (k promptKeys) GetWinSize() *prompt.WinSize {
	columns, _ := k.e.tty.size()
	return &prompt.WinSize{Row: manyRows, Col: uint16(max(columns, leastColumns))}
}

// errNoKey says that there is no key just now.
var errNoKey = errors.New("no key")

// How long the rest may take of an escape sequence, and of a paste, in milliseconds.
const (
	escapeWait = 50
	pasteWait  = 1000
)

// nothing is a key without a meaning: go-prompt only draws anew.
const nothing = "\x1b[E"

// Read is called by go-prompt's reader again and again, with a pause of 10 ms. It
// returns go-prompt's next order, and does not wait while go-prompt is busy:
// that may be with ending the reader.
func (k promptKeys) Read() ([]byte, error) {
	e := k.e
	defer e.restoreOnPanic()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.busy {
		return nil, errNoKey
	}
	order := e.next(false)
	for order == "" {
		order = e.await()
	}
	e.busy = true
	return []byte(order), nil
}

// await waits for what was typed, or for what there is to show, and decides then.
// Called with mu held.
func (e *promptEditor) await() (order string) {
	timeout := e.patience()
	e.mu.Unlock()
	typed, late, err := e.tty.wait(timeout)
	e.mu.Lock()
	if err != nil {
		e.exit = &exit{err: err}
	}
	e.take(typed)
	if late {
		e.endPaste()
	}
	return e.next(late)
}

// patience is how long to wait for more, in milliseconds; -1 is for ever.
func (e *promptEditor) patience() int {
	switch {
	case e.keys.pasting || e.later.open():
		return pasteWait
	case e.keys.bytes != "":
		return escapeWait
	}
	return -1
}

// endPaste ends a paste whose end mark is lost.
func (e *promptEditor) endPaste() {
	e.keys.pasting = false
	if e.later.open() {
		e.later.bytes += pasteEnds
	}
}

// take files what was typed. The rest of a paste that began before a question is no
// answer to it; Ctrl-C is.
func (e *promptEditor) take(typed string) {
	if !e.later.open() {
		e.keys.bytes += typed
		return
	}
	if at := strings.LastIndex(typed, keyInterrupt); at >= 0 {
		e.later = keyBuffer{}
		e.keys.bytes += typed[at:]
		return
	}
	e.later.bytes += typed
	if !e.later.open() {
		at := strings.LastIndex(e.later.bytes, pasteEnds) + len(pasteEnds)
		e.keys.bytes += e.later.bytes[at:]
		e.later.bytes = e.later.bytes[:at]
	}
}

// mostAhead bounds what is read ahead of a question, in pieces of 4 KiB.
const mostAhead = 256

// takeAhead takes what was typed before the terminal was raw: in lines, of which a
// long first one is cut. Of that nothing is an answer to a question yet to be shown.
func (e *promptEditor) takeAhead() {
	typed := e.tty.ready()
	if typed != "" && !strings.ContainsAny(typed[len(typed)-1:], "\r\n") { // it is what the terminal has shown there
		e.out.unsure = false
	}
	if wasCut(typed) {
		typed = cutMark + typed
	}
	if e.reading == nil || !e.reading.asking || e.reading.shown {
		e.take(typed)
		return
	}
	e.reading.shown = true
	for n := 0; typed != "" && n < mostAhead; n++ {
		e.later.bytes += typed
		typed = e.tty.ready()
	}
	e.later.bytes += typed
}

// wasCut reports whether a terminal that edits its own lines has dropped the rest of
// the first one: it drops nothing else.
func wasCut(typed string) bool {
	return len(typed) >= maxTyped && !strings.ContainsAny(typed[:maxTyped], "\r\n")
}

// restoreOnPanic gives the terminal back when go-prompt's reader panics; nothing
// deferred elsewhere runs then.
func (e *promptEditor) restoreOnPanic() {
	if p := recover(); p != nil {
		_ = e.tty.restore() // the panic is what has to be told
		panic(p)
	}
}

// next is the next order for go-prompt: a key it knows, text, or an action's; "" if
// there is none.
func (e *promptEditor) next(flush bool) (order string) {
	if order := e.queued; order != "" && e.exit == nil {
		e.queued = ""
		return order
	}
	for e.exit == nil {
		key := e.held
		e.held = ""
		if key == "" {
			key = e.keys.next(flush)
		}
		if key == "" {
			return e.redraw()
		}
		if order := e.press(key); order != "" {
			return order
		}
	}
	return nothing
}

// redraw has go-prompt draw anew if there is anything to show. Any key but Tab
// would accept what is selected in the menu, so then it is two of them.
func (e *promptEditor) redraw() (order string) {
	switch {
	case !e.dirty:
		return ""
	case e.offer.selected < 0:
		e.dirty = false
		return nothing
	case e.messages.Len() == 0: // it can wait
		return ""
	}
	e.dirty = false
	e.queued = keyBackTab
	return keyTab
}
