//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"
)

// readAhead reads a line that the user has already typed or pasted, including Enter, and shows it
// as go-prompt would. It makes pasting fast, because go-prompt would pause for 10 ms three times in
// each line. ok is false if go-prompt must read the line or the rest of it. In this case, the
// terminal is in raw mode.
func (e *promptEditor) readAhead(ctx context.Context, r *reading) (text string, ok bool, err error) {
	// if raw failed, it fails again in Setup, which reports the error
	if r.asking || ctx.Err() != nil || e.tty.raw() != nil {
		return "", false, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.readTypedAhead()
	e.typedAheadRead = true
	select {
	case <-e.interrupts: // Ctrl-C was pressed after the last command and before raw mode
		e.keys = keyBuffer{}
		e.out.endLine()
		return "", true, errors.Join(ErrInterrupted, e.tty.restore())
	default:
	}
	for {
		line, rest, whole := e.completeLine()
		if !whole {
			e.view = r.view("", 0)
			return "", false, nil
		}
		e.keys = rest
		e.view = r.view(line, utf8.RuneCountInString(line))
		e.paint(&e.view)
		messages := e.messages.String()
		e.messages.Reset()
		if err := e.out.writeLine(messages, e.view); err != nil {
			return "", true, errors.Join(err, e.tty.restore())
		}
		open := e.assistant.Open(r.open, line)
		if open == "" {
			e.typedAheadRead = false
			return strings.Join(append(r.above, line), "\n"), true, e.tty.restore()
		}
		r.above, r.open = append(r.above, line), open
	}
}

// completeLine returns the text that was typed before the first Enter, and the keys after it. ok
// is false if there is no Enter yet, if a key before Enter edits the line, or if Ctrl-C was
// pressed.
func (e *promptEditor) completeLine() (line string, rest keyBuffer, ok bool) {
	for n := 0; ; n++ {
		if strings.Contains(e.keys.bytes, keyInterrupt) {
			return "", rest, false
		}
		if line, rest, ok = e.keys.line(); ok || n == maxReadsAhead {
			return line, rest, ok
		}
		more := e.tty.readTyped()
		if more == "" {
			return "", rest, false
		}
		e.addTyped(more)
	}
}

// writeLine prints messages, and below them a line that is finished. It then moves the cursor to
// the row below that line.
func (w *promptWriter) writeLine(messages string, v view) error {
	w.updateSize()
	w.writeMessages(messages, v)
	w.draw(v)
	w.endLine()
	return w.err
}
