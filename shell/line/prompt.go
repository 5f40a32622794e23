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

// A promptEditor edits a line with the library go-prompt, which holds the text, the cursor and the
// menu of completions. The editor works around faults of go-prompt through its public interface:
// Read splits the input into keys and handles them one at a time, promptWriter draws the line, and
// each call of Input reads a single line.
//
// Three kinds of goroutines use a promptEditor: the one that calls Input, go-prompt's reader, and
// the callers of Notify and Refresh. The reader gets an order only after Input has handled the
// previous one, so that neither goroutine runs ahead of the other.
type promptEditor struct {
	goPrompt  *prompt.Prompt
	tty       *terminal
	out       *promptWriter
	assistant Assistant

	windows    chan os.Signal   // receives a signal when the size of the window changes
	interrupts <-chan os.Signal // receives Ctrl-C while the terminal is not in raw mode
	goroutines sync.WaitGroup   // waits for the goroutine that receives from windows

	mu     sync.Mutex // guards the fields below; suggest and the edits lock it during Input
	closed bool

	// Typed keys, and orders for go-prompt, that have not been handled yet.
	keys           keyBuffer
	afterQuestion  keyBuffer // text that was typed before a question, saved until the question is answered
	typedAheadRead bool      // whether the text that was typed before raw mode has been read
	tooLong        bool      // whether the terminal has truncated the line being typed
	heldKey        string    // key that will be handled after go-prompt has completed the next order
	tabPending     bool      // whether the last key was Tab, which takes effect when the pending proposals arrive
	queuedOrder    string    // order that go-prompt will receive before the next key is handled
	busy           bool      // whether go-prompt has received an order and has not completed it

	// Text that is drawn on the terminal.
	dirty    bool            // whether a redraw is needed although no key was pressed
	messages strings.Builder // complete lines to print above the line being typed
	view     view            // line as it should be drawn

	// State of the line being read.
	reading    *reading // nil while no line is being read
	exit       *exit    // reason why go-prompt's Input must return, or nil if it may continue
	before     string   // text before the cursor
	completion completion
	cut        cut
	walk       walk
	search     *search // nil if no search is active
	found      *search // search that has ended but whose result is not shown yet, or nil if there is none
}

// A reading describes the line being read.
type reading struct {
	prompt func() Prompt
	asking bool     // whether the line answers a question, and is not a command
	secret bool     // whether the answer is secret and must not be shown
	shown  bool     // whether the question has been shown, so that text typed from now on is its answer
	above  []string // earlier lines that this line continues
	open   string   // quote that those lines leave open, or empty if there are no such lines
}

// shownPrompt returns the prompt to show before the line.
func (r *reading) shownPrompt() Prompt {
	if r.open != "" {
		return openPrompt(r.open)
	}
	return r.prompt()
}

// view returns a view of the line, without styles or a suggestion.
func (r *reading) view(text string, cursor int) view {
	return view{prompt: r.shownPrompt(), text: text, cursor: cursor, command: !r.unassisted()}
}

// unassisted reports whether the line has no completion, recall or search.
func (r *reading) unassisted() bool { return r.asking || r.open != "" }

// An exit is the reason why go-prompt's Input returns. Exactly one of key, resize and err is set.
type exit struct {
	key          bool   // whether Enter was pressed
	resize       bool   // whether Input must be called again, because the size of the window may have changed
	err          error  // error of reading the line
	acknowledged bool   // whether go-prompt's Input has noticed the exit and is about to return
	line         string // line that was read; set if key is true
}

