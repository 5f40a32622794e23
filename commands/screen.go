package commands

import (
	"context"

	"github.com/zksh/zksh/internal/render"
)

// Screen is where a command shows what it has to say. Its methods may be called
// from any goroutine; nothing of one call runs into that of another. The one for
// tests is in package commandtest.
type Screen interface {
	// Print shows an answer, on standard output.
	Print(v render.Value) error
	// Note makes a remark, on standard error; a shell that is asked to be quiet
	// drops it.
	Note(text string)
	// Alert prints on standard error that something happened in the meantime, even if
	// the shell is quiet.
	Alert(text string)
	// Ask puts a question to the person at the terminal, whose answer is yes or no.
	// It is an error to ask where nobody is, which is in every Mode but ByHand.
	Ask(ctx context.Context, question string) (yes bool, err error)
	// AskUnseen is Ask for a secret, which does not show as it is typed.
	AskUnseen(ctx context.Context, question string) (answer string, err error)
	// Lend leaves the terminal to a program that do runs: Ctrl-C is the program's, and
	// events wait.
	Lend(do func() error) error
	// Progress shows how far a long piece of work is, if there is a terminal to show
	// it on and the shell is not asked to be quiet. end takes the show away.
	Progress(verb string) (update func(done, total int), end func())
	// Region begins a piece of the terminal that is drawn anew in its place.
	Region(on Stream) Region
}

// Region is some lines of a terminal that are drawn anew in their place, while
// other things are printed above them. It belongs to one goroutine.
type Region interface {
	// Size is that of the terminal in columns and rows. Zeros mean that there is
	// none, or that a program reads what is printed there; then Draw does nothing.
	Size() (columns, rows int)
	// Draw puts lines into the place of those it drew before. They are made
	// harmless, and cut to the window.
	Draw(lines ...string) error
	// Close ends the region; keep leaves what it shows where it is.
	Close(keep bool) error
}

// Stream is one of the two that a shell writes to.
type Stream int

// The streams.
const (
	Answers Stream = iota // standard output
	Remarks               // standard error
)
