//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package shell

import (
	"cmp"
	"errors"

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
	}
	return err
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

// escapeWait is how long the rest of an escape sequence may take, in milliseconds.
const escapeWait = 30

// nothing is a key without a meaning: go-prompt only draws anew.
const nothing = "\x1b[E"

// Read is called by go-prompt's reader again and again, with a pause of 10 ms. It
// returns what go-prompt shall do next, and does not wait while go-prompt is busy:
// that may be with ending the reader.
func (k promptKeys) Read() ([]byte, error) {
	e := k.e
	defer e.restoreOnPanic()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.busy {
		return nil, errNoKey
	}
	event := e.next(false)
	for event == "" {
		event = e.await()
	}
	e.busy = true
	return []byte(event), nil
}

// await waits for what was typed, or for what there is to show, and decides then.
// Called with mu held.
func (e *promptEditor) await() (event string) {
	timeout := -1
	if e.keys.bytes != "" {
		timeout = escapeWait
	}
	e.mu.Unlock()
	typed, late, err := e.tty.wait(timeout)
	e.mu.Lock()
	if err != nil {
		e.exit = &exit{err: err}
	}
	e.keys.bytes += typed
	return e.next(late)
}

// restoreOnPanic gives the terminal back when go-prompt's reader panics; nothing
// deferred elsewhere runs then.
func (e *promptEditor) restoreOnPanic() {
	if p := recover(); p != nil {
		_ = e.tty.restore() // the panic is what has to be told
		panic(p)
	}
}

// next decides what go-prompt shall do next, or "" if there is nothing.
func (e *promptEditor) next(flush bool) string {
	if event := e.queued; event != "" && e.exit == nil {
		e.queued = ""
		return event
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
		if event := e.press(key); event != "" {
			return event
		}
	}
	return nothing
}

// redraw has go-prompt draw anew if there is anything to show. Any key but Tab
// would accept what is selected in the menu, so then it is two of them.
func (e *promptEditor) redraw() string {
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
