//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	prompt "github.com/c-bata/go-prompt"
	"github.com/mattn/go-runewidth"
	"golang.org/x/sys/unix"
)

// promptEditor edits a line with go-prompt, which keeps the text, the cursor and
// the menu of completions. What it would do wrong is done here, by its public
// interface alone: keys are cut and given their meaning one at a time (Read), the
// line is drawn by promptWriter, and each call of Input is one line.
//
// Three goroutines meet: Input's, go-prompt's reader, and whoever has something to
// show. go-prompt's reader gets a key only when Input has finished with the one
// before, so the two never run ahead of each other.
type promptEditor struct {
	lib  *prompt.Prompt
	tty  *terminal
	out  *promptWriter
	help Assistant

	windows    chan os.Signal // the window has another size
	interrupts <-chan os.Signal
	ended      sync.WaitGroup // of the goroutine that waits for those

	mu     sync.Mutex // guards all that follows; suggest and the edits, which run in Input, take it
	closed bool

	// What was typed, and what becomes of it.
	keys      keyBuffer
	later     keyBuffer // what was typed before a question, for after it
	tookAhead bool      // what was typed before the terminal was raw has been taken
	tooLong   bool      // the terminal has cut the line being typed
	held      string    // a key that waits until go-prompt has done what must come before it
	tabbed    bool      // the last key was Tab, and waits for a server's answer
	queued    string    // an order for go-prompt that comes before any key
	busy      bool      // go-prompt has an order that it has not carried out

	// What is to be shown.
	dirty    bool            // something has changed that is not a key's doing
	messages strings.Builder // whole lines to print above the line being typed
	view     view            // the line as it is to be drawn

	// The line being read.
	reading *reading // nil while there is none
	exit    *exit    // why Input is to return; nil while it is not
	before  string   // the text before the cursor
	offer   offer
	cut     cut
	walk    walk
	search  *search // nil while nothing is searched for
	found   *search // a search that has just ended, and whose line is still to be shown
}

// reading is the line being read.
type reading struct {
	prompt func() Prompt
	asking bool     // for an answer, not for a command
	unseen bool     // the answer must not show
	shown  bool     // what is typed now is typed for it
	above  []string // the lines that this one goes on with
	open   string   // what they leave open; empty if there are none
}

// shownPrompt is what stands before the line.
func (r *reading) shownPrompt() Prompt {
	if r.open != "" {
		return openPrompt(r.open)
	}
	return r.prompt()
}

// bare tells that earlier lines and completions are of no use here.
func (r *reading) bare() bool { return r.asking || r.open != "" }

// exit is why Input returns: one of key, resize and err is set.
type exit struct {
	key    bool // Enter was pressed, and the line is the result
	resize bool // Input is to be called again, which asks for the window's size
	err    error
	seen   bool   // Input knows, and is about to return
	line   string // the result of Enter
}

// newPrompt fails where go-prompt would panic: without a terminal to control.
func newPrompt(in, out *os.File, help Assistant, color bool, interrupts <-chan os.Signal) (Editor, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := tty.Close(); err != nil {
		return nil, err
	}
	if os.Getenv("RUNEWIDTH_EASTASIAN") == "" {
		// As for wcwidth: quotes and dots take one cell in a Chinese locale, too.
		runewidth.DefaultCondition.EastAsianWidth = false
	}
	e := &promptEditor{help: help, interrupts: interrupts, windows: make(chan os.Signal, 1)}
	if e.tty, err = openTerminal(in, out); err != nil {
		return nil, err
	}
	e.out = &promptWriter{to: out, size: e.tty.size, frame: e.frame, color: color}
	before := openFiles()
	e.lib = prompt.New(func(string) {}, e.suggest, e.options()...)
	closeOnExec(before) // it opens /dev/tty
	signal.Notify(e.windows, unix.SIGWINCH)
	e.ended.Go(func() {
		defer e.restoreOnPanic()
		for range e.windows { // until Close
			e.leave(nil, &exit{resize: true})
		}
	})
	return e, nil
}

