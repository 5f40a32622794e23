//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	prompt "github.com/c-bata/go-prompt"
)

// The keys that have a meaning of their own; go-prompt knows these two.
const (
	keyTab     = "\t"
	keyBackTab = "\x1b[Z"
)

// bound says what each key does. Names are those of actions, or handled by press.
var bound = map[string]string{
	"\x01": "home", "\x1b[H": "home", "\x1bOH": "home", "\x1b[1~": "home", "\x1b[7~": "home",
	"\x05": "end", "\x1b[F": "end", "\x1bOF": "end", "\x1b[4~": "end", "\x1b[8~": "end",
	"\x02": "left", "\x1b[D": "left", "\x1bOD": "left",
	"\x06": "right", "\x1b[C": "right", "\x1bOC": "right",
	"\x1bb": "word left", "\x1b[1;5D": "word left", "\x1b[1;3D": "word left", "\x1b[5D": "word left", "\x1bOd": "word left",
	"\x1bf": "word right", "\x1b[1;5C": "word right", "\x1b[1;3C": "word right", "\x1b[5C": "word right", "\x1bOc": "word right",
	"\x08": "erase", "\x7f": "erase",
	"\x1b[3~": "delete",
	"\x17":    "cut blank", "\x1b\x7f": "cut left", "\x1b\x08": "cut left", "\x1bd": "cut right",
	"\x15": "cut to home", "\x0b": "cut to end", "\x19": "yank",
	"\x0c": "clear", "\x1a": "suspend",
	"\x10": "older", "\x1b[A": "older", "\x1bOA": "older",
	"\x0e": "newer", "\x1b[B": "newer", "\x1bOB": "newer",
	"\x12": "search",
	"\r":   "enter", "\x03": "interrupt", "\x04": "end of input",
	"\t": "tab", "\x1b[Z": "back tab",
	"\x1b": "escape", "\x07": "escape",
	cutMark: "too long",
}

// action is what a key does to the line. It runs in Input, with mu held.
type action func(e *promptEditor, b *prompt.Buffer)

var actions = map[string]action{
	"home":        func(_ *promptEditor, b *prompt.Buffer) { b.CursorLeft(count(before(b))) },
	"end":         func(_ *promptEditor, b *prompt.Buffer) { b.CursorRight(count(after(b))) },
	"left":        func(_ *promptEditor, b *prompt.Buffer) { b.CursorLeft(1) },
	"right":       func(_ *promptEditor, b *prompt.Buffer) { b.CursorRight(1) },
	"word left":   func(_ *promptEditor, b *prompt.Buffer) { b.CursorLeft(lastWord(before(b), notInWord)) },
	"word right":  func(_ *promptEditor, b *prompt.Buffer) { b.CursorRight(firstWord(after(b))) },
	"erase":       func(_ *promptEditor, b *prompt.Buffer) { b.DeleteBeforeCursor(1) },
	"delete":      func(_ *promptEditor, b *prompt.Buffer) { b.Delete(min(1, count(after(b)))) },
	"cut blank":   func(e *promptEditor, b *prompt.Buffer) { e.edit.cutLeft(b, lastWord(before(b), unicode.IsSpace)) },
	"cut left":    func(e *promptEditor, b *prompt.Buffer) { e.edit.cutLeft(b, lastWord(before(b), notInWord)) },
	"cut right":   func(e *promptEditor, b *prompt.Buffer) { e.edit.cutRight(b, firstWord(after(b))) },
	"cut to home": func(e *promptEditor, b *prompt.Buffer) { e.edit.cutLeft(b, count(before(b))) },
	"cut to end":  func(e *promptEditor, b *prompt.Buffer) { e.edit.cutRight(b, count(after(b))) },
	"yank":        func(e *promptEditor, b *prompt.Buffer) { b.InsertText(e.edit.cut, false, true) },
	"clear":       func(e *promptEditor, _ *prompt.Buffer) { e.out.clear() },
	"interrupt": func(e *promptEditor, b *prompt.Buffer) {
		e.out.endLine()
		setLine(b, "", 0)
	},
	"suspend": func(e *promptEditor, _ *prompt.Buffer) {
		if err := e.suspend(); err != nil {
			e.exit = &exit{err: err}
		} else if e.exit == nil { // the window may have changed meanwhile
			e.exit = &exit{resize: true}
		}
	},
	"older":    (*promptEditor).older,
	"newer":    (*promptEditor).newer,
	"search":   (*promptEditor).showFound,
	"accept":   (*promptEditor).accept,
	"dismiss":  (*promptEditor).dismiss,
	"complete": (*promptEditor).complete,
}

