// Package line reads lines from a person at a terminal, with completion, recall
// and messages above the line where the terminal can bear it.
package line

import (
	"context"
	"errors"
	"os"

	"github.com/zksh/zksh/history"
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
	ErrHungUp      = errors.New("the terminal is gone")
	ErrTooLong     = errors.New("the terminal cuts lines of 4095 bytes and more; nothing was done: put long data into a file, for set -f or zksh -f")
)

// Prompt is what stands before the line being typed.
type Prompt struct {
	Text  string
	Alert bool // it tells of trouble
}

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
		if e, err := newPrompt(in, out, help, getenv("NO_COLOR") == ""); err == nil {
			return e
		}
	}
	return newPlain(in, out, help.Open, interrupts)
}
