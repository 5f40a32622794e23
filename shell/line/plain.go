package line

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
)

// plainEditor reads from a terminal that does its own line editing.
type plainEditor struct {
	out        io.Writer
	open       func(before, line string) string // of the Assistant
	wanted     chan struct{}                    // has the goroutine read one more line
	lines      chan plainLine                   // has what it has read
	reading    bool                             // a line is wanted and has not come; only readOne uses it
	interrupts <-chan os.Signal

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

// newPlain reads lines from in and prompts on out. Ctrl-C arrives through
// interrupts while a line is being read.
func newPlain(in io.Reader, out io.Writer, open func(before, line string) string, interrupts <-chan os.Signal) Editor {
	e := &plainEditor{out: out, open: open, wanted: make(chan struct{}, 1), lines: make(chan plainLine, 1), interrupts: interrupts}
	// A read of a terminal cannot be broken off, so this goroutine ends with the
	// process. It reads only when a line is wanted: what is typed while a command
	// runs may be meant for a program which that has started. It goes on after an
	// error: a terminal can be read after Ctrl-D, and what has ended says so again.
	go func() {
		r := bufio.NewReader(in)
		for range e.wanted {
			text, err := r.ReadString('\n')
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

// ReadLine is part of Editor.
func (e *plainEditor) ReadLine(ctx context.Context, prompt func() Prompt) (string, error) {
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
	if !e.reading {
		e.reading = true
		e.wanted <- struct{}{}
	}
	select {
	case l := <-e.lines:
		e.reading = false
		end := ""
		if l.err != nil { // Ctrl-D leaves the cursor behind the prompt
			end = "\n"
		}
		return l.text, errors.Join(l.err, e.show(end, nil))
	case <-e.interrupts:
		return "", errors.Join(ErrInterrupted, e.show("\n", nil))
	case <-ctx.Done():
		return "", errors.Join(context.Cause(ctx), e.show("\n", nil))
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

// Ask is part of Editor.
func (e *plainEditor) Ask(ctx context.Context, question string) (string, error) {
	return e.readOne(ctx, func() Prompt { return Prompt{Text: question} })
}

// Refresh is part of Editor; what stands there cannot be drawn anew.
func (e *plainEditor) Refresh() {}

// Discard is part of Editor; the terminal itself drops the lines it still holds.
func (e *plainEditor) Discard() {}

// Close is part of Editor; the terminal was not touched.
func (e *plainEditor) Close() error { return nil }