// newPromptEditor returns a promptEditor. It fails if the process has no controlling terminal,
// because go-prompt would panic.
func newPromptEditor(in, out *os.File, help Assistant, color palette, interrupts <-chan os.Signal) (Editor, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := tty.Close(); err != nil {
		return nil, err
	}
	if os.Getenv("RUNEWIDTH_EASTASIAN") == "" {
		// Treat quotes and dots as one cell wide, even in a Chinese locale, as wcwidth does.
		runewidth.DefaultCondition.EastAsianWidth = false
	}
	e := &promptEditor{assistant: help, interrupts: interrupts, windows: make(chan os.Signal, 1)}
	if e.tty, err = openTerminal(in, out); err != nil {
		return nil, err
	}
	e.out = &promptWriter{to: out, size: e.tty.size, frame: e.frame, color: color}
	before := openFiles()
	e.goPrompt = prompt.New(func(string) {}, e.suggest, e.options()...)
	closeOnExec(before) // child processes must not inherit /dev/tty, which go-prompt has opened
	signal.Notify(e.windows, unix.SIGWINCH)
	e.goroutines.Go(func() {
		defer e.restoreOnPanic()
		for range e.windows { // ends when Close closes the channel
			e.requestExit(nil, &exit{resize: true})
		}
	})
	return e, nil
}

// options returns the options that replace parts of go-prompt with those of this package, and that
// set the colors of the menu.
func (e *promptEditor) options() []prompt.Option {
	return []prompt.Option{
		prompt.OptionParser(promptKeys{e}),
		prompt.OptionWriter(e.out),
		prompt.OptionSwitchKeyBindMode(prompt.CommonKeyBind),
		prompt.OptionAddASCIICodeBind(e.bindings()...),
		prompt.OptionAddKeyBind(prompt.KeyBind{Key: prompt.Ignore, Fn: e.exitInput}),
		prompt.OptionShowCompletionAtStart(), // after a resize, the line is not empty
		prompt.OptionSetExitCheckerOnInput(func(string, bool) bool { return e.exiting() }),
		prompt.OptionLivePrefix(func() (string, bool) { return e.menuPrefix(), true }),
		prompt.OptionPreviewSuggestionTextColor(previewColor),
		prompt.OptionSuggestionTextColor(prompt.White), prompt.OptionSuggestionBGColor(prompt.DarkGray),
		prompt.OptionSelectedSuggestionTextColor(prompt.Black), prompt.OptionSelectedSuggestionBGColor(selectedColor),
		prompt.OptionDescriptionTextColor(prompt.LightGray), prompt.OptionDescriptionBGColor(prompt.DarkGray),
		prompt.OptionSelectedDescriptionTextColor(prompt.Black),
		prompt.OptionSelectedDescriptionBGColor(selectedAboutColor),
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
	return e.read(ctx, &reading{prompt: func() Prompt { return Prompt{Text: question} }, asking: true, secret: true})
}

// read reads a line and its continuation lines. When the size of the window changes, Input
// returns, and read calls it again with the same text.
func (e *promptEditor) read(ctx context.Context, r *reading) (string, error) {
	e.begin(r)
	if text, ok, err := e.readAhead(ctx, r); ok {
		return e.end(text, err)
	}
	defer e.forgetInterrupts()
	stop := context.AfterFunc(ctx, func() { e.requestExit(r, &exit{err: context.Cause(ctx)}) })
	defer stop()
	x := &exit{resize: true}
	for x.resize && ctx.Err() == nil { // Input determines the size of the window when it begins
		e.goPrompt.Input()
		x = e.result()
	}
	if x.resize {
		x.err = context.Cause(ctx)
	}
	return e.end(x.line, x.err)
}

// forgetInterrupts discards a signal that arrived while the terminal was in raw mode. No key sends
// a signal in that mode, so the signal is not a Ctrl-C of the user.
func (e *promptEditor) forgetInterrupts() {
	select {
	case <-e.interrupts:
	default:
	}
}

// begin prepares the editor for a new line. If the line answers a question, begin saves the text
// typed so far until the question is answered, because the user has not seen the question yet.
func (e *promptEditor) begin(r *reading) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reading, e.exit, e.heldKey, e.queuedOrder = r, nil, "", ""
	e.walk, e.search, e.completion = walk{}, nil, completion{selected: -1}
	e.tooLong, e.tabPending, e.typedAheadRead = false, false, false
	if r.asking {
		e.afterQuestion, e.keys = e.keys, keyBuffer{}
	}
	e.view, e.before = r.view("", 0), ""
	e.out.resetPositions()
	e.out.columnUnknown = !r.asking
}

