// Package line reads lines that a person types at a terminal.
//
// New returns an Editor. If the terminal understands control sequences, this is a promptEditor,
// which uses the library go-prompt and offers completion, recall of earlier lines, search, and
// messages above the line. On other terminals, and on systems other than Unix, it is a
// plainEditor, which leaves line editing to the terminal.
//
// In the promptEditor, keyBuffer splits the input into keys, promptEditor.press handles each key,
// and promptWriter draws the line. Begin reading there.
//
// This package is part of the program zksh and may change at any time.
package line

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zksh/zksh/history"
	"github.com/zksh/zksh/internal/tty"
)

// An Editor reads lines that a person types.
type Editor interface {
	// ReadLine shows a prompt and returns the next line. It calls prompt each time it draws the
	// prompt. If the line leaves a quote open, ReadLine reads further lines, with another prompt,
	// until the quote is closed, and joins the lines with \n. The error is io.EOF at the end of
	// input (Ctrl-D), ErrInterrupted after Ctrl-C, or the cause of the cancellation of ctx.
	ReadLine(ctx context.Context, prompt func() Prompt) (string, error)
	// Ask shows a question and returns the answer. It offers no completion and no earlier lines,
	// and an open quote does not continue the answer.
	Ask(ctx context.Context, question string) (string, error)
	// AskUnseen is like Ask, but does not show the answer as it is typed.
	AskUnseen(ctx context.Context, question string) (string, error)
	// Notify prints complete lines above the line being typed. It may be called at any time.
	Notify(text string) error
	// Refresh redraws the prompt and computes the completions again. It may be called at any time.
	Refresh()
	// Discard drops the text that the user has typed ahead, as Ctrl-C does.
	Discard()
	// Close restores the terminal. It may be called at any time and more than once, even
	// during a panic.
	Close() error
}

// Errors that ReadLine and Ask return, besides io.EOF and the cause of a cancelled context.
var (
	ErrInterrupted = errors.New("interrupted")
	ErrHungUp      = errors.New("the terminal was closed")
	ErrTooLong     = errors.New("nothing was done, because the terminal truncates lines at 4095 bytes; " +
		"put long data into a file, and use set -f or zksh -f")
)

// A Prompt is the text before the line being typed.
type Prompt struct {
	Text   string
	Color  string // one of Colors; empty for the terminal's default
	Alert  bool   // whether to show the prompt in the color for problems
	Status int    // exit status of the last line, for terminals that mark prompts
}

// Colors are the names of the colors that a prompt may have.
var Colors = []string{"black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"}

// Proposals are the completions of the word before the cursor.
type Proposals struct {
	From int // byte offset of the word in the text before the cursor
	// longest common prefix of all proposals, quoted as needed; empty if it is not longer than the
	// word
	CommonPrefix string
	List         []Proposal // proposals, each of which would replace the word
	Pending      bool       // whether a server has not answered yet; Refresh is called when the answer arrives
}

// A Proposal is one completion of a word.
type Proposal struct {
	Text     string // text that replaces the word, quoted as needed
	Label    string // text in the menu; safe on a terminal
	About    string // one-line description; may be empty; safe on a terminal
	Complete bool   // whether the word is complete, so that a space may follow it
}

// An Assistant provides the functions of an Editor that depend on the syntax of a command line.
type Assistant struct {
	// Open returns the quote that is open at the end of a line, or an empty string if there is
	// none. before is the quote that is open at the beginning of the line. An open quote makes the
	// next line a continuation of this one.
	Open func(before, line string) string
	// completes the text before the cursor, without waiting for a server; may be nil
	Complete func(before string) Proposals
	Recall   *history.Recall // earlier lines
	// Recallable reports whether the Up key recalls an earlier line. If it is nil, Up recalls all.
	Recallable func(e history.Entry) bool
	// Suggest returns text that the user may want to type after line, or an empty string. The editor
	// shows it behind the cursor. If Suggest is nil, the editor makes no suggestions at all.
	Suggest func(line string) string
	Paint   func(line string) []Span // returns the parts of a line to show in a style; may be nil
}