// options give go-prompt our parts in place of its own, and the colours of the menu.
func (e *promptEditor) options() []prompt.Option {
	return []prompt.Option{
		prompt.OptionParser(promptKeys{e}),
		prompt.OptionWriter(e.out),
		prompt.OptionSwitchKeyBindMode(prompt.CommonKeyBind),
		prompt.OptionAddASCIICodeBind(e.bindings()...),
		prompt.OptionAddKeyBind(prompt.KeyBind{Key: prompt.Ignore, Fn: e.leaveInput}),
		prompt.OptionShowCompletionAtStart(), // after a resize there is a line already
		prompt.OptionSetExitCheckerOnInput(func(string, bool) bool { return e.leaving() }),
		prompt.OptionLivePrefix(func() (string, bool) { return e.menuPrefix(), true }),
		prompt.OptionPreviewSuggestionTextColor(previewColor),
		prompt.OptionSuggestionTextColor(prompt.White), prompt.OptionSuggestionBGColor(prompt.DarkGray),
		prompt.OptionSelectedSuggestionTextColor(prompt.Black), prompt.OptionSelectedSuggestionBGColor(selectedColor),
		prompt.OptionDescriptionTextColor(prompt.LightGray), prompt.OptionDescriptionBGColor(prompt.DarkGray),
		prompt.OptionSelectedDescriptionTextColor(prompt.Black), prompt.OptionSelectedDescriptionBGColor(selectedAboutColor),
		prompt.OptionScrollbarBGColor(prompt.DarkGray), prompt.OptionScrollbarThumbColor(prompt.LightGray),
	}
}

var _ Editor = (*promptEditor)(nil)

func (e *promptEditor) ReadLine(ctx context.Context, prompt func() Prompt) (string, error) {
	return e.read(ctx, &reading{prompt: prompt})
}

func (e *promptEditor) Ask(ctx context.Context, question string) (string, error) {
	return e.read(ctx, &reading{prompt: func() Prompt { return Prompt{Text: question} }, asking: true})
}

func (e *promptEditor) AskUnseen(ctx context.Context, question string) (string, error) {
	return e.read(ctx, &reading{prompt: func() Prompt { return Prompt{Text: question} }, asking: true, unseen: true})
}

// read reads a line, or several that belong together. A new size of the window ends
// Input, and begins it again with the line as it was.
func (e *promptEditor) read(ctx context.Context, r *reading) (string, error) {
	e.begin(r)
	if text, ok, err := e.readAhead(ctx, r); ok {
		return text, errors.Join(err, e.end())
	}
	defer e.forgetInterrupts()
	stop := context.AfterFunc(ctx, func() { e.leave(r, &exit{err: context.Cause(ctx)}) })
	defer stop()
	x := &exit{resize: true}
	for x.resize && ctx.Err() == nil { // Input asks for the size when it begins
		e.lib.Input()
		x = e.result()
	}
	if x.resize {
		x.err = context.Cause(ctx)
	}
	return x.line, errors.Join(x.err, e.end())
}

// forgetInterrupts forgets signals that came while the terminal was raw: no key sent them.
func (e *promptEditor) forgetInterrupts() {
	select {
	case <-e.interrupts:
	default:
	}
}

// begin forgets all that belonged to the line before. What was typed so far was not
// typed for a question that nobody has seen.
func (e *promptEditor) begin(r *reading) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reading, e.exit, e.held, e.queued = r, nil, "", ""
	e.walk, e.search, e.offer = walk{}, nil, offer{selected: -1}
	e.tooLong, e.tabbed, e.tookAhead = false, false, false
	if r.asking {
		e.later, e.keys = e.keys, keyBuffer{}
	}
	e.view, e.before = view{prompt: r.prompt()}, ""
	e.out.fresh()
	e.out.unsure = !r.asking
}

