// Package line reads lines from a person at a terminal, with completion, recall
// and messages above the line where the terminal can bear it.
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

// Editor reads lines from a person. It is the seam behind which another editor
// can stand: only New knows which there are.
type Editor interface {
	// ReadLine shows the prompt, asking for it again whenever it is drawn anew, and
	// returns the next line. One that leaves something open goes on, with a prompt of
	// its own, until nothing is; its parts are joined with \n. The error is io.EOF
	// when the person leaves, ErrInterrupted after Ctrl-C, and the context's.
	ReadLine(ctx context.Context, prompt func() Prompt) (string, error)
	// Ask is ReadLine for an answer: nothing is completed, recalled or kept.
	Ask(ctx context.Context, question string) (string, error)
	// AskUnseen is Ask for what must not show as it is typed.
	AskUnseen(ctx context.Context, question string) (string, error)
	// Notify prints whole lines at any time, without hurting the line being typed.
	Notify(text string) error
	// Refresh shows at any time what has become of the prompt and the completions.
	Refresh()
	// Discard drops what was typed ahead, as Ctrl-C does.
	Discard()
	// Close gives the terminal back. It may be called at any time and more than
	// once, also while a panic is under way.
	Close() error
}

// The errors of ReadLine and Ask, besides io.EOF and the context's.
var (
	ErrInterrupted = errors.New("interrupted")
	ErrHungUp      = errors.New("the terminal was closed")
	ErrTooLong     = errors.New("nothing was done, because the terminal truncates lines at 4095 bytes; put long data into a file, and use set -f or zksh -f")
)

// Prompt is what stands before the line being typed.
type Prompt struct {
	Text  string
	Color string // one of Colors; empty: the terminal's own
	Alert bool   // it tells of trouble, in a color of its own
}

// Colors are those that a prompt may have.
var Colors = []string{"black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"}

// Proposals are what the text before the cursor may become.
type Proposals struct {
	From    int    // where in the text, in bytes, the word begins that each takes the place of
	Begin   string // takes the word's place as well: what all begin with; empty if the word says it
	List    []Proposal
	Pending bool // there is nothing yet, but a server has been asked; Refresh tells when it has answered
}

// Proposal is one completion of a word.
type Proposal struct {
	Text  string // takes the word's place, quoted as needed
	Label string // the same for a menu; safe on a terminal
	About string // one line; may be empty; safe on a terminal
	Last  bool   // nothing is added to the word later: a blank may follow
}

// Assistant helps whoever types a line.
type Assistant struct {
	// Open tells what a line leaves open, such as a quote, if that was open before it:
	// then the next line goes on with it. Empty is nothing.
	Open     func(before, line string) string
	Complete func(before string) Proposals // quick; never asks a server
	Recall   *history.Recall               // lines typed earlier
}

// openPrompt stands before a line that goes on with what the one before left open.
func openPrompt(open string) Prompt { return Prompt{Text: open + "> "} }

// New is the richest editor that the terminal can bear: one that edits by escape
// sequences, unless the terminal cannot do with them.
func New(in, out *os.File, getenv func(string) string, help Assistant, interrupts <-chan os.Signal) Editor {
	if term := getenv("TERM"); term != "" && term != "dumb" {
		if e, err := newPrompt(in, out, help, getenv("NO_COLOR") == "", interrupts); err == nil {
			return e
		}
	}
	e := newPlain(in, out, func() error { return tty.AwaitKey(in) }, help.Open, interrupts)
	e.hide = func() (func() error, error) { return tty.HideTyped(in) }
	e.keep = func() func() error { return tty.KeepModes(in) }
	if runtime.GOOS == "windows" {
		e.broken = breakGrace
	}
	return e
}

// breakGrace is how long Windows may take to tell of the Ctrl-C that has ended a read.
// The person's own end, Ctrl-Z, takes as long.
const breakGrace = 300 * time.Millisecond

// errShown is the error of a secret that would show.
var errShown = errors.New("cannot turn off echo on this terminal, so what you type would be visible")

