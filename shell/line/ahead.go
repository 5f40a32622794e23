//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"
)

// readAhead reads the line of r if it has been typed or pasted up to its Enter, and shows
// it as if go-prompt had read it. go-prompt pauses for 10 ms three times in each line, which
// makes a paste slow. ok is false if go-prompt is to read the line, or the rest of it: then
// the terminal is raw.
func (e *promptEditor) readAhead(ctx context.Context, r *reading) (text string, ok bool, err error) {
	if r.asking || ctx.Err() != nil || e.tty.raw() != nil { // go-prompt fails as well, and reports it
		return "", false, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.takeAhead()
	e.tookAhead = true
	select {
	case <-e.interrupts: // Ctrl-C, after the last command and before the terminal was raw
		e.keys = keyBuffer{}
		e.out.endLine()
		return "", true, errors.Join(ErrInterrupted, e.tty.restore())
	default:
	}
	for {
		line, rest, whole := e.wholeLine()
		if !whole {
			e.view = view{prompt: r.shownPrompt()}
			return "", false, nil
		}
		e.keys = rest
		e.view = view{prompt: r.shownPrompt(), text: line, cursor: utf8.RuneCountInString(line)}
		messages := e.messages.String()
		e.messages.Reset()
		if err := e.out.lineOf(messages, e.view); err != nil {
			return "", true, errors.Join(err, e.tty.restore())
		}
		open := e.help.Open(r.open, line)
		if open == "" {
			e.tookAhead = false
			return strings.Join(append(r.above, line), "\n"), true, e.tty.restore()
		}
		r.above, r.open = append(r.above, line), open
	}
}

// wholeLine returns the text that was typed up to Enter, and what was typed behind it. It is
// no whole line if it has a key that edits, or if Ctrl-C was pressed behind it.
func (e *promptEditor) wholeLine() (line string, rest keyBuffer, ok bool) {
	for n := 0; ; n++ {
		if strings.Contains(e.keys.bytes, keyInterrupt) {
			return "", rest, false
		}
		if line, rest, ok = e.keys.line(); ok || n == mostAhead {
			return line, rest, ok
		}
		more := e.tty.ready()
		if more == "" {
			return "", rest, false
		}
		e.take(more)
	}
}

// lineOf shows messages and a line that nobody edits any more, and goes to the row below.
func (w *promptWriter) lineOf(messages string, v view) error {
	w.lookAtSize()
	w.above(messages)
	w.draw(v)
	w.endLine()
	return w.err
}