// openPrompt returns the prompt of a continuation line. open is the quote that is still open.
func openPrompt(open string) Prompt { return Prompt{Text: open + "> "} }

// New returns a promptEditor if the terminal understands control sequences, and otherwise a
// plainEditor. It reads the variables TERM and NO_COLOR with getenv. The editor receives Ctrl-C
// from interrupts.
func New(in, out *os.File, getenv func(string) string, help Assistant, interrupts <-chan os.Signal) Editor {
	if term := getenv("TERM"); term != "" && term != "dumb" {
		if e, err := newPromptEditor(in, out, help, paletteOf(getenv), interrupts); err == nil {
			return e
		}
	}
	e := newPlainEditor(in, out, func() error { return tty.AwaitKey(in) }, help.Open, interrupts)
	e.turnOffEcho = func() (func() error, error) { return tty.HideTyped(in) }
	e.saveModes = func() func() error { return tty.KeepModes(in) }
	if runtime.GOOS == "windows" {
		e.interruptDelay = interruptDelay
	}
	return e
}

// interruptDelay is how long the editor waits for the signal of Ctrl-C after a read has ended. It
// is used only on Windows, where Ctrl-C ends a read before zksh receives the signal. Because Ctrl-Z
// ends a read in the same way, the editor also waits after Ctrl-Z.
const interruptDelay = 300 * time.Millisecond

// errEchoOn is the error of AskUnseen if it cannot hide the answer.
var errEchoOn = errors.New("cannot turn off echo on this terminal, so what you type would be visible")

// A plainEditor reads lines from a terminal that does its own line editing.
type plainEditor struct {
	out io.Writer
	// turns the terminal's echo off, and returns a function that turns it on again
	turnOffEcho func() (show func() error, err error)
	// saves the terminal modes, and returns a function that restores them; may be nil
	saveModes func() (putBack func() error)
	// undoes the changes that programs have made to the modes; nil before the first line
	restoreModes func() error
	// returns the quote that is open after a line; see Assistant.Open
	open     func(before, line string) string
	requests chan struct{}  // makes the reading goroutine read one line
	lines    chan plainLine // lines that the reading goroutine has read
	// whether a line has been requested but has not arrived; used only by readOne
	reading    bool
	interrupts <-chan os.Signal
	// longest wait for a signal after a read ends with io.EOF; 0 if Ctrl-C does not end a read
	interruptDelay  time.Duration
	readBegan       atomic.Bool // whether the read has begun, because its first key was pressed
	interruptedRead bool        // whether Ctrl-C was pressed after the read began; used only by readOne

	mu     sync.Mutex    // guards prompt and writes to out
	prompt func() Prompt // returns the current prompt; nil unless a line is being read
}

// maxTyped is the maximum length, in bytes, of a line that a terminal edits itself. The terminal
// drops the rest of a longer line without notice.
const maxTyped = 4095

type plainLine struct {
	text string
	err  error
}

// newPlainEditor returns a plainEditor that reads from in and prints prompts on out. Before each
// read, it calls await to wait for the first key. It receives Ctrl-C from interrupts.
func newPlainEditor(in io.Reader, out io.Writer, await func() error, open func(before, line string) string,
	interrupts <-chan os.Signal) *plainEditor {
	e := &plainEditor{out: out, turnOffEcho: func() (func() error, error) { return nil, errEchoOn }, open: open,
		requests: make(chan struct{}, 1), lines: make(chan plainLine, 1), interrupts: interrupts}
	// A read from a terminal cannot be cancelled, so this goroutine lives until the process exits.
	// It reads only when a line is requested, because text typed while a command runs may be meant
	// for a program that the command has started. It continues after an error, because a terminal
	// can be read again after Ctrl-D. A closed terminal returns the error again.
	go func() {
		r := bufio.NewReader(in)
		for range e.requests {
			var text string
			var err error
			if r.Buffered() == 0 {
				err = await()
			}
			if err == nil {
				e.readBegan.Store(true)
				text, err = r.ReadString('\n')
			}
			text = strings.TrimRight(text, "\r\n")
			switch {
			case err == io.EOF && text != "":
				err = nil
			case err == nil && len(text) >= maxTyped:
				text, err = "", ErrTooLong
			}
			e.lines <- plainLine{text, err}
		}
	}()
	return e
}