// plainEditor reads from a terminal that does its own line editing.
type plainEditor struct {
	out        io.Writer
	hide       func() (show func() error, err error) // has the terminal not show what is typed
	keep       func() (putBack func() error)         // notes the terminal's modes; nil: there is none
	putBack    func() error                          // undoes what the last line's programs did to them; may be nil
	open       func(before, line string) string      // of the Assistant
	wanted     chan struct{}                         // has the goroutine read one more line
	lines      chan plainLine                        // has what it has read
	reading    bool                                  // a line is wanted and has not come; only readOne uses it
	interrupts <-chan os.Signal
	broken     time.Duration // Ctrl-C ends the read as well, at most so long before it is told of; 0: it does not
	began      atomic.Bool   // the read has, and not only the wait for its first key
	cut        bool          // Ctrl-C has come since then; only readOne uses it

	mu     sync.Mutex
	prompt func() Prompt // nil but while a line is being read
}

// maxTyped is the longest line a terminal's own line editing passes on, in bytes;
// it drops the rest silently.
const maxTyped = 4095

type plainLine struct {
	text string
	err  error
}

// newPlain reads lines from in, once await has ended, and prompts on out. Ctrl-C arrives
// through interrupts while a line is being read.
func newPlain(in io.Reader, out io.Writer, await func() error, open func(before, line string) string, interrupts <-chan os.Signal) *plainEditor {
	e := &plainEditor{out: out, hide: func() (func() error, error) { return nil, errShown }, open: open, wanted: make(chan struct{}, 1), lines: make(chan plainLine, 1), interrupts: interrupts}
	// A read of a terminal cannot be broken off, so this goroutine ends with the
	// process. It reads only when a line is wanted: what is typed while a command
	// runs may be meant for a program which that has started. It goes on after an
	// error: a terminal can be read after Ctrl-D, and what has ended says so again.
	go func() {
		r := bufio.NewReader(in)
		for range e.wanted {
			var text string
			var err error
			if r.Buffered() == 0 {
				err = await()
			}
			if err == nil {
				e.began.Store(true)
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

// show prints a text and then the prompt, which Notify prints again from now on; nil
// is none. The prompt is asked for under the lock: what Notify has told before is in it.
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
	if e.putBack != nil {
		if err := e.putBack(); err != nil {
			return "", err
		}
	}
	if e.keep != nil {
		defer func() { e.putBack = e.keep() }()
	}
	text, err := e.readOne(ctx, prompt)
	for open := e.open("", text); open != "" && err == nil; {
		var line string
		line, err = e.readOne(ctx, func() Prompt { return openPrompt(open) })
		if errors.Is(err, io.EOF) { // Ctrl-D leaves what is open, and not the shell
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

// readOne reads a single line.
func (e *plainEditor) readOne(ctx context.Context, prompt func() Prompt) (string, error) {
	if err := e.show("", prompt); err != nil {
		return "", err
	}
	for {
		if !e.reading {
			e.reading, e.cut = true, false
			e.began.Store(false)
			e.wanted <- struct{}{}
		}
		select {
		case l := <-e.lines:
			e.reading = false
			if l.err == io.EOF && e.broken > 0 {
				if e.cut { // by the Ctrl-C of a line before
					continue
				}
				select {
				case <-e.interrupts:
					return "", errors.Join(ErrInterrupted, e.show("\n", nil))
				case <-time.After(e.broken):
				}
			}
			end := ""
			if l.err != nil { // Ctrl-D leaves the cursor behind the prompt
				end = "\n"
			}
			return l.text, errors.Join(l.err, e.show(end, nil))
		case <-e.interrupts:
			e.cut = e.began.Load()
			return "", errors.Join(ErrInterrupted, e.show("\n", nil))
		case <-ctx.Done():
			return "", errors.Join(context.Cause(ctx), e.show("\n", nil))
		}
	}
}

// Notify prints the text on lines of its own and shows the prompt again. What
// was typed so far stays with the terminal and is still read.
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
	show, err := e.hide()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, show()) }()
	return e.Ask(ctx, question)
}

// Refresh is part of Editor; what stands there cannot be drawn anew.
func (e *plainEditor) Refresh() {}

// Discard is part of Editor; the terminal itself drops the lines it still holds.
func (e *plainEditor) Discard() {}

// Close is part of Editor; we have not touched the terminal.
func (e *plainEditor) Close() error { return nil }