// result returns the reason why Input has returned, and clears it for the next call.
func (e *promptEditor) result() *exit {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.exit
	e.exit = nil
	return x
}

// end finishes a line, and returns the line and the error. It prints the messages that arrived too
// late to be shown above the line.
func (e *promptEditor) end(line string, readErr error) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	command := e.view.command || e.reading != nil && e.reading.open != "" // Close sets reading to nil
	e.reading = nil
	e.keys, e.afterQuestion = e.afterQuestion.append(e.keys), keyBuffer{}
	_, err := e.tty.out.WriteString(e.messages.String())
	e.messages.Reset()
	if command && readErr == nil && strings.TrimSpace(line) != "" {
		e.out.beginOutput()
		err = errors.Join(err, e.out.err)
	}
	return line, errors.Join(readErr, err)
}

// requestExit makes Input return as soon as possible, with the reason x, if Input is still reading
// the line r. If r is nil, it may be reading any line.
func (e *promptEditor) requestExit(r *reading, x *exit) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reading == nil || r != nil && r != e.reading {
		return
	}
	if e.exit == nil || e.exit.resize && !e.exit.acknowledged {
		e.exit = x
		e.wakeUp()
	}
}

// exitInput runs during Input when go-prompt receives keyRedraw. If an exit has been requested,
// exitInput completes the line and makes Input return.
func (e *promptEditor) exitInput(b *prompt.Buffer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.exit
	switch {
	case x == nil: // only a redraw was requested
		return
	case x.resize:
		e.queuedOrder = ""
		e.accept(b) // go-prompt has already inserted the selected entry
		e.out.resized()
	default:
		if x.key {
			x.line = strings.Join(append(e.reading.above, b.Text()), "\n")
		}
		e.out.endLine()
		setLine(b, "", 0)
	}
	x.acknowledged = true
}

// exiting reports whether Input must return. go-prompt calls it after each order.
func (e *promptEditor) exiting() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.exit != nil && e.exit.acknowledged
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

// Discard drops the typed-ahead text that the editor holds. The terminal has already dropped the
// typed-ahead text that it held.
func (e *promptEditor) Discard() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keys, e.afterQuestion, e.heldKey = keyBuffer{}, keyBuffer{}, ""
}

// wakeUp ends the wait for keys. If it fails, the error will be returned by ReadLine. The caller
// must hold mu.
func (e *promptEditor) wakeUp() {
	if err := e.tty.wake(); err != nil && e.exit == nil {
		e.exit = &exit{err: err}
	}
}

func (e *promptEditor) Close() error {
	err := e.tty.release()
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
	e.goroutines.Wait()
	if idle { // otherwise, go-prompt's reader uses the pipe until the process exits
		err = errors.Join(err, e.tty.close())
	}
	return err
}

// frame returns the messages to print and the line to draw below them.
func (e *promptEditor) frame() (messages string, v view) {
	e.mu.Lock()
	defer e.mu.Unlock()
	messages = e.messages.String()
	e.messages.Reset()
	return messages, e.view
}

// suspend stops the process, as Ctrl-Z does for other programs. It returns when the process is
// resumed.
func (e *promptEditor) suspend() error {
	back := make(chan os.Signal, 1)
	signal.Notify(back, unix.SIGCONT)
	defer signal.Stop(back)
	e.out.endLine()
	err := e.tty.restore()
	if err == nil {
		err = unix.Kill(0, unix.SIGTSTP) // stops all processes of the job, as the terminal would
	}
	if err == nil {
		select {
		case <-back:
		case <-time.After(100 * time.Millisecond): // the system does not stop a job that no shell could resume
		}
	}
	return errors.Join(err, e.tty.raw())
}

// setLine sets the text and the position of the cursor in go-prompt's buffer.
func setLine(b *prompt.Buffer, text string, cursor int) {
	b.CursorLeft(utf8.RuneCountInString(b.Document().TextBeforeCursor()))
	b.Delete(utf8.RuneCountInString(b.Text()))
	b.InsertText(text, false, true)
	b.CursorLeft(utf8.RuneCountInString(text) - cursor)
}