// show prints a text, followed by the prompt unless prompt is nil. From then on, Notify prints the
// same prompt again. show calls prompt while it holds mu, so that the prompt is at least as recent
// as the messages before it.
func (e *plainEditor) show(text string, prompt func() Prompt) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.prompt = prompt
	if prompt != nil {
		text += prompt().Text
	}
	_, err := io.WriteString(e.out, text)
	return err
}

var _ Editor = (*plainEditor)(nil)

func (e *plainEditor) ReadLine(ctx context.Context, prompt func() Prompt) (string, error) {
	if e.restoreModes != nil {
		if err := e.restoreModes(); err != nil {
			return "", err
		}
	}
	if e.saveModes != nil {
		defer func() { e.restoreModes = e.saveModes() }()
	}
	text, err := e.readOne(ctx, prompt)
	for open := e.open("", text); open != "" && err == nil; {
		var line string
		line, err = e.readOne(ctx, func() Prompt { return openPrompt(open) })
		if errors.Is(err, io.EOF) { // Ctrl-D discards the lines with the open quote, but does not end the shell
			err = ErrInterrupted
		}
		text += "\n" + line
		open = e.open(open, line)
	}
	if err != nil {
		return "", err
	}
	return text, nil
}

// readOne reads a single line, which may leave a quote open.
func (e *plainEditor) readOne(ctx context.Context, prompt func() Prompt) (string, error) {
	if err := e.show("", prompt); err != nil {
		return "", err
	}
	for {
		if !e.reading {
			e.reading, e.interruptedRead = true, false
			e.readBegan.Store(false)
			e.requests <- struct{}{}
		}
		select {
		case l := <-e.lines:
			e.reading = false
			if l.err == io.EOF && e.interruptDelay > 0 {
				if e.interruptedRead { // the read was ended by a Ctrl-C that has already been handled
					continue
				}
				select {
				case <-e.interrupts:
					return "", errors.Join(ErrInterrupted, e.show("\n", nil))
				case <-time.After(e.interruptDelay):
				}
			}
			end := ""
			if l.err != nil { // after Ctrl-D, the cursor is still behind the prompt
				end = "\n"
			}
			return l.text, errors.Join(l.err, e.show(end, nil))
		case <-e.interrupts:
			e.interruptedRead = e.readBegan.Load()
			return "", errors.Join(ErrInterrupted, e.show("\n", nil))
		case <-ctx.Done():
			return "", errors.Join(context.Cause(ctx), e.show("\n", nil))
		}
	}
}

// Notify prints the text on a new line and shows the prompt again. The terminal keeps the text
// that the user has typed, although that text no longer appears after the prompt.
func (e *plainEditor) Notify(text string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.prompt != nil {
		text = "\n" + text + e.prompt().Text
	}
	_, err := io.WriteString(e.out, text)
	return err
}

func (e *plainEditor) Ask(ctx context.Context, question string) (string, error) {
	return e.readOne(ctx, func() Prompt { return Prompt{Text: question} })
}

func (e *plainEditor) AskUnseen(ctx context.Context, question string) (answer string, err error) {
	show, err := e.turnOffEcho()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, show()) }()
	return e.Ask(ctx, question)
}

// Refresh does nothing, because a plainEditor cannot redraw a line that the terminal itself edits.
func (e *plainEditor) Refresh() {}

// Discard does nothing, because on Ctrl-C the terminal itself drops the text that was typed ahead.
func (e *plainEditor) Discard() {}

// Close does nothing, because a plainEditor does not change the terminal.
func (e *plainEditor) Close() error { return nil }