// result is what a call of Input has come to.
func (e *promptEditor) result() *exit {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.exit
	e.exit = nil
	return x
}

// end shows what came too late to be shown above the line.
func (e *promptEditor) end() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reading = nil
	e.keys, e.later = e.later.then(e.keys), keyBuffer{}
	_, err := e.tty.out.WriteString(e.messages.String())
	e.messages.Reset()
	return err
}

// leave has Input return as soon as it can, if it still reads this line; nil is any.
func (e *promptEditor) leave(r *reading, x *exit) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reading == nil || r != nil && r != e.reading {
		return
	}
	if e.exit == nil || e.exit.resize && !e.exit.seen {
		e.exit = x
		e.wakeUp()
	}
}

// leaveInput runs in Input when it is given the key that means nothing.
func (e *promptEditor) leaveInput(b *prompt.Buffer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.exit
	switch {
	case x == nil: // it was only to draw anew
		return
	case x.resize:
		e.queued = ""
		e.accept(b) // as go-prompt has done
		e.out.resized()
	default:
		if x.key {
			x.line = strings.Join(append(e.reading.above, b.Text()), "\n")
		}
		e.out.endLine()
		setLine(b, "", 0)
	}
	x.seen = true
}

// leaving is how go-prompt asks after each order whether Input shall return.
func (e *promptEditor) leaving() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.exit != nil && e.exit.seen
}

func (e *promptEditor) Notify(text string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reading == nil {
		_, err := e.tty.out.WriteString(text)
		return err
	}
	e.messages.WriteString(text)
	e.dirty = true
	e.wakeUp()
	return nil
}

func (e *promptEditor) Refresh() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reading != nil {
		e.dirty = true
		e.wakeUp()
	}
}

// Discard is part of Editor. The terminal has dropped what it still had.
func (e *promptEditor) Discard() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keys, e.later, e.held = keyBuffer{}, keyBuffer{}, ""
}

// wakeUp is called with mu held. A pipe that cannot be written to is the end.
func (e *promptEditor) wakeUp() {
	if err := e.tty.wake(); err != nil && e.exit == nil {
		e.exit = &exit{err: err}
	}
}

func (e *promptEditor) Close() error {
	err := e.tty.giveBack()
	e.mu.Lock()
	closed := e.closed
	idle := e.reading == nil
	e.closed, e.reading = true, nil
	e.mu.Unlock()
	if closed {
		return err
	}
	signal.Stop(e.windows)
	close(e.windows)
	e.ended.Wait()
	if idle { // else go-prompt's reader still waits, and ends with the process
		err = errors.Join(err, e.tty.close())
	}
	return err
}

// frame is called when the line is drawn.
func (e *promptEditor) frame() (messages string, v view) {
	e.mu.Lock()
	defer e.mu.Unlock()
	messages = e.messages.String()
	e.messages.Reset()
	return messages, e.view
}

// suspend stops the program as Ctrl-Z does for others, and comes back.
func (e *promptEditor) suspend() error {
	back := make(chan os.Signal, 1)
	signal.Notify(back, unix.SIGCONT)
	defer signal.Stop(back)
	e.out.endLine()
	err := e.tty.restore()
	if err == nil {
		err = unix.Kill(0, unix.SIGTSTP) // the whole job, as the terminal would
	}
	if err == nil {
		select {
		case <-back:
		case <-time.After(100 * time.Millisecond): // nobody could bring it back, so it was not stopped
		}
	}
	return errors.Join(err, e.tty.raw())
}

// setLine puts another text into go-prompt's buffer.
func setLine(b *prompt.Buffer, text string, cursor int) {
	b.CursorLeft(utf8.RuneCountInString(b.Document().TextBeforeCursor()))
	b.Delete(utf8.RuneCountInString(b.Text()))
	b.InsertText(text, false, true)
	b.CursorLeft(utf8.RuneCountInString(text) - cursor)
}
