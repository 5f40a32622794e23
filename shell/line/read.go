//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"cmp"
	"errors"
	"strings"

	prompt "github.com/c-bata/go-prompt"
)

// promptKeys is the source of keys for go-prompt.
type promptKeys struct{ e *promptEditor }

// Setup switches the terminal to raw mode. go-prompt calls it at the beginning of Input.
func (k promptKeys) Setup() error {
	err := k.e.tty.raw()
	k.e.mu.Lock()
	defer k.e.mu.Unlock()
	k.e.busy = false
	if err != nil {
		k.e.exit = &exit{err: cmp.Or(fatal(err), err)}
		return err
	}
	if !k.e.typedAheadRead {
		k.e.readTypedAhead()
	}
	k.e.typedAheadRead = false
	return nil
}

// TearDown restores the modes of the terminal. go-prompt calls it when Input ends, even by a
// panic.
func (k promptKeys) TearDown() error { return k.e.tty.restore() }

// Limits of the window size that is reported to go-prompt. go-prompt erases the screen if it
// considers the window too small. It does not use the number of rows for anything else.
const (
	minColumns = 20
	maxRows    = 1<<16 - 1
)

// GetWinSize returns the width of the window, but at least minColumns, and always maxRows as the
// height. go-prompt calls it at the beginning of Input.
func (k promptKeys) GetWinSize() *prompt.WinSize {
	columns, _ := k.e.tty.size()
	return &prompt.WinSize{Row: maxRows, Col: uint16(max(columns, minColumns))}
}

// errNoKey reports that no key has arrived yet.
var errNoKey = errors.New("no key")

// How long to wait for the rest of an escape sequence or a paste, in milliseconds.
const (
	escapeWait = 50
	pasteWait  = 1000
)

// keyRedraw is a key whose only effect is that go-prompt redraws the line.
const keyRedraw = "\x1b[E"

// Read returns the next order for go-prompt, which is a byte sequence. go-prompt's reader calls it
// repeatedly, with pauses of 10 ms. While go-prompt is busy, Read returns errNoKey at once, because
// go-prompt may be waiting for the reader to return.
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

// await waits for typed text, or until there is something to show. It returns the resulting order,
// or an empty string if there is none. The caller must hold mu.
func (e *promptEditor) await() (order string) {
	timeout := e.timeout()
	e.mu.Unlock()
	typed, late, err := e.tty.wait(timeout)
	e.mu.Lock()
	if err != nil {
		e.exit = &exit{err: err}
	}
	e.addTyped(typed)
	if late {
		e.endPaste()
	}
	return e.next(late)
}

// timeout returns how long to wait for more input, in milliseconds, or -1 to wait without limit.
func (e *promptEditor) timeout() int {
	switch {
	case e.keys.pasting || e.afterQuestion.inPaste():
		return pasteWait
	case e.keys.bytes != "":
		return escapeWait
	}
	return -1
}

// endPaste ends a paste whose end mark was lost.
func (e *promptEditor) endPaste() {
	e.keys.pasting = false
	if e.afterQuestion.inPaste() {
		e.afterQuestion.bytes += pasteEnds
	}
}

// addTyped adds typed text to the buffer to which it belongs. If a paste began before a question,
// the rest of the paste is saved until the question is answered. Ctrl-C discards that rest, and
// interrupts the question.
func (e *promptEditor) addTyped(typed string) {
	if !e.afterQuestion.inPaste() {
		e.keys.bytes += typed
		return
	}
	if at := strings.LastIndex(typed, keyInterrupt); at >= 0 {
		e.afterQuestion = keyBuffer{}
		e.keys.bytes += typed[at:]
		return
	}
	e.afterQuestion.bytes += typed
	if !e.afterQuestion.inPaste() {
		at := strings.LastIndex(e.afterQuestion.bytes, pasteEnds) + len(pasteEnds)
		e.keys.bytes += e.afterQuestion.bytes[at:]
		e.afterQuestion.bytes = e.afterQuestion.bytes[:at]
	}
}

// maxReadsAhead limits how much typed-ahead text zksh reads at a time. It is a number of reads,
// each of which returns at most 4 KiB.
const maxReadsAhead = 256

// readTypedAhead reads the text that was typed before the terminal was in raw mode. The terminal
// delivers that text in lines, and truncates a long first line. If a question has not been shown
// yet, the text cannot be the answer, so it is saved until the question is answered.
func (e *promptEditor) readTypedAhead() {
	// In the mode of the terminal between lines, Ctrl-D marks the end of the input. In raw mode,
	// Linux delivers the mark as a NUL byte.
	typed := strings.ReplaceAll(e.tty.readTyped(), "\x00", "\x04")
	if typed != "" && !strings.ContainsAny(typed[len(typed)-1:], "\r\n") {
		// The terminal has echoed this text, so the cursor is at the end of the text and not at the
		// end of other output.
		e.out.columnUnknown = false
	}
	if isTruncated(typed) {
		typed = truncatedMark + typed
	}
	if e.reading == nil || !e.reading.asking || e.reading.shown {
		e.addTyped(typed)
		return
	}
	e.reading.shown = true
	for n := 0; typed != "" && n < maxReadsAhead; n++ {
		e.afterQuestion.bytes += typed
		typed = e.tty.readTyped()
	}
	e.afterQuestion.bytes += typed
}

// isTruncated reports whether the terminal has truncated the first line of the typed text, because
// the line was too long for the terminal's own line editing. The terminal does not truncate any
// other line.
func isTruncated(typed string) bool {
	return len(typed) >= maxTyped && !strings.ContainsAny(typed[:maxTyped], "\r\n")
}

// restoreOnPanic restores the terminal if the current goroutine panics. It is deferred in
// go-prompt's reader, because a panic there does not run the deferred functions of other
// goroutines.
func (e *promptEditor) restoreOnPanic() {
	if p := recover(); p != nil {
		_ = e.tty.restore() // ignore the error, because the Go runtime reports the panic
		panic(p)
	}
}

// next returns the next order for go-prompt, which is a byte sequence: a key that go-prompt handles
// itself, text, or the order of an action. It returns an empty string if there is none. If flush is
// true, an incomplete key counts as complete.
func (e *promptEditor) next(flush bool) (order string) {
	if order := e.queuedOrder; order != "" && e.exit == nil {
		e.queuedOrder = ""
		return order
	}
	for e.exit == nil {
		key := e.heldKey
		e.heldKey = ""
		if key != "" {
			e.view.suggestion = "" // the user pressed the key before it was shown
		} else {
			key = e.keys.next(flush)
		}
		if key == "" {
			return e.redraw()
		}
		if order := e.press(key); order != "" {
			return order
		}
	}
	return keyRedraw
}

// redraw returns an order that makes go-prompt redraw the line, or an empty string if nothing has
// changed. While a menu entry is selected, every key except Tab and Shift-Tab would accept the
// entry. In this case, the order consists of these two keys, which together leave the selection
// unchanged.
func (e *promptEditor) redraw() (order string) {
	switch {
	case !e.dirty:
		return ""
	case e.completion.selected < 0:
		e.dirty = false
		return keyRedraw
	case e.messages.Len() == 0: // a new prompt or new proposals can wait
		return ""
	}
	e.dirty = false
	e.queuedOrder = keyBackTab
	return keyTab
}