// code is what go-prompt is given for an action: no key has it.
func code(name string) string { return "\x00" + name }

func (e *promptEditor) bindings() []prompt.ASCIICodeBind {
	var all []prompt.ASCIICodeBind
	for name, act := range actions {
		all = append(all, prompt.ASCIICodeBind{ASCIICode: []byte(code(name)), Fn: func(b *prompt.Buffer) {
			e.mu.Lock()
			defer e.mu.Unlock()
			act(e, b)
			e.edit.going = strings.HasPrefix(name, "cut")
		}})
	}
	return all
}

// press gives a key its meaning: what go-prompt shall do, or "" for nothing.
// go-prompt is idle meanwhile, so the state is that after the key before.
func (e *promptEditor) press(key string) string {
	name, isBound := bound[key]
	switch {
	case e.search != nil:
		return e.pressInSearch(key, name)
	case e.offer.selected >= 0:
		return e.pressInMenu(key, name)
	case !isBound && isControl(key[0]):
		return ""
	case name != "older" && name != "newer":
		e.walk = walk{}
	}
	switch name {
	case "": // text
		e.edit.going = false
		return key
	case "escape", "back tab":
		return ""
	case "tab":
		return e.tab()
	case "too long":
		e.tooLong = true
		return ""
	case "enter":
		e.exit = e.entered()
		return nothing
	case "end of input":
		if e.before == "" && e.view.text == "" {
			e.exit = &exit{err: io.EOF}
			return nothing
		}
		return code("delete")
	case "interrupt":
		e.tooLong = false
		if e.reading.asking {
			e.exit = &exit{err: ErrInterrupted}
			return nothing
		}
	case "search":
		if e.reading.asking {
			return ""
		}
		e.search = newSearch(e.help.Recall, e.view)
	}
	return code(name)
}

// entered is what Enter comes to. A Ctrl-C behind it stops a paste, and this line
// with it.
func (e *promptEditor) entered() *exit {
	e.take(e.tty.ready())
	switch {
	case e.keys.interrupted():
		return &exit{err: ErrInterrupted}
	case e.tooLong:
		return &exit{err: ErrTooLong}
	}
	return &exit{key: true}
}

// tab completes what can be only one thing, and else goes to the menu.
func (e *promptEditor) tab() string {
	switch n := len(e.offer.proposals.List); {
	case n == 1:
		return code("complete")
	case n == 0 || len(e.offer.menu) == 0:
		return ""
	}
	return keyTab
}

// pressInMenu moves what is selected; any other key accepts it first.
func (e *promptEditor) pressInMenu(key, name string) string {
	switch name {
	case "tab", "newer":
		return keyTab
	case "back tab", "older":
		return keyBackTab
	case "escape":
		return code("dismiss")
	}
	e.held = key
	return code("accept")
}

// edits is what was cut last.
type edits struct {
	cut   string
	going bool // the last action cut something: the next cut adds to it
}

func (c *edits) cutLeft(b *prompt.Buffer, n int) {
	text := b.DeleteBeforeCursor(n)
	if !c.going {
		c.cut = ""
	}
	c.cut = text + c.cut
}

func (c *edits) cutRight(b *prompt.Buffer, n int) {
	text := string([]rune(after(b))[:n])
	b.Delete(n)
	if !c.going {
		c.cut = ""
	}
	c.cut += text
}

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

// waitFor gives a signal a moment to come.
func waitFor(c <-chan os.Signal) {
	select {
	case <-c:
	case <-time.After(100 * time.Millisecond):
	}
}
